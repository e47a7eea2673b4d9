# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of threads that are set without TEK: rules and `tek ps` still follow the kernel's name."""
import json
import subprocess
import sys

import pytest

from conftest import BUILD, eventually, names_of

RULES = """[[rule]]
match = { thread = "deep*" }
set = { role = "deep work" }
"""

# Threads that name themselves by the words of the command line, and print a line; then they wait
# for the end of input.
PROGRAM = """
import ctypes, os, sys, threading
libc = ctypes.CDLL("libc.so.6", use_errno=True)
libc.pthread_self.restype = ctypes.c_ulong
PR_SET_NAME = 15
SYS_PRCTL = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
def name(how, text):
    if how == "handle": libc.pthread_setname_np(ctypes.c_ulong(libc.pthread_self()), text.encode())
    elif how == "prctl": libc.prctl(PR_SET_NAME, text.encode(), 0, 0, 0)
    elif how == "syscall": libc.syscall(SYS_PRCTL, PR_SET_NAME, text.encode(), 0, 0, 0)
    elif how == "comm": open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write(text)
done = threading.Event()
def work(how, text, then):
    begun.set()
    if how == "late": started.wait(); how = "prctl"
    name(how, text)
    if then:
        child = threading.Thread(target=done.wait)
        child.start()
    told.release()
    done.wait()
    if then: child.join()
threads, told, started = [], threading.Semaphore(0), threading.Event()
for word in sys.argv[1:]:
    how, text, *then = word.split(":")
    begun = threading.Event()
    threads.append(threading.Thread(target=work, args=(how, text, then)))
    threads[-1].start()
    begun.wait()
if any(word.startswith("late") for word in sys.argv[1:]):
    import time
    time.sleep(1)
    started.set()
for thread in threads: told.acquire()
print(os.getpid(), flush=True)
sys.stdin.read()
done.set()
for thread in threads: thread.join()
"""


@pytest.fixture
def listed(tmp_path, tek):
    """The threads of such a program, as tek ps lists them once `is_right` of them."""
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(words, is_right, *, rules=("--rules", str(tmp_path / "rules.toml"))):
        command = [str(BUILD / "bin" / "tek"), "run", *rules, "--", sys.executable,
                   str(tmp_path / "program.py"), *words]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as process:
            pid = int(process.stdout.readline())
            try:
                def threads():
                    ended = tek("ps", "--json", "--pid", pid)
                    return [(thread["name"], thread["role"])
                            for thread in json.loads(ended.stdout)["threads"]]

                eventually(lambda: is_right(threads()))
                names = list(names_of(pid).values())
            finally:
                process.communicate(timeout=60)
        assert process.returncode == 0
        return names

    return run


@pytest.mark.parametrize("how", ["handle", "prctl", "syscall", "comm", "late"])
def test_rules_follow_a_name_however_it_was_set(listed, how):
    def is_right(threads):
        return ("deep-1", "deep work") in threads and ("flat-2", None) in threads

    assert "tek-names" in listed([f"{how}:deep-1", f"{how}:flat-2"], is_right)


def test_a_name_that_a_thread_has_from_its_creator_is_not_its_own(listed):
    def is_right(threads):
        return sorted(role for name, role in threads if name == "deep-1"
                      and role) == ["deep work"] and \
            len([name for name, _ in threads if name == "deep-1"]) == 2

    listed(["prctl:deep-1:child"], is_right)


def test_where_no_rule_asks_for_names_nothing_polls_them(listed):
    assert "tek-names" not in listed(["prctl:deep-1"], lambda threads: ("deep-1", None) in threads,
                                     rules=("--no-rules",))
