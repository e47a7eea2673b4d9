# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rules files, and their effects on the threads of real programs."""
import json
import os
import shutil
import subprocess

import pytest

from paths import TOP

EXAMPLE = TOP / "data" / "rules" / "example.toml"

# Threads by function, and one by name; each prints its function, its policy and its priority.
PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(const char *who)
{
	struct sched_param param;
	syscall(SYS_sched_getparam, 0, &param);
	printf("%s %ld %d\n", who, syscall(SYS_sched_getscheduler, 0) & 0xff, param.sched_priority);
	fflush(stdout);
}

extern "C" {
static void *in_c(void *unused)
{
	say("in_c");
	return unused;
}
}

static void *gas_sensor(void *unused)
{
	say("gas_sensor");
	return unused;
}

static void *named(void *unused)
{
	pthread_setname_np(pthread_self(), "touch");
	say("named");
	return unused;
}

int main(void)
{
	void *(*bodies[])(void *) = {in_c, gas_sensor, named};
	say("main");
	for (auto body : bodies) {
		pthread_t thread;
		pthread_create(&thread, NULL, body, NULL);
		pthread_join(thread, NULL);
	}
	return 0;
}
"""

# The symbol of gas_sensor as nm prints it; 2 is SCHED_RR, 29 the real-time priority of nice 0.
MANGLED = "_ZL10gas_sensorPv"
FAIR = {"main": "0 0", "in_c": "0 0", "gas_sensor": "0 0", "named": "0 0"}


@pytest.fixture(scope="session")
def program(compile_c):
    return compile_c(PROGRAM, "c++", "-xc++", "-O1", "-pthread")


@pytest.fixture
def seen(tek, tmp_path):
    """Runs a program under rules; returns its output about its threads."""

    def run(program, text, *options):
        path = tmp_path / "rules.toml"
        path.write_text(text)
        ended = tek("run", "--rules", path, *options, program)
        assert (ended.returncode, ended.stderr) == (0, "")
        return dict(line.split(" ", 1) for line in ended.stdout.splitlines())

    return run


def rule(match, set_):
    return f"[[rule]]\nmatch = {{ {match} }}\nset = {{ {set_} }}\n"


def test_a_static_function_of_c_is_known_by_its_name(seen, program, real_time):
    assert seen(program, rule('function = "in_c"', "critical = true")) == FAIR | {"in_c": "2 29"}


def test_a_function_of_cxx_is_known_by_its_mangled_name(seen, program, real_time):
    fast = FAIR | {"gas_sensor": "2 34"}
    assert seen(program, rule(f'function = "{MANGLED}"', "critical = true, priority = -5")) == fast
    assert seen(program, rule('function = "*10gas_*"', "critical = true, priority = -5")) == fast
    assert seen(program, rule('function = "gas_*"', "critical = true")) == FAIR


STD_THREADS = r"""
#include <stdio.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

static void say(const char *who)
{
	printf("%s %ld\n", who, syscall(SYS_sched_getscheduler, 0) & 0xff);
	fflush(stdout);
}

static void gas_sensor()
{
	say("gas_sensor");
}

static void other()
{
	say("other");
}

int main()
{
	std::thread(gas_sensor).join();
	std::thread(other).join();
	std::thread([] { say("lambda"); }).join();
	return 0;
}
"""


def test_what_a_std_thread_runs_counts(seen, compile_c, real_time):
    program = compile_c(STD_THREADS, "c++", "-xc++", "-O1", "-pthread")
    fair = {"gas_sensor": "0", "other": "0", "lambda": "0"}
    text = rule('function = "_ZL10gas_sensorv"', "critical = true")
    assert seen(program, text) == fair | {"gas_sensor": "2"}
    # A lambda has no function of its own that TEK could find, but a type.
    text = rule('function = "_ZTV*Z4mainE*"', "critical = true")
    assert seen(program, text) == fair | {"lambda": "2"}


def test_a_stripped_program_has_no_functions_and_its_names_still_count(
        seen, program, open_directory, real_time):
    if shutil.which("strip") is None:
        pytest.skip("strip is not installed")
    stripped = open_directory / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True, timeout=60)
    text = rule('function = "*"', "critical = true") + rule('thread = "touch"', "critical = true")
    assert seen(stripped, text) == FAIR | {"named": "2 29"}


def test_a_function_of_a_library_is_known(seen, compile_c, real_time):
    library = compile_c("void *exported(void *f) { ((void (*)(void))f)(); return 0; }",
                        "cc", "-shared", "-fPIC")
    program = compile_c(r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
void *exported(void *);
static void say(void) { printf("exported %ld\n", syscall(SYS_sched_getscheduler, 0) & 0xff); }
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, 0, exported, (void *)say);
	pthread_join(thread, 0);
	return 0;
}
""", "cc", "-pthread", "-Wl,--no-as-needed", str(library))
    assert seen(program, rule('function = "export??"', "critical = true")) == {"exported": "2"}


