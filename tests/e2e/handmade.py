# SPDX-License-Identifier: MIT OR Apache-2.0
"""Thread tables (abi/tek_table.h) written by hand."""
import struct
import time

VERSION = 6
MAGIC = 0x454C4241544B4554
HEADER_BYTES, CHUNK_BYTES, CHUNK_SLOTS, SIDE_OFFSET = 131072, 131072, 512, 20480
MODULES_OFFSET = 4096
KINDS_OFFSET = 36864
WORKERS_OFFSET = 102400
SIDE_BYTES = 144

FAST = 1 << 3  # place
MARKED, NAMED, RULE = 0x01, 0x02, 0x08  # flags, flags, reasons
USER = 0x80  # flags


def header(pid, slots, *, program="handmade", modules=0, kinds=0, program_module=0, stack_mode=0,
           workers=0, boot_offset_ns=0, counts=(0, 0, 0, 0), **changes):
    fields = {"magic": MAGIC, "version": VERSION, "pid": pid, "chunks": 64, **changes}
    return struct.pack(
        "<QIIQIIIIIIII64sQIIIBBBBI4xq4Q", fields["magic"], fields["version"], fields["pid"], 0, 40,
        SIDE_BYTES, 4096,
        fields["chunks"], slots, slots, 0, 0, program.encode(), 0, modules,
        kinds, program_module, stack_mode, 25, 80, 0, workers,
        boot_offset_ns, *counts)


def record(tid, *, seq=2, role="", start_routine=0, stack_pages=0, peak=0, bound_pages=0, place=0,
           flags=0):
    return struct.pack("<IIQQIIHHBbBB", seq, tid, time.clock_gettime_ns(time.CLOCK_BOOTTIME),
                       start_routine, stack_pages, peak, bound_pages, len(role.encode()), 0, 0,
                       place, flags)


def side(*, role="", name="", creator=0, call_site=0, reasons=0, rule=0, kind=0, stack_end=0,
         worker=0, waits=0):
    return struct.pack("<16sQQIIBBBBIQBB2xHBxQ64sHB5x", name.encode(), 0, 0, 0, 0, 0, 0, 0, 0,
                       creator, call_site,
                       reasons, rule, kind, 0, stack_end, role.encode(), worker, waits)


def module(path, start, end, bias, build_id):
    return struct.pack("<QQQ20sI464s", start, end, bias, build_id, len(build_id),
                       str(path).encode())


def kind(function, *, seq=2, threads=1, call_site=0, stack=8 << 20, overflow=0, peak=0, bound=0,
         overflows=0, stack_flags=0, label_is=0, label=""):
    return struct.pack("<IIQQQQIIIBB10x64s", seq, threads, function, call_site, stack,
                       overflow, peak,
                       bound, overflows, stack_flags, label_is, label.encode())


def write(directory, pid, threads, *, modules=(), kinds=(), workers=(), name=None, **head):
    """Writes a process's table: each thread has the arguments of record() and side(), by name."""
    path = directory / (name or f"{pid}.table")
    hidden = directory / f".{path.name}"
    with open(hidden, "wb") as file:
        for slot, thread in enumerate(threads):
            of_record = {"tid", "seq", "role", "start_routine", "stack_pages", "peak",
                         "bound_pages", "place", "flags"}
            of_side = {"role", "name", "creator", "call_site", "reasons", "rule", "kind",
                       "stack_end",
                       "worker", "waits"}
            chunk = HEADER_BYTES + slot // CHUNK_SLOTS * CHUNK_BYTES
            index = slot % CHUNK_SLOTS
            file.seek(chunk + index * 40)
            file.write(record(**{key: thread[key] for key in thread if key in of_record}))
            file.seek(chunk + SIDE_OFFSET + index * SIDE_BYTES)
            file.write(side(**{key: thread[key] for key in thread if key in of_side}))
        file.truncate(HEADER_BYTES + 64 * CHUNK_BYTES)
        file.seek(MODULES_OFFSET)
        file.write(b"".join(modules))
        file.seek(KINDS_OFFSET)
        file.write(b"".join(kinds))
        file.seek(WORKERS_OFFSET)
        file.write(b"".join(struct.pack("<I4x", tid) for tid in workers))
        file.seek(0)
        file.write(header(pid, len(threads), modules=len(modules), kinds=len(kinds),
                          workers=len(workers), **head))
    hidden.rename(path)
    return path
