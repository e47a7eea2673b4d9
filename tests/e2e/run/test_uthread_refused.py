# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the kernel refuses timers, TEK reports that threads are not interrupted; programs run."""
import os
import platform
import resource
import shutil
import subprocess

import pytest

from conftest import BUILD

LIBRARY = BUILD / "lib" / "libtek-uthread.so"

# Three threads that meet at a lock and in a pipe; then one is sent a signal while another one waits
# for it.
PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2], sum;
static sem_t handled;

static void handle(int number)
{
	(void)number;
	sem_post(&handled);
}

static void *work(void *argument)
{
	char byte = 0;
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&lock);
		sum++;
		pthread_mutex_unlock(&lock);
		if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
			return NULL;
	}
	return argument;
}

int main(void)
{
	pthread_t threads[3];

	if (pipe(ends))
		return 2;
	sem_init(&handled, 0, 0);
	signal(SIGUSR1, handle);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	kill(getpid(), SIGUSR1);
	while (sem_wait(&handled) != 0)
		;
	printf("%d\n", sum);
	return 0;
}
"""

# Runs a program for which timer_create(2) fails with EPERM.
FILTER = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_timer_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(lines) / sizeof(lines[0]), lines};

	if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 77;
	setenv("LD_PRELOAD", argv[1], 1);
	execv(argv[2], argv + 2);
	return 78;
}
""".replace("#include <stddef.h>", "#include <stddef.h>\n#include <stdlib.h>")


@pytest.fixture(scope="session", autouse=True)
def library():
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("libtek-uthread.so is for x86-64 and aarch64")
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is missing: run `make build`")


@pytest.fixture(scope="session")
def program(compile_c):
    return compile_c(PROGRAM, "cc", "-O1", "-pthread")


def run(command, options, **further):
    environment = {**os.environ, "TEK_UTHREAD": options, **further.pop("env", {})}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60,
                           check=False, **further)
    assert (ended.returncode, ended.stdout) == (0, "300\n"), ended.stderr
    return ended.stderr.splitlines()


def without_pending_signals():
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))


@pytest.mark.parametrize("options", ["workers=1", "workers=2", "workers=2,preempt=klt"])
def test_a_limit_of_waiting_signals_is_named_once(program, options):
    (line,) = run([program], options, env={"LD_PRELOAD": str(LIBRARY)},
                  preexec_fn=without_pending_signals)
    assert (line.startswith("tek: ")
            and "user-level threads are not preempted: timer_create: " in line)
    assert f"`prlimit --pid {os.getpid()} --sigpending=65536:65536`" in line


@pytest.mark.parametrize("options", ["workers=1", "workers=2"])
def test_a_filter_of_system_calls_is_named_once(program, compile_c, options):
    wrapper = compile_c(FILTER, "cc")
    (line,) = run([wrapper, LIBRARY, program], options)
    assert "user-level threads are not preempted: timer_create: Operation not permitted" in line
    assert "seccomp" in line


@pytest.mark.parametrize("refused", [False, True])
def test_nothing_is_reported_where_nothing_is_refused_or_wanted(program, refused):
    assert run([program], "workers=2,preempt=off" if refused else "workers=2",
               env={"LD_PRELOAD": str(LIBRARY)},
               preexec_fn=without_pending_signals if refused else None) == []


PRINTS_WHERE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
	const char *preload = getenv("LD_PRELOAD");
	puts(preload && strstr(preload, "uthread") ? "on user-level threads" : "as it is");
	return 7;
}
"""
# The note that Go's linker puts into a program.
GO_NOTE = r"""
__asm__(".pushsection .note.go.buildid,\"a\",@note\n.long 4, 4, 4\n"
        ".ascii \"Go\\0\\0\"\n.long 0\n.popsection");
"""


def names_itself(tek, program, why, *prefix):
    """Runs a program that cannot be on user-level threads."""
    ended = tek("run", "--no-rules", "--model", "m:n", "--", *prefix, program)
    assert (ended.returncode, ended.stdout) == (7, "as it is\n"), ended.stderr
    # The front of a long path is cut.
    assert (ended.stderr.startswith("tek: ")
            and f"{str(program)[-40:]} {why}: it runs, but not" in ended.stderr)
    assert len(ended.stderr.splitlines()) == 1


PREFIXES = pytest.mark.parametrize("prefix", [[], ["sh", "-c", '"$0"; exit $?']],
                                   ids=["itself", "child"])


@PREFIXES
def test_a_program_of_gos_linker_runs_as_it_is(tek, compile_c, prefix):
    names_itself(tek, compile_c(GO_NOTE + PRINTS_WHERE, "cc"), "is written in Go", *prefix)


@PREFIXES
@pytest.mark.parametrize("beside, why",
                         [("chrome_crashpad_handler", "is Chromium"), ("libxul.so", "is Firefox")])
def test_a_browser_runs_as_it_is(tek, compile_c, tmp_path, beside, why, prefix):
    program = shutil.copy(compile_c(PRINTS_WHERE, "cc"), tmp_path / "browser")
    (tmp_path / beside).touch()
    link = tmp_path / "bin" / "link"
    link.parent.mkdir()
    link.symlink_to(program)
    names_itself(tek, program, why, *prefix)
    names_itself(tek, link, why, *prefix)


CGO = """
package main

// #include <pthread.h>
// static int joined(void *(*unused)(void *)) { return 0; }
import "C"
import ("fmt"; "net"; "sync")

func main() {
	var group sync.WaitGroup
	for i := 0; i < 20; i++ {
		group.Add(1)
		go func() { defer group.Done(); net.LookupHost("localhost"); C.joined(nil) }()
	}
	group.Wait()
	fmt.Println("all right")
}
"""


def test_a_go_program_with_cgo_runs(tek, tmp_path):
    go = shutil.which("go")
    if not go:
        pytest.skip("needs go")
    (tmp_path / "main.go").write_text(CGO)
    built = subprocess.run([go, "build", "-o", str(tmp_path / "cgo"), str(tmp_path / "main.go")],
                           capture_output=True,
                           text=True, timeout=280, check=False,
                           env={**os.environ, "CGO_ENABLED": "1", "GOFLAGS": "-mod=mod",
                                "GOPROXY": "off"})
    if built.returncode:
        pytest.skip(f"go cannot build here: {built.stderr.strip().splitlines()[-1]}")
    ended = tek("run", "--no-rules", "--model", "m:n", "--", tmp_path / "cgo")
    assert (ended.returncode, ended.stdout) == (0, "all right\n"), ended.stderr
    assert "is written in Go" in ended.stderr