def test_a_rule_for_a_program_leaves_its_children_and_parents_alone(
        tek, seen, program, tmp_path, open_directory, real_time):
    other = open_directory / "fridge"
    shutil.copy(program, other)
    text = rule('program = "frid*", thread = "touch"', "critical = true")
    assert seen(program, text) == FAIR
    assert seen(other, text) == FAIR | {"named": "2 29"}
    rules = tmp_path / "rules.toml"
    ended = tek("run", "--rules", rules, "sh", "-c", f"{program}; {other}")
    assert ended.stdout.count("named 0 0") == 1
    assert ended.stdout.count("named 2 29") == 1


def test_the_first_thread_is_known_by_the_program(seen, program, real_time):
    text = rule(f'thread = "{program.name}"', "critical = true")
    # Without the option those that it joins would be lifted.
    assert seen(program, text, "--no-inherit") == FAIR | {"main": "2 29"}
    everything = rule('program = "*"', "critical = true")
    assert set(seen(program, everything).values()) == {"2 29"}


def test_a_role_that_an_earlier_rule_gives_is_seen_by_later_rules_only(seen, program, real_time):
    names = rule('thread = "touch"', 'role = "input"')
    asks = rule('role = "inp*"', "critical = true")
    assert seen(program, names + asks) == FAIR | {"named": "2 29"}
    assert seen(program, asks + names) == FAIR
    assert seen(program, asks, "--role", "touch=input") == FAIR


# A thread that gets a name and lives until its parent's standard input is closed.
LIVING = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t named;

