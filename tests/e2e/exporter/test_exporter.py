# SPDX-License-Identifier: MIT OR Apache-2.0
"""tek exporter: its metrics for Prometheus, and its limits for clients."""
import json
import os
import re
import signal
import socket
import subprocess
import time

import handmade
import pytest
from conftest import BUILD, eventually, listens_at, read, tids_by_name
from paths import TOP
from fake_tekd import AT_WORK, STATUS, FakeTekd

pytestmark = pytest.mark.spread
TEKD = BUILD / "bin" / "tekd"
UNIT = TOP / "data" / "tek-exporter.service"

# The reference parser, of Debian's Python. It prints the result as JSON.
REFERENCE = r"""
import json, sys
from prometheus_client.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(sys.stdin.read()))
json.dump([[one.name, one.type, one.documentation,
            [[sample.name, sample.labels, sample.value] for sample in one.samples]]
           for one in families], sys.stdout)
"""


def reference(text):
    """A page as prometheus_client parses it."""
    python = ["/usr/bin/python3", "-B", "-c"]
    if subprocess.run([*python, "import prometheus_client"], capture_output=True,
                      check=False).returncode:
        pytest.skip("needs python3-prometheus-client")
    ended = subprocess.run([*python, REFERENCE], input=text, stdout=subprocess.PIPE, text=True,
                           check=True,
                           timeout=60)
    return json.loads(ended.stdout)


SAMPLE = re.compile(
    r'([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? '
                    r'(-?[0-9.]+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')


