# SPDX-License-Identifier: MIT OR Apache-2.0
"""20 threads that exchange messages by sockets and share data under locks; prints the results."""
import hashlib
import os
import queue
import socket
import threading

PAIRS = 10
ROUNDS = 200

lock = threading.Lock()
counts = {"asked": 0, "answered": 0}
done = queue.Queue()
everybody = threading.Barrier(2 * PAIRS + 1)


def add(what):
    with lock:
        counts[what] += 1


def read(connection, size):
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return data


def answer(connection):
    everybody.wait()
    for _ in range(ROUNDS):
        connection.sendall(hashlib.sha256(read(connection, 32)).digest())
        add("answered")


def ask(number, connection):
    everybody.wait()
    data = hashlib.sha256(bytes([number])).digest()
    for _ in range(ROUNDS):
        connection.sendall(data)
        data = read(connection, 32)
        add("asked")
    done.put((number, data.hex()))


threads = []
for pair in range(PAIRS):
    one, other = socket.socketpair()
    threads.append(threading.Thread(target=ask, args=(pair, one)))
    threads.append(threading.Thread(target=answer, args=(other,)))
for thread in threads:
    thread.start()
everybody.wait()
# Kernel threads, while all threads of the program exist.
kernel = len(os.listdir("/proc/self/task"))
for thread in threads:
    thread.join()
for _, text in sorted(done.get() for _ in range(PAIRS)):
    print(text)
print(sorted(counts.items()))
with open(os.environ["KERNEL_THREADS"], "w") as file:
    file.write(str(kernel))
