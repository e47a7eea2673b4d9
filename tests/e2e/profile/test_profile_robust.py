# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek profile beside other libraries, and with difficult programs: they run as without it."""
import json
import pathlib
import re
import subprocess

import pytest

from paths import TOP

# Two threads that hand each other a condition, so many times or 500.
COND = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int times = 500;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long turn, turns;
static void *hand(void *me)
{
	for (int i = 0; i < times; i++) {
		pthread_mutex_lock(&lock);
		while (turn != (long)me)
			pthread_cond_wait(&turned, &lock);
		turns++;
		turn = !turn;
		pthread_cond_broadcast(&turned);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t threads[2];
	if (argc > 1)
		times = atoi(argv[1]);
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, hand, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%ld\n", turns);
}
"""

# So many threads at the same time, one after the other.
THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *run(void *unused) { free(malloc(100)); return unused; }
int main(void)
{
	pthread_t threads[50];
	for (int i = 0; i < 50; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < 50; i++)
		pthread_join(threads[i], NULL);
	puts("done");
}
"""

# A signal handler that forks, in a wait.
SIGNAL_FORK = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile pid_t child = -1;
static void fork_here(int number) { (void)number; child = fork(); }
int main(void)
{
	struct timespec time = {3, 0};
	int status;
	signal(SIGALRM, fork_here);
	ualarm(200000, 0);
	nanosleep(&time, NULL);
	if (child == 0)
		_exit(5);
	waitpid(child, &status, 0);
	printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}
"""

# A signal handler that forks out of a timed call: open(), which waits for a writer of the FIFO.
CALL_FORK = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile pid_t child = -1;
static char name[] = "/tmp/tek-call-fork.XXXXXX";
static void fork_here(int number)
{
	(void)number;
	if (open(name, O_RDWR) < 0)
		abort();
	child = fork();
}
int main(void)
{
	int status;
	close(mkstemp(name));
	unlink(name);
	if (mkfifo(name, 0600))
		return 1;
	signal(SIGALRM, fork_here);
	ualarm(200000, 0);
	if (open(name, O_RDONLY) < 0)
		return 2;
	if (child == 0)
		_exit(5);
	waitpid(child, &status, 0);
	unlink(name);
	printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}
"""

# A semaphore that is always free, in a thread that is cancelled.
SEMAPHORE_CANCEL = r"""
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>
static sem_t semaphore;
static void *run(void *unused)
{
	for (;;) {
		sem_wait(&semaphore);
		sem_post(&semaphore);
	}
	return unused;
}
int main(void)
{
	pthread_t thread;
	alarm(60);
	sem_init(&semaphore, 0, 1);
	pthread_create(&thread, NULL, run, NULL);
	usleep(50000);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	puts("cancelled");
}
"""

# A library with a constructor that makes a key and starts threads.
EARLY_LIBRARY = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_key_t key;
int foreign;
static volatile int stop, counting, counted;
static pthread_t threads[4];
static void destroy(void *value) { if (*(long *)value != 4242) foreign = 1; else free(value); }
static void *run(void *unused)
{
	int is_counted = 0;
	while (!stop) {
		int count = counting && !is_counted;
		void *volatile block = malloc(32);
		free(block);
		if (count) {
			is_counted = 1;
			__atomic_fetch_add(&counted, 1, __ATOMIC_SEQ_CST);
		}
	}
	return unused;
}
__attribute__((constructor)) static void start(void)
{
	pthread_key_create(&key, destroy);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	usleep(20000);
}
void finish(void)
{
	/* Calls before all libraries are loaded are not recorded, so each thread calls now. */
	counting = 1;
	while (counted < 4)
		usleep(1000);
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}
"""
EARLY = r"""
#include <stdio.h>
#include <unistd.h>
extern int foreign;
extern void finish(void);
int main(void) { usleep(100000); finish(); puts(foreign ? "foreign" : "own"); }
"""

# Children while another thread has the loader's lock.
LOADER_FORK = r"""
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static int pass(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)info; (void)size; (void)unused;
	for (volatile int i = 0; i < 20000; i++)
		;
	return 0;
}
static void *iterate(void *unused) { for (;;) dl_iterate_phdr(pass, NULL); return unused; }
int main(void)
{
	pthread_t thread;
	int hung = 0;
	pthread_create(&thread, NULL, iterate, NULL);
	usleep(10000);
	for (int i = 0; i < 20; i++) {
		int waited = 0;
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		while (waitpid(child, NULL, WNOHANG) == 0 && ++waited < 20000)
			usleep(1000);
		if (waited == 20000) {
			hung++;
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
		}
	}
	printf("%d\n", hung);
	return 0;
}
"""

# Locks all memory: how much of it are files.
LOCKS_MEMORY = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void)
{
	char line[256];
	FILE *status;
	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		return 77;
	status = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof(line), status))
		if (strncmp(line, "RssShmem:", 9) == 0)
			fputs(line + 9, stdout);
	return 0;
}
"""