def metrics(text):
    """The values of a page by name and labels. The page must conform to the format: each metric in
    one piece, its meaning and type first, and no series twice."""
    found, types, done, current = {}, {}, set(), None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, meaning = line[7:].partition(" ")
            assert name not in done and meaning.endswith("."), line
            done.add(current)
            current = name
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name == current and (kind == "counter") == name.endswith("_total"), line
            types[name] = kind
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample and sample[1] == current and current in types, line
            assert sample[1].startswith("tek_")
            series = (sample[1],
                      *(f"{name}={value}" for name, value in LABEL.findall(sample[2] or "")))
            assert series not in found, line
            found[series] = float(sample[3])
    return {" ".join(series): value for series, value in found.items()}


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """The directories of tables and the socket of tekd; those of the device do not count."""
    monkeypatch.setenv("TEK_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("TEK_SOCKET", str(tmp_path / "tekd"))
    return tmp_path


@pytest.fixture
def fake(directory):
    daemon = FakeTekd(directory / "tekd", AT_WORK)
    yield daemon
    daemon.close()


def once(tek, *options, **more):
    ended = tek("exporter", "--once", *options, **more)
    assert (ended.returncode, ended.stderr) == (0, "")
    return metrics(ended.stdout)


# Metrics


def test_without_tekd_it_is_down_and_that_is_no_error(tek, directory):
    info = once(tek)
    assert info["tek_tekd_up"] == 0 and info["tek_exporter_scrape_duration_seconds"] < 10
    assert not [name for name in info if name.startswith("tek_tekd_") and name != "tek_tekd_up"]


def test_what_tekd_reports_becomes_metrics_and_it_is_asked_for_nothing_else(tek, fake):
    info = once(tek)
    wanted = {
        "tek_tekd_up": 1, "tek_tekd_info version=9.9 backend=fair": 1, "tek_responsiveness_mode": 1,
        "tek_fast_threads user_class=root": 1, "tek_fast_threads user_class=user": 1,
        "tek_fast_threads user_class=system": 0, "tek_fast_longest_stay_seconds": 65,
        "tek_tekd_grants_total": 50, "tek_tekd_refusals_total": 6, "tek_tekd_expulsions_total": 7,
        "tek_tekd_canary_alarms_total": 2, "tek_tekd_canary_limit_seconds": 1.5,
        "tek_tekd_changes": 3,
        "tek_tekd_connections": 4, "tek_lowered_threads": 0, "tek_floor_ratio": 0.05,
        "tek_groups_entered": 1, "tek_group_threads group=fast": 2,
        "tek_group_threads group=normal": 9,
        "tek_group_processes group=urgent": 1, "tek_group_weight group=urgent": 400,
    }
    assert {name: info.get(name) for name in wanted} == wanted
    assert "tek_group_processes group=normal" not in info
    # A client without a grant that sends HELLO counts as refused.
    assert fake.asked == [STATUS]


@pytest.mark.parametrize("seen", [b"no JSON", b"{}", b"", b"[" * 100_000],
                         ids=["text", "empty", "none", "deep"])
def test_a_tekd_that_sends_nonsense_is_down_and_the_reason_is_reported(tek, fake, seen):
    fake.seen = seen
    ended = tek("exporter", "--once")
    assert ended.returncode == 0 and metrics(ended.stdout)["tek_tekd_up"] == 0
    assert ended.stderr.startswith("tek: the answer of tekd is not ")


def test_a_tekd_that_does_not_answer_keeps_no_client_waiting_for_long(tek, fake):
    fake.seen = None
    begin = time.monotonic()
    ended = tek("exporter", "--once")
    assert time.monotonic() - begin < 60
    assert metrics(ended.stdout)["tek_tekd_up"] == 0 and "tekd does not answer" in ended.stderr


def test_stacks_threads_and_groups_are_summed_up_by_program(tek, directory, waiting):
    with subprocess.Popen([waiting, "one", "two"], stdout=subprocess.PIPE) as process:
        try:
            tids = tids_by_name(process.pid, ["one", "two"])
            handmade.write(directory, process.pid, [
                {"tid": tids["one"], "stack_pages": 16, "peak": 5000, "bound_pages": 2, "place": 1},
                {"tid": tids["two"], "stack_pages": 2048},
                {"tid": 4_000_000, "stack_pages": 9},
            ], program="fridge", counts=(5, 2_500_000_000, 3, 1_250_000_000))
            info = once(tek)
        finally:
            process.kill()
    of = {name.split(" ")[0]: value for name, value in info.items()
          if name.endswith("program=fridge")}
    assert of == {
        "tek_program_processes": 1, "tek_program_threads": 3, "tek_program_fast_threads": 0,
        "tek_program_lost_threads": 0, "tek_program_stack_reserved_bytes": 2064 * 4096,
        "tek_program_stack_measured_threads": 1, "tek_program_stack_peak_bytes": 5000,
        "tek_program_stack_bound_bytes": 8192,
        "tek_program_lifts_total": 5, "tek_program_lifted_seconds_total": 2.5,
        "tek_program_inversions_total": 3, "tek_program_inversion_wait_seconds_total": 1.25,
    }
    assert info["tek_tracked_threads group=urgent region=lazy"] == 1
    assert info["tek_tracked_threads group=normal region=lazy"] == 1


@pytest.fixture
def crowd(directory):
    """Programs with tables and names of every kind."""
    processes = []

    def start(count):
        for number in range(count):
            # pylint: disable-next=consider-using-with
            process = subprocess.Popen(["sleep", "60"])
            processes.append(process)
            name = f'e{number}"}} 1\ntek_tekd_up 7 \\\x1b[2J\u202e'
            handmade.write(directory, process.pid, [{"tid": process.pid}], program=name)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_there_are_no_more_series_than_allowed_whatever_runs(tek, crowd):
    crowd(12)
    for most, wanted in (("3", 4), ("0", 1), ("1000", 12)):
        info = once(tek, "--programs", most)
        of = [name for name in info if name.startswith("tek_program_threads ")]
        assert len(of) == wanted and sum(info[name] for name in of) == 12
        assert info["tek_tekd_up"] == 0
    info = once(tek)
    for_each_program = 8 + 4  # gauges and counters
    assert len(info) < for_each_program * 12 + 20


def test_a_parser_of_prometheus_reads_the_page(tek, fake, crowd):
    crowd(2)
    page = tek("exporter", "--once").stdout
    # The parser removes the suffix of a counter from its name.
    found = {}
    for name, kind, meaning, samples in reference(page):
        assert kind in ("gauge", "counter") and meaning
        for sample, labels, value in samples:
            assert sample.startswith(name)
            found[json.dumps([sample, labels], sort_keys=True)] = value
    assert len(found) == len(metrics(page)) > 40
    assert found[json.dumps(["tek_tekd_grants_total", {}])] == 50
    assert [key for key in found if r'e1\"} 1\\ntek' in key]


@pytest.mark.skipif(not TEKD.exists(), reason="tekd is not built")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start tekd")
@pytest.mark.usefixtures("real_time")
def test_the_daemon_itself_is_reported_and_any_user_may_ask(tek, directory, open_directory,
                                                            as_nobody, waiting, monkeypatch):
    run = open_directory / "exported"
    run.mkdir(mode=0o755)
    (run / "tekd.toml").write_text('[[grant]]\nusers = ["root"]\n')
    monkeypatch.setenv("TEK_SOCKET", str(run / "tekd"))
    monkeypatch.setenv("TEK_RUN_DIR", str(run))
    command = [TEKD, "--foreground", "--socket", run / "tekd", "--state", run / "state", "--config",
               run / "tekd.toml", "--domain", f"pid:{os.getpid()}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as daemon, \
            subprocess.Popen([waiting, "one"], stdout=subprocess.PIPE) as process:
        try:
            eventually(lambda: listens_at(run / "tekd"))
            tid = tids_by_name(process.pid, ["one"])["one"]
            before = once(tek, prefix=as_nobody)
            assert (before["tek_tekd_up"], before["tek_responsiveness_mode"]) == (1, 0)
            assert tek("critical", "--thread", tid).returncode == 0
            info = once(tek, prefix=as_nobody)
            assert (info["tek_responsiveness_mode"],
                    info["tek_fast_threads user_class=root"]) == (1, 1)
            assert info["tek_tekd_grants_total"] == 1 and info["tek_tekd_changes"] >= 1
            assert 0 < info["tek_responsiveness_mode_seconds_total"] < 60
            # A query is no request that could be refused, by any client.
            assert info["tek_tekd_refusals_total"] == 0
        finally:
            process.kill()
            daemon.terminate()


def test_the_capability_of_its_unit_is_enough_to_read_the_tables_of_other_users(
        tek, directory, as_nobody, waiting):
    unit = UNIT.read_text().splitlines()
    capability, = [line.partition("=")[2] for line in unit
                   if line.startswith("AmbientCapabilities=")]
    assert f"CapabilityBoundingSet={capability}" in unit
    name = "+" + capability.lower().removeprefix("cap_")
    allowed = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
               f"--inh-caps=-all,{name}",
               f"--ambient-caps=-all,{name}", f"--bounding-set=-all,{name}", "--no-new-privs"]
    directory.chmod(0o700)
    with subprocess.Popen([waiting, "one"], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            handmade.write(directory, process.pid, [{"tid": process.pid}], program="fridge")
            info = once(tek, prefix=allowed)
            assert info["tek_program_threads program=fridge"] == 2
            without = metrics(tek("exporter", "--once", prefix=as_nobody).stdout)
            assert "tek_program_threads program=fridge" not in without
        finally:
            process.kill()


# Limits for clients


class Server:
    """tek exporter, at a port of its own."""

    def __init__(self, command, *options):
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen([command, "exporter", "--listen", "127.0.0.1:0", *options],
                                        stderr=subprocess.PIPE, text=True)
        info = self.process.stderr.readline()
        self.address = ("127.0.0.1",
                        int(re.fullmatch(r"tek: metrics are at http://127.0.0.1:(\d+)/metrics\n",
                                         info)[1]))

    def connect(self, seconds=60):
        client = socket.create_connection(self.address, timeout=seconds)
        client.settimeout(seconds)
        return client

    def ask(self, request="GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        """Status, headers and body."""
        with self.connect() as client:
            client.sendall(request.encode("latin-1"))
            head, _, body = answer(client).partition(b"\r\n\r\n")
        status, *headers = head.decode().split("\r\n")
        return int(status.split(" ")[1]), dict(line.split(": ", 1)
                                               for line in headers), body.decode()

    def memory(self):
        return int(re.search(r"VmRSS:\s*(\d+) kB", read(f"/proc/{self.process.pid}/status"))[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu(self):
        fields = read(f"/proc/{self.process.pid}/stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, info = self.process.communicate(timeout=60)
        return self.process.returncode, info


def answer(client):
    """All bytes until the end."""
    seen = b""
    while more := client.recv(65536):
        seen += more
    return seen


@pytest.fixture
def server(open_build, directory):
    server = Server(open_build / "bin" / "tek")
    yield server
    if server.process.poll() is None:
        server.end()


def test_prometheus_gets_the_metrics_over_http(server, fake):
    status, headers, body = server.ask()
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert int(headers["Content-Length"]) == len(body) and headers["Connection"] == "close"
    assert metrics(body)["tek_tekd_grants_total"] == 50
    status, headers, body = server.ask("HEAD /metrics HTTP/1.0\r\n\r\n")
    assert (status, body) == (200, "") and int(headers["Content-Length"]) > 100


def test_a_page_of_another_site_whose_name_leads_here_gets_nothing(server, fake):
    port = server.address[1]
    for host in "evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}":
        status, _, body = server.ask(f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert status == 421 and "tek_" not in body and "--host" in body
    for host in f"127.0.0.1:{port}", "localhost", "[::1]", socket.gethostname():
        assert server.ask(f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")[0] == 200


def test_names_that_are_given_are_its_own_too(open_build, fake):
    server = Server(open_build / "bin" / "tek", "--host", "fridge.example", "--host", "Oven")
    try:
        for host, wanted in ("Fridge.Example:80", 200), ("oven", 200), ("other.example", 421):
            assert server.ask(f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n")[0] == wanted
    finally:
        server.end()


@pytest.mark.parametrize("request_, wanted", [
    ("GET / HTTP/1.1\r\n\r\n", 404), ("GET /../etc/passwd HTTP/1.1\r\n\r\n", 404),
    ("POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405), ("hello\r\n\r\n", 400),
    ("GET /metrics HTTP/1.1\r\nA: \0\r\n\r\n", 400),
    ("\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", 400),
    ("GET /metrics HTTP/1.1\r\nA: " + "b" * 10_000, 431), ("GET /" + "m" * 10_000, 431),
    ("GET /metrics HTTP/1.1\r\n" + "A: b\r\n" * 100 + "\r\n", 431),
])
def test_what_is_no_request_for_metrics_gets_an_error(server, request_, wanted):
    status, _, body = server.ask(request_)
    assert status == wanted and body
    assert server.ask()[0] == 200


def test_tekd_may_come_and_go(server, directory):
    assert metrics(server.ask()[2])["tek_tekd_up"] == 0
    fake = FakeTekd(directory / "tekd", AT_WORK)
    eventually(lambda: metrics(server.ask()[2])["tek_tekd_up"] == 1)
    fake.close()
    eventually(lambda: metrics(server.ask()[2])["tek_tekd_up"] == 0)
    assert server.end() == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_whatever_is_connected(server, number):
    with server.connect() as client:
        client.sendall(b"GET /met")
        begin = time.monotonic()
        assert server.end(number) == (0, "")
        assert time.monotonic() - begin < 15
    with pytest.raises(OSError):
        server.connect()


def test_clients_that_send_nothing_or_a_byte_a_second_stop_no_other(server):
    server.ask()
    before = server.memory()
    slow = [server.connect() for _ in range(300)]
    for client in slow[:150]:
        client.sendall(b"G")
    for _ in range(5):
        begin = time.monotonic()
        assert server.ask()[0] == 200
        assert time.monotonic() - begin < 15
        for client in slow:
            try:
                client.sendall(b"E")
            except OSError:
                pass
    # It has closed the connections without room, and in time all of them.
    assert server.descriptors() < 90
    eventually(lambda: server.descriptors() < 20)
    assert server.memory() < before + 4000
    for client in slow:
        client.close()


def test_a_head_of_a_hundred_megabytes_does_not_grow_its_memory(server):
    server.ask()
    before, cpu = server.memory(), server.cpu()
    piece, sent = b"X-Long: " + b"b" * 1_000_000, 0
    with server.connect() as client:
        try:
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
            while sent < 100_000_000:
                client.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
    assert sent < 100_000_000
    assert server.memory() < before + 2000 and server.cpu() - cpu < 2
    assert server.ask()[0] == 200


def test_clients_that_do_not_read_their_answers_stop_no_other(server):
    server.ask()
    before = server.memory()
    idle = []
    for _ in range(200):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.settimeout(60)
        client.connect(server.address)
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 3)
        idle.append(client)
    assert server.ask()[0] == 200
    assert server.memory() < before + 4000 and server.descriptors() < 90
    for client in idle:
        client.close()


def test_however_often_it_is_asked_it_polls_no_more_than_once_a_second(server, fake):
    begin, answers = time.monotonic(), set()
    while len(answers) < 3:
        answers.add(server.ask()[2])
    # Each at most once a second, the first and the last at the borders.
    most = time.monotonic() - begin + 2
    assert len(answers) <= most and len(fake.asked) <= most


def test_at_rest_it_does_nothing(server):
    server.ask()
    eventually(lambda: server.descriptors() < 20)

    def switches():
        status = read(f"/proc/{server.process.pid}/status")
        return int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", status)[1])

    time.sleep(1)
    before = switches()
    time.sleep(3)
    assert switches() == before


def test_reading_by_other_hosts_is_warned_of_and_loopback_is_the_default(
        tek, open_build, directory):
    # pylint: disable-next=consider-using-with
    process = subprocess.Popen([open_build / "bin" / "tek", "exporter", "--listen", "0.0.0.0:0"],
                               stderr=subprocess.PIPE, text=True)
    warning = process.stderr.readline()
    assert "no password" in warning and "--listen 127.0.0.1:" in warning
    process.terminate()
    process.communicate(timeout=60)
    assert "[default: 127.0.0.1:9835]" in tek("exporter", "--help").stdout


def test_an_address_that_is_taken_is_reported_with_the_cure(tek, server):
    host, port = server.address
    ended = tek("exporter", "--listen", f"{host}:{port}")
    assert ended.returncode == 125 and "--listen ADDRESS:PORT" in ended.stderr


@pytest.mark.parametrize("arguments",
                         [["--listen", "localhost"], ["--programs", "1001"], ["--programs", "-1"],
                          ["--once", "--listen", "127.0.0.1:1"]])
def test_what_makes_no_sense_is_refused(tek, arguments):
    assert tek("exporter", *arguments).returncode == 2
