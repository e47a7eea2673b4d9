# SPDX-License-Identifier: MIT OR Apache-2.0
"""tekd reports to a client only processes that it could see in /proc itself."""
import errno
import json
import os
import subprocess
import sys

import pytest
from conftest import BUILD, needs
from paths import E2E
from tekd_client import ENTER
from tekd_daemon import USUAL, daemon, pytestmark, thread

assert daemon and thread and pytestmark  # which pytest finds by their names

ASK = r"""
import sys
sys.path.insert(0, sys.argv[1])
from tekd_client import *
client = Client(sys.argv[2])

def explain(tid):
    client.send(EXPLAIN, tid)
    packet, fds, _, _ = socket.recv_fds(client.socket, 4096, 4)
    answer = Answer(packet)
    return [answer.error, answer.text]

status = client.json(STATUS)
print(json.dumps({
    "others": explain(int(sys.argv[3])), "own": explain(threading.get_native_id()),
    "none": explain(2 ** 22 + 1), "fast": [row["tid"] for row in status["fast"]],
    "clients": [row["pid"] for row in status["clients"]]}))
"""
HIDING = ["sh", "-c", 'mount -t proc -o "$0" proc /proc && exec "$@"']


@pytest.fixture
def asked(daemon, thread, open_directory):
    """The reports to a client that is started so, and a thread of root that is Fast."""
    daemon.socket = open_directory / "run" / "tekd"
    daemon.start(USUAL)
    client = daemon.client()
    assert client.ask(ENTER, thread).error == 0

    def ask(*prefix):
        ended = subprocess.run(
            [*prefix, sys.executable, "-c", ASK, str(E2E), str(daemon.socket),
             str(thread)],
            stdout=subprocess.PIPE, text=True, timeout=60, check=True,
            env={**os.environ, "TEK_BUILD": str(BUILD)})
        return json.loads(ended.stdout), thread

    yield ask
    client.close()


def with_proc(options):
    return [needs("unshare"), "--mount", *HIDING[:3], options]


def test_what_every_user_sees_in_proc_is_reported_to_every_user(asked, as_nobody):
    for prefix in as_nobody, []:
        info, thread = asked(*prefix)
        assert (info["others"][0], info["own"][0]) == (0, 0)
        assert info["none"][0] == errno.ESRCH
        assert info["fast"] == [thread] and os.getpid() in info["clients"]


@pytest.mark.parametrize("options", ["hidepid=1", "hidepid=2", "hidepid=invisible,gid=7"])
def test_where_proc_hides_other_users_a_thread_of_theirs_is_as_one_that_is_not_there(
        asked, as_nobody, options):
    info, thread = asked(*with_proc(options), *as_nobody)
    assert info["own"][0] == 0
    assert info["others"][0] == errno.ESRCH
    assert info["others"][1] == info["none"][1].replace(str(2 ** 22 + 1), str(thread))
    assert (info["fast"], info["clients"]) == ([], [])


def test_root_and_the_group_for_which_proc_hides_nothing_see_all_threads(asked, as_nobody):
    info, thread = asked(*with_proc("hidepid=2"))
    assert info["others"][0] == 0 and info["fast"] == [thread]
    member = [word.replace("--regid=65534", "--regid=7") for word in as_nobody]
    info, thread = asked(*with_proc("hidepid=2,gid=7"), *member)
    assert info["others"][0] == 0 and info["fast"] == [thread]


def test_in_another_pid_namespace_no_thread_is_reported(asked, as_nobody):
    for prefix in as_nobody, []:
        info, _ = asked(needs("unshare"), "--pid", "--fork", "--mount-proc", *prefix)
        assert info["others"][0] == info["own"][0] == errno.EOPNOTSUPP
        assert (info["fast"], info["clients"]) == ([], [])