# threads.h, with locks that are waited for.
C11 = r"""
#include <threads.h>
static mtx_t gate;
static volatile unsigned long sink;
static int run(void *unused)
{
	(void)unused;
	for (int k = 0; k < 40; k++) {
		mtx_lock(&gate);
		for (int i = 0; i < 500000; i++)
			sink++;
		mtx_unlock(&gate);
	}
	return 0;
}
int main(void)
{
	thrd_t threads[2];
	mtx_init(&gate, mtx_plain);
	for (int i = 0; i < 2; i++)
		thrd_create(&threads[i], run, NULL);
	for (int i = 0; i < 2; i++)
		thrd_join(threads[i], NULL);
	return 0;
}
"""

NEWS = r"""
#include <vector>
int main()
{
	std::vector<char *> blocks(1000);
	for (int round = 0; round < 2000; round++) {
		for (auto &block : blocks)
			block = new char[200];
		for (auto &block : blocks)
			delete[] block;
	}
}
"""

# A read that a signal handler jumps out of, after the printed ns; then locks in deeper frames.
JUMP = r"""
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static sigjmp_buf before;
static struct timespec begun, over;
static volatile unsigned long sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void jump(int number) { (void)number; siglongjmp(before, 1); }
__attribute__((noinline)) static void work(void)
{
	for (int k = 0; k < 300; k++) {
		pthread_mutex_lock(&lock);
		for (int i = 0; i < 1000000; i++)
			sink++;
		pthread_mutex_unlock(&lock);
	}
}
int main(void)
{
	int pipes[2];
	char byte;
	if (pipe(pipes) != 0)
		return 1;
	signal(SIGALRM, jump);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	if (!sigsetjmp(before, 1)) {
		ualarm(50000, 0);
		(void)!read(pipes[0], &byte, 1);
	}
	clock_gettime(CLOCK_MONOTONIC, &over);
	work();
	printf("%ld\n", (over.tv_sec - begun.tv_sec) * 1000000000 + over.tv_nsec - begun.tv_nsec);
	return 0;
}
"""

# Sleeps in calls that have several names.
SLEEPS = r"""
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
int main(int argc, char **argv)
{
	struct pollfd fds[4];
	(void)argv;
	for (int i = 0; i < 4; i++)
		fds[i].fd = -1;
	poll(fds, argc, 200);
	return system("sleep 0.2");
}
"""

