#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""How well `tek suggest` finds the time-critical threads of programs of which they are known.

Each program runs alone, and again beside CPU-bound programs. Precision is the share of the
suggested threads that are time-critical, recall the share of the time-critical threads that are
suggested. A rule that is commented out in the file, as of a thread that a clock wakes, does not
count as suggested.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
DEVICES = ["fridge", "tv", "car", "robot", "printer", "synth", "gateway", "doorbell", "scanner",
           "drone"]
WANTED = 0.9

# The time-critical threads of programs that make their own events, or receive them from here.
EXAMPLE = {"touch", "ui-draw"}
REDIS = {"redis-server"}


def pipes_of(device):
    return [os.pipe() for _ in range({"car": 2, "printer": 2, "drone": 2}.get(device, 1))]


def answers_of(devices, name):
    """The thread names of a device, each with its answer."""
    info = subprocess.run([devices, name, "--answers"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return {thread: answer for answer, thread in (line.split() for line in info.splitlines())}


def suggested(options, program, directory, descriptors=()):
    """The kinds of threads that tek suggest tells of, each with whether it is suggested."""
    command = [options.tek, "suggest", "--json", "--time", str(options.seconds), "--", *program]
    ended = subprocess.run(command, pass_fds=descriptors, cwd=directory, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode in (2, 125, 126, 127):
        sys.exit(f"{' '.join(map(str, command))}: {ended.stderr}")
    return {kind["thread"]: kind["reason"] for kind in json.loads(ended.stdout)["kinds"]}


def watch_device(options, name, directory):
    answers = answers_of(options.devices, name)
    pipes = pipes_of(name)
    reads, writes = zip(*pipes)
    life = str(options.seconds + 2)
    with subprocess.Popen([options.devices, name, "--world", life, *map(str, writes)],
                          pass_fds=writes) as world:
        kinds = suggested(options, [options.devices, name, life, *map(str, reads)],
                          directory, reads)
        for descriptor in reads + writes:
            os.close(descriptor)
        world.wait()
    return {thread for thread, answer in answers.items()
            if answer == "critical"}, set(answers), kinds


def watch_example(options, directory):
    kinds = suggested(options, [options.build / "examples" / "fridge", str(options.seconds + 2),
                                "5"], directory)
    return EXAMPLE, None, kinds


def ask_redis(port, until):
    """Questions at irregular times, about 15 a second."""
    chance = random.Random(1)
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as server:
                while time.monotonic() < until:
                    server.sendall(b"INCR asked\r\n")
                    server.recv(100)
                    time.sleep(chance.uniform(0.01, 0.12))
        except OSError:
            time.sleep(0.1)


def watch_redis(options, directory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asker = threading.Thread(target=ask_redis, args=(port, time.monotonic() + options.seconds + 2))
    asker.start()
    server = ["timeout", "-s", "INT", str(options.seconds + 3), "redis-server", "--port", str(port),
              "--save", ""]
    kinds = suggested(options, server, directory)
    asker.join()
    return REDIS, None, {thread: reason for thread, reason in kinds.items() if thread != "timeout"}


def watch(options, name):
    """The time-critical threads, those that are suggested, and what is said of the others."""
    with tempfile.TemporaryDirectory() as directory:
        if name == "example":
            critical, known, kinds = watch_example(options, directory)
        elif name == "redis":
            critical, known, kinds = watch_redis(options, directory)
        else:
            critical, known, kinds = watch_device(options, name, directory)
    patterns = {re.compile(re.escape(kind).replace(r"\[0\-9\]\*", r"\d+")): reason
                for kind, reason in kinds.items()}
    names = known or critical | set(kinds)
    reasons = {thread: reason for thread in names for pattern, reason in patterns.items()
               if pattern.fullmatch(thread)}
    return critical, {thread for thread, reason in reasons.items() if reason is None}, reasons


def measure(options, hogs):
    """Precision and recall of all the programs together, beside so many hogs."""
    right = wrong = missed = 0
    # Each ends by itself, whatever becomes of this program.
    most = str(options.seconds * 3 * len(options.programs))
    spinning = [subprocess.Popen(["prlimit", f"--cpu={most}", "sh", "-c", "while :; do :; done"])
                for _ in range(hogs)]
    try:
        for name in options.programs:
            critical, found, reasons = watch(options, name)
            right, wrong, missed = (count + len(more) for count, more in (
                (right, critical & found), (wrong, found - critical), (missed, critical - found)))
            odd = [f"{thread} too" for thread in sorted(found - critical)]
            odd += [f"not {thread}: {reasons.get(thread, 'not seen')}"
                    for thread in sorted(critical - found)]
            print(f"{hogs:>4}  {name:<9} {len(critical & found)} of {len(critical)}  "
                  f"{'; '.join(odd)}", flush=True)
    finally:
        for hog in spinning:
            hog.kill()
            hog.wait()
    precision, recall = right / max(right + wrong, 1), right / max(right + missed, 1)
    print(f"{hogs:>4}  all       precision {precision:.2f}, recall {recall:.2f}", flush=True)
    return {"hogs": hogs, "precision": precision, "recall": recall}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="EXAMPLES:\n  bench/suggest/answers.py\n  bench/suggest/answers.py --hogs 20 fridge "
               "redis\n")
    build = pathlib.Path(os.environ.get("TEK_BUILD", TOP / "build"))
    parser.add_argument("programs", nargs="*", metavar="PROGRAM",
                        help="of those that --list shows (default: all)")
    parser.add_argument("--hogs", type=int, nargs="+", default=[0, 20],
                        help="beside so many (default: 0 20)")
    parser.add_argument("--seconds", type=int, default=15,
                        help="watch each for so long (default: 15)")
    parser.add_argument("--assert", action="store_true", dest="asserts",
                        help="exit with status 1 unless precision and recall are at least "
                             f"{WANTED}")
    parser.add_argument("--json", type=pathlib.Path,
                        help="also write precision and recall to this file")
    parser.add_argument("--list", action="store_true",
                        help="show the programs and their time-critical threads")
    parser.add_argument("--devices", type=pathlib.Path,
                        default=build / "bench" / "suggest" / "devices",
                        help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build, options.tek = build, build / "bin" / "tek"
    known = [*DEVICES, "example", *(["redis"] if shutil.which("redis-server") else [])]
    if unknown := set(options.programs) - set(known):
        parser.error(f"no such program: {', '.join(sorted(unknown))}; see --list")
    options.programs = options.programs or known
    return options


def main():
    options = arguments()
    if options.list:
        for name in options.programs:
            critical = {"example": EXAMPLE, "redis": REDIS}.get(name) or {
                thread for thread, answer in answers_of(options.devices, name).items()
                if answer == "critical"}
            print(f"{name:<9} {' '.join(sorted(critical))}")
        return
    print("hogs  program   time-critical threads that are suggested, and what is wrong", flush=True)
    results = [measure(options, hogs) for hogs in options.hogs]
    if options.json:
        options.json.write_text(json.dumps(results) + "\n", encoding="utf-8")
    if options.asserts and any(min(it["precision"], it["recall"]) < WANTED for it in results):
        sys.exit(1)


if __name__ == "__main__":
    main()
