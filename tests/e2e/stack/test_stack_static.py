# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek stack static adds up gcc's data on frames and calls, and names the gaps in them."""
import json
import os
import shutil
import subprocess

import pytest

RED_ZONE = 128  # bytes below its frame that a leaf function of amd64 uses, which gcc does not count

# A chain of calls that all run; the start routine runs on a painted stack and prints its use.
CHAIN = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 256 * 1024 };
static unsigned char stack[SIZE] __attribute__((aligned(4096)));

__attribute__((noinline, noclone)) static int leaf(int n)
{
	volatile char use[5000];
	for (int i = 0; i < 5000; i++)
		use[i] = (char)n;
	return use[n] + 1;
}

__attribute__((noinline, noclone)) int middle(int n)
{
	volatile char use[20000];
	for (int i = 0; i < 20000; i++)
		use[i] = (char)n;
	return leaf(use[n]) + use[n + 1];
}

__attribute__((noinline, noclone)) int shallow(int n)
{
	volatile char use[500];
	use[n] = 1;
	return use[n] + leaf(n);
}

void *worker(void *unused)
{
	volatile int n = 1;
	n = middle(n) + shallow(n);
	return unused;
}

int main(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int untouched = 0;
	memset(stack, 0xa5, SIZE);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, SIZE);
	pthread_create(&thread, &attr, worker, NULL);
	pthread_join(thread, NULL);
	while (stack[untouched] == 0xa5)
		untouched++;
	printf("%d\n", SIZE - untouched);
	return 0;
}
"""

DOUBTFUL = r"""
#include <alloca.h>
#include <stdio.h>
#include <string.h>
int (*volatile hook)(int);
static int twice(int n);
__attribute__((noinline)) static int once(int n) { return n ? twice(n - 1) + 1 : 0; }
__attribute__((noinline)) static int twice(int n) { return n ? once(n - 1) * 2 + 1 : 0; }
__attribute__((noinline)) static void grow(int n) { char *p = alloca(n); memset(p, n, n); puts(p); }
__attribute__((noinline)) static int call(int n) { return hook(n) + 1; }
void *worker(void *n) { grow(once(10)); printf("%d", call(1)); return n; }
__attribute__((noinline)) static int sure(int n) { volatile char b[100]; b[n] = 1; return b[0]; }
int main(int argc, char **argv) { (void)argv; return sure(argc); }
"""

CXX = r"""
#include <cstddef>
namespace kitchen {
struct Stove {
	__attribute__((noinline)) int heat(int n) { volatile char b[3000]; b[n] = 1; return b[0]; }
	template <typename T> __attribute__((noinline)) int cool(T n)
	{
		volatile T b[100];
		b[1] = n;
		return heat(int(b[1]));
	}
};
}
int serve(int n) { kitchen::Stove stove; return stove.cool(long(n)) + stove.heat(n); }
int main(int argc, char **) { return serve(argc); }
"""


@pytest.fixture
def built(tmp_path):
    """Builds a program of one or more files with call graphs; its directory."""
    def build(*sources, compiler="gcc", suffix="c",
              information=("-fstack-usage", "-fcallgraph-info=su")):
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
        if "Free Software" not in subprocess.run([compiler, "--version"], capture_output=True,
                                                 text=True,
                                                 check=False).stdout:
            pytest.skip("-fcallgraph-info is gcc's")
        directory = tmp_path / f"build{len(list(tmp_path.iterdir()))}"
        directory.mkdir()
        objects = []
        for number, source in enumerate(sources):
            file = directory / f"part{number}.{suffix}"
            file.write_text(source)
            objects.append(f"part{number}.o")
            # A compiler cache has only the object.
            subprocess.run([compiler, "-O2", *information, "-c", file.name], cwd=directory,
                           check=True, env={**os.environ, "CCACHE_DISABLE": "1"})
        subprocess.run([compiler, "-pthread", *objects, "-o", "program"], cwd=directory, check=True)
        return directory

    return build


def static(tek, *options, status=0):
    ended = tek("stack", "static", "--json", *options)
    assert ended.returncode == status, ended.stderr
    return json.loads(ended.stdout)


# Ubuntu's gcc, Yocto and packagers have the second one.
@pytest.mark.parametrize("protector", ["-fno-stack-protector", "-fstack-protector-all"])
def test_a_known_chain_adds_up_and_is_what_the_thread_really_uses(tek, built, protector):
    directory = built(CHAIN, information=["-fstack-usage", "-fcallgraph-info=su", protector])
    need, = static(tek, directory, "--function", "worker")["functions"]
    assert [function["name"] for function in need["path"]] == ["worker", "middle", "leaf"]
    frames = [function["frame_bytes"] for function in need["path"]]
    assert need["bytes"] == sum(frames) and frames[1] >= 20000
    assert frames[2] >= 5000 - RED_ZONE
    assert not need["at_least"]
    used = int(subprocess.run([directory / "program"], stdout=subprocess.PIPE, check=True).stdout)
    # Beside it: the thread control block, static TLS, and the C library's use at start and end.
    assert need["bytes"] <= used <= need["bytes"] + 16384


def test_a_program_stands_for_its_directory_and_one_file_for_itself(tek, built):
    directory = built(CHAIN)
    for path in (directory, directory / "program", directory / "part0.ci"):
        need, = static(tek, path, "--function", "worker")["functions"]
        assert need["bytes"] >= 25000 - RED_ZONE
    # Files in subdirectories are found too.
    need, = static(tek, directory.parent, "--function", "worker")["functions"]
    assert need["bytes"] >= 25000 - RED_ZONE


def test_what_makes_a_result_a_lower_bound_is_named(tek, built):
    need, = static(tek, built(DOUBTFUL), "--function", "worker")["functions"]
    assert need["at_least"]
    # gcc makes copies: call.constprop
    bare = lambda names: [name.split(".")[0] for name in names]
    assert bare(need["indirect"]) == ["call"] and bare(need["growing"]) == ["grow"]
    assert len(need["recursive"]) == 1 and set(bare(need["recursive"][0])) <= {"once", "twice"}
    assert {"printf", "puts"} & set(need["unknown"])
    text = tek("stack", "static", built(DOUBTFUL), "--function", "worker").stdout
    assert "needs at least" in text
    assert "these call through pointers: call" in text
    assert " and counts once: " in text
    copy, = static(tek, built(DOUBTFUL), "--function", "call")["functions"]
    assert bare([copy["name"]]) == ["call"]


def test_the_functions_that_are_never_called_come_deepest_first(tek, built):
    answer = static(tek, built(DOUBTFUL))
    names = [root["name"] for root in answer["roots"]]
    assert sorted(names) == ["main", "worker"] and answer["roots_in_all"] == 2
    sizes = [root["bytes"] for root in answer["roots"]]
    assert sizes == sorted(sizes, reverse=True)
    main, = (root for root in answer["roots"] if root["name"] == "main")
    assert (main["at_least"], main["because"]) == (False, [])
    worker, = (root for root in answer["roots"] if root["name"] == "worker")
    assert worker["because"] == ["indirect", "recursive", "growing", "unknown"]
    directory = built(DOUBTFUL)
    assert "1 more; --most 2 shows all" in tek("stack", "static", "--most", 1, directory).stdout


def test_calls_from_file_to_file_are_followed(tek, built):
    uses = ("int deep(int); void *worker(void *n) { return deep(1) ? n : 0; } "
            "int main(void) { return 0; }")
    deep = "int deep(int n) { volatile char b[7000]; b[n] = 1; return b[0]; }"
    need, = static(tek, built(uses, deep), "--function", "worker")["functions"]
    # gcc may jump to the last function instead of calling it, which is not in the call graph.
    assert [function["name"] for function in need["path"]] == ["worker", "deep"]
    assert need["bytes"] >= 7000 - RED_ZONE and not need["at_least"]


def test_cxx_functions_are_found_by_their_names(tek, built):
    directory = built(CXX, compiler="g++", suffix="cpp")
    for name in ("serve", "int serve(int)", "_Z5servei"):
        need, = static(tek, directory, "--function", name)["functions"]
        assert "heat" in need["path"][-1]["name"] and need["bytes"] >= 3800 - 2 * RED_ZONE
    heat, = static(tek, directory, "--function", "kitchen::Stove::heat")["functions"]
    assert heat["bytes"] >= 3000 - RED_ZONE


def test_frames_without_a_call_graph_stand_for_themselves_and_that_is_reported(tek, built):
    directory = built(CHAIN, information=["-fstack-usage"])
    ended = tek("stack", "static", directory, "--function", "middle")
    assert ended.returncode == 0
    assert "no call graph" in ended.stderr and "needs at least" in ended.stdout
    assert "of these the calls are not known: middle" in ended.stdout
    answer = static(tek, directory)
    assert answer["call_graph"] is False and answer["su_files"] == 1
    assert all(root["at_least"] for root in answer["roots"])


def test_that_nothing_is_found_is_reported(tek, built, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    ended = tek("stack", "static", empty)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "-fcallgraph-info=su" in ended.stderr
    ended = tek("stack", "static", built(CHAIN), "--function", "nobody")
    assert ended.returncode == 1 and "no function nobody" in ended.stderr
    assert tek("stack", "static", tmp_path / "missing").returncode == 125
    assert tek("stack", "static", "--most", "x").returncode == 2


def test_hostile_files_do_no_harm(tek, tmp_path):
    (tmp_path / "noise.ci").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "evil.ci").write_text(
        'graph: { title: "e.c"\n'
        'node: { title: "e\x1b[31m" label: "e\x1b[31m\\ne.c:1:1\\n10 bytes (static)" }\n')
    (tmp_path / "loop").symlink_to(tmp_path)
    ended = tek("stack", "static", tmp_path)
    assert ended.returncode == 0 and "\x1b" not in ended.stdout