# _Fork() runs no handlers: its child ends as a process of its own, and the parent goes on.
PLAIN_FORK = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	pid_t child = _Fork();
	if (child == 0)
		exit(0);
	waitpid(child, NULL, 0);
	usleep(300000);
	_exit(0);
}
"""

# A child without the C library's fork handlers, made in each possible way.  Meanwhile its parent
# creates threads, and the child cannot access their parts of the parent's file.
CHILDREN = r"""
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int go[2];
static void *work(void *unused)
{
	pthread_setname_np(pthread_self(), "worker");
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&gate);
		pthread_mutex_unlock(&gate);
	}
	return unused;
}
static void threads(int count)
{
	pthread_t made[16];
	for (int i = 0; i < count; i++)
		pthread_create(&made[i], NULL, work, NULL);
	for (int i = 0; i < count; i++)
		pthread_join(made[i], NULL);
}
static pid_t make(const char *way)
{
	struct clone_args more = {.exit_signal = SIGCHLD};
	char *const words[] = {"sh", "-c", "exit 3", NULL};
	pid_t pid;
	if (strcmp(way, "_Fork") == 0)
		return _Fork();
	if (strcmp(way, "clone") == 0)
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (strcmp(way, "clone3") == 0)
		return (pid_t)syscall(SYS_clone3, &more, sizeof(more));
	if (strcmp(way, "spawn") == 0)
		return posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ) ? -1 : pid;
	if (strcmp(way, "vfork") == 0) {
		if ((pid = vfork()) == 0) {
			execv("/bin/sh", words);
			_exit(9);
		}
		return pid;
	}
	if (strcmp(way, "twice") == 0) {
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		return pid ? pid : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	}
	return fork();
}
int main(int argc, char **argv)
{
	int status = 0;
	char byte;
	(void)argc;
	(void)!pipe(go);
	threads(3);
	const pid_t self = getpid(), child = make(argv[1]);
	if (getpid() != self) {
		if (child) /* of "twice" */
			exit(waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 8);
		/* Until the parent has created more threads than it had. */
		if (read(go[0], &byte, 1) != 1)
			_exit(7);
		pthread_setname_np(pthread_self(), "child");
		if (strcmp(argv[2], "threads") == 0)
			threads(4);
		if (strcmp(argv[2], "program") == 0)
			execl("/bin/sh", "sh", "-c", "exit 3", NULL);
		if (strcmp(argv[2], "_exit") == 0)
			_exit(3);
		exit(3);
	}
	threads(9);
	(void)!write(go[1], "x", 1);
	waitpid(child, &status, 0);
	threads(9);
	printf("%d\n", status);
	return 0;
}
"""

# The C library's results for invalid clocks and times, and for free locks.
CLOCKS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
int main(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
	struct timespec good = {1, 0}, bad = {1, 2000000000};
	sem_t semaphore;
	sem_init(&semaphore, 0, 9);
	printf("%d ", pthread_mutex_clocklock(&mutex, 77, &good));
	printf("%d ", pthread_rwlock_clockrdlock(&rwlock, 77, &good));
	printf("%d ", pthread_rwlock_timedrdlock(&rwlock, &bad));
	errno = 0;
	printf("%d ", sem_clockwait(&semaphore, 77, &good));
	printf("%d ", errno);
	printf("%d ", sem_timedwait(&semaphore, &bad));
	printf("%d\n", sem_timedwait(&semaphore, &good));
	return 0;
}
"""


@pytest.fixture
def profile(tek, open_build, tmp_path):
    """Runs a program under tek profile, itself under tek run with `under`: its JSON, the result."""

    def run(*command, options=(), under=(), **more):
        file = tmp_path / "profile.json"
        words = ["profile", "--json", file, *options, "--", *command]
        result = tek("run", *under, "--", open_build / "bin" / "tek", *words,
                     **more) if under else tek(*words, **more)
        assert file.exists(), result.stderr
        return json.loads(file.read_text())["processes"], result

    return run


@pytest.mark.parametrize("name", ["mimalloc", "jemalloc", "tcmalloc"])
def test_an_allocator_behind_it_works_and_its_operators_are_counted(tek, profile, compile_c, name):
    if tek("run", "--alloc", name, "--", "true").returncode != 0:
        pytest.skip(f"{name} is not installed")
    [process], result = profile(compile_c(NEWS, "c++", "-O1"), under=["--alloc", name])
    assert result.returncode == 0
    assert process["threads"][0]["allocator_calls"] > 3_900_000