static void *live(void *unused)
{
	pthread_setname_np(pthread_self(), "gas-1");
	pthread_barrier_wait(&named);
	getchar();
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_barrier_init(&named, NULL, 2);
	pthread_create(&thread, NULL, live, NULL);
	pthread_barrier_wait(&named);
	puts("named");
	fflush(stdout);
	pthread_join(thread, NULL);
	return 0;
}
"""


def test_what_rules_give_is_seen_from_outside(tek, open_build, compile_c, tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(rule('thread = "gas*"', 'role = "gas détection, 2; 100%", group = "service"'))
    program = compile_c(LIVING, "cc", "-pthread")
    run = [open_build / "bin" / "tek", "run", "--rules", path, program]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living:
        assert living.stdout.readline() == "named\n"
        shown = tek("ps", "--json", "--name", "gas-1", "--program", program.name)
        living.stdin.close()
        assert living.wait(timeout=60) == 0
    thread, = json.loads(shown.stdout)["threads"]
    assert (thread["role"], thread["group"]) == ("gas détection, 2; 100%", "service")


def test_of_two_rules_that_match_the_later_wins(seen, program, real_time):
    first = rule('thread = "touch"', "critical = true, priority = -5")
    second = rule('thread = "tou*"', "priority = 5")
    assert seen(program, first + second)["named"] == "2 24"
    assert seen(program, second + first)["named"] == "2 34"
    never = rule('program = "*"', "critical = false")
    assert seen(program, first + never) == FAIR
    # The command line comes after all files.
    assert seen(program, first + never, "--critical=touch") == FAIR | {"named": "2 29"}


def test_a_thread_has_the_budget_of_its_rule(tek, threads, tmp_path, real_time):
    path = tmp_path / "rules.toml"
    path.write_text(rule('thread = "run*"', 'critical = true, budget = "20ms/100ms"'))
    ended = tek("run", "--rules", path, threads, "runaway", "3")
    assert ended.returncode == 3
    assert f"thread runaway of {threads.name}" in ended.stderr
    assert "in 100ms, more than its budget" in ended.stderr


def test_files_come_in_order_and_the_users_can_be_left_out(
        tek, program, tmp_path, user_rules, real_time):
    def named(*options):
        ended = tek("run", *options, program)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout.splitlines()[-1].removeprefix("named ")

    def critical(path, priority):
        path.write_text(rule('thread = "touch"', f"critical = true, priority = {priority}"))

    critical(user_rules / "20.toml", 19)
    assert named() == "2 10"
    critical(user_rules / "30.toml", -20)
    critical(user_rules / "10.toml", 0)
    assert named() == "2 49"
    assert named("--no-rules") == "0 0"
    critical(tmp_path / "a.toml", 0)
    critical(tmp_path / "b.toml", 19)
    assert named("--rules", tmp_path / "a.toml") == "2 29"
    assert named("--rules", tmp_path / "b.toml", "--rules", tmp_path / "a.toml") == "2 29"
    assert named("--rules", tmp_path / "a.toml", "--rules", tmp_path / "b.toml") == "2 10"


@pytest.mark.parametrize("content, info", [
    (rule('thread = "ui"', "colour = 1"), ":3:9: unknown field `colour`"),
    (rule('thread = "ui"', f'role = "{"x" * 64}"'), ":3:16: the role is 64 bytes long"),
    (rule('thread = "ui"', "priority = 20"), ":3:20: `20` is no priority"),
    (rule('thread = "[ui"', "mark = true"), ":2:20: the bracket `[` is not closed"),
    ("fridge:\n  - gas\n", ":1:"),
    (b"[[rule]]\n# \xff\n", ":2:3: this is not UTF-8"),
    (rule('thread = "ui"', "mark = true") * 65, ":193:1: this is rule 65"),
    (b"=[" * 500_000, ":1:3: unexpected `=`"),
    (b"x" * 2_000_000, ": this is no rules file: it has more than 1048576 bytes"),
    (os.urandom(1_000_000), ":"),
], ids=["key", "role", "priority", "glob", "yaml", "utf-8", "many", "brackets", "large", "noise"])
def test_a_bad_file_is_refused_with_place_and_reason_before_anything_starts(tek, tmp_path,
                                                                            content, info):
    path = tmp_path / "bad.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    started = tmp_path / "started"
    ended = tek("run", "--no-rules", "--rules", path, "touch", started)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"tek: {path}{info}")
    assert not started.exists()


def test_what_cannot_be_read_is_refused(tek, tmp_path, open_directory, as_nobody):
    for path, info in [(tmp_path, "Is a directory"), (tmp_path / "none", "No such file")]:
        ended = tek("run", "--rules", path, "true")
        assert ended.returncode == 2
        assert ended.stderr.startswith(f"tek: {path}: the rules cannot be read: {info}")
    secret = open_directory / "secret.toml"
    secret.write_text("")
    secret.chmod(0o600)
    ended = tek("run", "--rules", secret, "true", prefix=as_nobody)
    assert ended.returncode == 2
    assert "Permission denied" in ended.stderr


def test_bad_rules_that_no_option_named_are_refused_with_a_way_out(tek, user_rules):
    path = user_rules / "bad.toml"
    path.write_text("x = 1\n")
    ended = tek("run", "true")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"tek: {path}:1:1: unknown field `x`")
    assert "--no-rules" in ended.stderr
    assert tek("run", "--no-rules", "true").returncode == 0
    path.write_text("")
    assert tek("run", "true").returncode == 0
    path.chmod(0o666)
    ended = tek("run", "true")
    assert ended.returncode == 2
    assert "others can write to them" in ended.stderr and "--no-rules" in ended.stderr


def test_rules_of_somebody_else_are_not_trusted(tek, user_rules):
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    path = user_rules / "theirs.toml"
    path.write_text("")
    os.chown(path, 65534, 65534)
    ended = tek("run", "true")
    assert ended.returncode == 2
    assert f"tek: {path}: these rules are not trusted: user 65534 owns them" in ended.stderr


def test_rules_in_a_directory_that_the_user_may_not_enter_are_not_the_users(
        tek, open_directory, as_nobody, monkeypatch):
    root = open_directory / "home"
    root.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "config"))
    ended = tek("run", "true", prefix=as_nobody)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_bad_variable_is_reported_and_ignored(tek):
    env = {**os.environ, "TEK_RULES": "thread=a,mark=1;thread=b,mrak=1"}
    ended = tek("run", "true", env=env)
    assert ended.returncode == 0
    assert "TEK_RULES is not understood and ignored: thread=b,mrak=1" in ended.stderr


def test_the_example_is_understood(tek):
    ended = tek("run", "--rules", EXAMPLE, "true")
    assert (ended.returncode, ended.stderr) == (0, "")
