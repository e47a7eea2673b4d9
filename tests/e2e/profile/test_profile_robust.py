# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek profile beside other libraries, and with difficult programs: they run as without it."""
import json
import subprocess

import pytest

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