def test_operators_of_the_cxx_library_are_counted_once(profile, compile_c):
    [process], _ = profile(compile_c(NEWS, "c++", "-O1"))
    assert 3_900_000 < process["threads"][0]["allocator_calls"] < 4_100_000


# Where two threads cannot both have a CPU, k42 takes a time slice for each hand-over.
@pytest.mark.parametrize("lock, times", [("futex", 500), ("k42", 20)], ids=["futex", "k42"])
def test_conditions_work_with_the_locks_of_libtek_sync(profile, compile_c, lock, times):
    [process], result = profile(compile_c(COND, "cc", "-pthread"), times, under=["--lock", lock])
    assert (result.returncode, result.stdout) == (0, f"{2 * times}\n")
    assert any(entry["name"] == "turned" for entry in process["objects"])


def test_libtek_sees_what_the_program_runs_and_where_it_creates_it(tek, open_build, compile_c,
                                                                   tmp_path):
    program, profiles = compile_c(COND, "cc", "-pthread"), tmp_path / "profiles"
    profiles.mkdir()
    inner = [open_build / "bin" / "tek", "profile", "--", program]
    result = tek("run", "--stack", "report", "--stack-profiles", profiles, "--", *inner)
    assert result.stdout == "1000\n"
    text = "".join(path.read_text() for path in profiles.glob("*.stack"))
    assert "symbol=hand " in text and "from=main+" in text
    assert "libtek-profile" not in text


def test_a_full_file_system_costs_threads_and_not_the_program(open_build, compile_c, tmp_path):
    file = tmp_path / "profile.json"
    command = [open_build / "bin" / "tek", "profile", "--json", file, "--",
               compile_c(THREADS, "cc", "-pthread")]
    done = subprocess.run(["unshare", "--mount", "sh", "-c",
                           'mount -t tmpfs -o size=400k tmpfs /dev/shm || exit 77; exec "$@"', "sh",
                           *command],
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("needs root")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    [process] = json.loads(file.read_text())["processes"]
    assert 1 < len(process["threads"]) < 51
    assert len(process["threads"]) + process["lost"]["threads"] == 51


@pytest.mark.parametrize("source, seen, options", [
    (SIGNAL_FORK, "5\n", []),
    (SIGNAL_FORK, "5\n", ["--follow"]),
    (CALL_FORK, "5\n", []),
    (CALL_FORK, "5\n", ["--follow"]),
    (SEMAPHORE_CANCEL, "cancelled\n", []),
    (LOADER_FORK, "0\n", ["--follow"]),
], ids=["forks in a handler", "forks in a handler, followed", "forks out of a call",
        "forks out of a call, followed",
        "a free semaphore", "the loader's lock"])
def test_a_hard_program_runs_as_it_does_without(profile, compile_c, source, seen, options):
    program = compile_c(source, "cc", "-pthread")
    assert subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=60,
                          check=True).stdout == seen
    _, result = profile(program, options=options)
    assert (result.returncode, result.stdout) == (0, seen)


def test_threads_of_a_librarys_constructor_do_no_harm(profile, compile_c, tmp_path):
    library = tmp_path / "libearly.so"
    subprocess.run(["cc", "-x", "c", "-", "-shared", "-fPIC", "-pthread", "-o", library],
                   input=EARLY_LIBRARY, text=True,
                   check=True)
    link = ["-Wl,--no-as-needed", f"-Wl,-rpath,{tmp_path}", f"-L{tmp_path}", "-learly"]
    [process], result = profile(compile_c(EARLY, "cc", *link))
    assert (result.returncode, result.stdout) == (0, "own\n")
    assert process["threads"][0]["role"] == "main" and len(process["threads"]) == 5


