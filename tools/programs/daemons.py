"""The work of daemons: each is started on a free port, asked by a client without TEK, and ended."""

import os
import signal
import urllib.request
from pathlib import Path

from .program import find
from .runner import NOBODY, Failed, Run, free_port

REQUESTS = 20


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=5) as response:
        return response.read()


def nginx(run: Run) -> str:
    port = free_port()
    root = run.directory / "www"
    root.mkdir()
    (root / "file").write_bytes(bytes(1 << 20))
    open_to_workers(run.directory)
    (run.directory / "nginx.conf").write_text(
        f"""
        daemon off; pid {run.directory}/pid; error_log stderr;
        worker_processes 2; thread_pool files threads=4;
        events {{ worker_connections 64; }}
        http {{
            access_log off; aio threads=files; sendfile off;
            client_body_temp_path {run.directory}/body; proxy_temp_path {run.directory}/proxy;
            fastcgi_temp_path {run.directory}/fast; uwsgi_temp_path {run.directory}/uwsgi;
            scgi_temp_path {run.directory}/scgi;
            server {{ listen 127.0.0.1:{port}; root {root}; }}
        }}
        """
    )
    daemon = run.start(
        find("nginx"), "-e", "stderr", "-p", run.directory, "-c", run.directory / "nginx.conf"
    )
    url = f"http://127.0.0.1:{port}/file"
    run.until(daemon, lambda: str(len(_fetch(url))))
    lengths = {len(_fetch(url)) for _ in range(REQUESTS)}
    run.stop(daemon, signal.SIGQUIT)
    return f"{REQUESTS} answers of {lengths} bytes"


def haproxy(run: Run) -> str:
    port = free_port()
    configuration = run.directory / "haproxy.cfg"
    configuration.write_text(
        f"""
global
    nbthread 4
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 5s
frontend f
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string "hello"
"""
    )
    daemon = run.start(find("haproxy"), "-db", "-f", configuration)
    url = f"http://127.0.0.1:{port}/"
    run.until(daemon, lambda: _fetch(url).decode())
    answers = {_fetch(url) for _ in range(REQUESTS)}
    run.stop(daemon, signal.SIGUSR1)
    return f"{REQUESTS} answers {answers}"


def mosquitto(run: Run) -> str:
    port = str(free_port())
    configuration = run.directory / "mosquitto.conf"
    configuration.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n")
    daemon = run.start(find("mosquitto"), "-c", configuration)
    where = ("-h", "127.0.0.1", "-p", port, "-t", "oven")
    run.until(daemon, lambda: run.client("mosquitto_pub", *where, "-r", "-m", "180 degrees"))
    answer = run.client("mosquitto_sub", *where, "-C", "1")
    run.stop(daemon)
    return answer.strip()


def dbus(run: Run) -> str:
    socket = run.directory / "bus"
    daemon = run.start("dbus-daemon", "--session", "--nofork", f"--address=unix:path={socket}")
    ask = [
        "dbus-send",
        f"--bus=unix:path={socket}",
        "--print-reply=literal",
        "--dest=org.freedesktop.DBus",
        "/",
        "org.freedesktop.DBus.NameHasOwner",
        "string:org.freedesktop.DBus",
    ]
    answer = run.until(daemon, lambda: run.client(*ask))
    run.stop(daemon)
    return answer.strip()


def pipewire(run: Run) -> str:
    own = {
        "XDG_RUNTIME_DIR": str(run.directory),
        "PIPEWIRE_RUNTIME_DIR": str(run.directory),
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={run.directory}/no-bus",
    }
    daemon = run.start("pipewire", **own)
    properties = (
        "{ factory.name=support.null-audio-sink media.class=Audio/Sink"
        " object.linger=true node.name=tek-sink }"
    )

    def made() -> str:
        run.client("pw-cli", "create-node", "adapter", properties, **own)
        nodes = run.client("pw-cli", "ls", "Node", **own)
        if "tek-sink" not in nodes:
            raise Failed(f"nodes: {nodes}")
        return "the node tek-sink"

    answer = run.until(daemon, made)
    run.stop(daemon)
    return answer


POSTGRES = ("/usr/lib/postgresql/*/bin/postgres", "/usr/lib/postgresql/*/bin/initdb")


def postgresql(run: Run) -> str:
    postgres, initdb = (find(name) for name in POSTGRES)
    data = run.directory / "data"
    data.mkdir(mode=0o700)
    open_to_workers(run.directory)
    for path in (data, run.directory):
        _give_away(path)
    run.client(initdb, "--no-sync", "-A", "trust", "-U", "tek", "-D", data, nobody=True)
    own_settings = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off")
    # A socket's path has at most 107 bytes.
    daemon = run.start(postgres, "-D", data, "-k", run.directory, *own_settings, nobody=True)
    ask = (
        "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;"
        "CREATE TABLE t AS SELECT n FROM generate_series(1, 200000) n; SELECT sum(n) FROM t"
    )
    sql = [Path(postgres).parent / "psql", "-qAt", "-h", run.directory, "-U", "tek"]
    run.until(daemon, lambda: run.client(*sql, "-c", "SELECT 1", "postgres"))
    answer = run.client(*sql, "-c", ask, "postgres")
    run.stop(daemon, signal.SIGINT)
    return answer.strip()


def _give_away(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)


def open_to_workers(directory: Path) -> None:
    """Lets daemons that give up root reach a directory."""
    directory.chmod(0o755)