def test_locked_memory_does_not_fill_the_file(profile, compile_c):
    _, result = profile(compile_c(LOCKS_MEMORY, "cc"))
    if result.returncode == 77:
        pytest.skip("this user may not lock so much memory")
    assert int(result.stdout.split()[0]) < 2000


def test_threads_and_locks_of_c11_are_seen(profile, compile_c):
    for _ in range(3):
        [process], _ = profile(compile_c(C11, "cc", "-O1"))
        assert [thread["role"] for thread in process["threads"]].count("run") == 2
        gate = next(entry for entry in process["objects"] if entry["name"] == "gate")
        assert gate["kind"] == "mutex" and gate["count"] == 80
        # Unless one of them began when the other was done.
        if process["parts"]["sync"] > 0.2 * process["threads_ns"]:
            return
    raise AssertionError(process["parts"])


def test_what_comes_behind_a_jump_is_not_in_the_call_that_was_left(profile, compile_c):
    [process], result = profile(compile_c(JUMP, "cc", "-O1"))
    [main] = process["threads"]
    assert main["locks"] == 300
    left_after = int(result.stdout)
    assert main["parts"]["file"] < left_after + 0.5 * (main["life_ns"] - left_after)


@pytest.mark.parametrize("flags", [[], ["-D_FORTIFY_SOURCE=2"]])
def test_sleep_in_calls_of_several_names_is_idle(profile, compile_c, flags):
    [process], _ = profile(compile_c(SLEEPS, "cc", "-O1", *flags))
    assert process["parts"]["idle"] > 350_000_000


def test_a_child_by_plain_fork_does_not_end_its_parent(profile, compile_c):
    [process], _ = profile(compile_c(PLAIN_FORK, "cc"))
    assert process["threads"][0]["parts"]["idle"] > 250_000_000


@pytest.mark.parametrize("does", ["threads", "program", "_exit", "exit"])
@pytest.mark.parametrize("way", ["fork", "_Fork", "clone", "clone3", "twice", "vfork", "spawn"])
def test_a_child_made_in_any_way_runs_as_without(profile, compile_c, way, does):
    processes, result = profile(compile_c(CHILDREN, "cc", "-pthread"), way, does,
                                options=["--follow"])
    assert (result.returncode, int(result.stdout)) == (0, 3 << 8), result
    parent = processes[0]
    assert [thread["role"] for thread in parent["threads"]].count("work [worker]") == 21
    if does == "threads" and way not in ("vfork", "spawn"):
        counted = [[thread["role"] for thread in process["threads"]].count("work [worker]")
                   for process in processes[1:]]
        assert 4 in counted


def test_clocks_that_make_no_sense_are_refused_as_without(profile, compile_c):
    program = compile_c(CLOCKS, "cc", "-pthread")
    plain = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=60,
                           check=True).stdout
    assert profile(program)[1].stdout == plain


def test_calls_that_wait_in_the_c_library_are_known_by_all_their_names():
    listed = re.findall(r"FUNCTION\((\w+)\)",
                        (TOP / "lib/preload/profile/functions.h").read_text())
    [library] = [line.split()[-1]
                 for line in pathlib.Path("/proc/self/maps").read_text().splitlines()
                 if re.search(r"/libc[.-]\S*so\S*$", line)][:1]
    names = {line.split()[-1].split("@")[0]
             for line in subprocess.run(["nm", "-D", "--defined-only", library],
                                        stdout=subprocess.PIPE, text=True,
                                        check=True).stdout.splitlines()}
    # A known call can have a fortified form, one without stream lock, and one for large files.
    forms = [form for name in listed
             for form in (f"__{name}_chk", f"{name}_unlocked", f"{name}64", f"__{name}64_chk")]
    # These only copy bytes in memory.
    known = {"__realpath_chk", "__readlink_chk", "__readlinkat_chk"}
    assert [form for form in forms if form in names and form not in listed
            and form not in known] == []
