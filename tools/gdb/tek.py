# SPDX-License-Identifier: MIT OR Apache-2.0
"""gdb: user-level threads of TEK.

    (gdb) source tools/gdb/tek.py
    (gdb) tek uthreads                  all of them: what they do, and where their stacks are
    (gdb) tek uthread 7 bt              a backtrace of one, wherever it is parked
    (gdb) tek uthread 7 bt full         any other command: in the frame in which it is parked
    (gdb) tek uthread apply all bt      of all, or of a few: tek uthread apply 3 5-9 bt

gdb knows kernel threads only.  The registers of a parked thread lie on its stack
(lib/arch/*/context.h).  While a command runs, an unwinder tells gdb that this place called the
innermost frame of the selected kernel thread.  Nothing is written into the program, so this works
with the kernel's core files, too.  A file of gdb's gcore ends at a guard page: it lacks the stacks
behind it.
"""

import re

import gdb
import gdb.unwinder

# The ticks (lib/uthread/tick.h). gdb does so by itself where it knows the C library's threads.
gdb.execute("handle SIG32 nostop noprint pass", to_string=True)

# lib/uthread/thread.h
PARKED = 2
ENDED = 1


class Layout:
    """Where a context has its registers: from the stack pointer up, in words."""

    def __init__(self, words, saved, pc, sp):
        self.words = words  # the context is as long as that
        self.saved = saved  # name of a register: number of its word
        self.pc = pc
        self.sp = sp

    def registers(self, context):
        """All that are known of a parked thread, by name."""
        sp = int(context["sp"])
        memory = context["sp"].dereference().type
        word = lambda number: int((context["sp"] + number).dereference().cast(memory))
        values = {name: word(number) for name, number in self.saved.items()}
        values[self.sp] = sp + self.words * memory.sizeof
        return values


LAYOUTS = {
    "i386:x86-64": Layout(
        8,
        {"r15": 1, "r14": 2, "r13": 3, "r12": 4, "rbx": 5, "rbp": 6, "rip": 7},
        "rip",
        "rsp",
    ),
    "aarch64": Layout(
        22,
        {**{f"x{19 + number}": number for number in range(12)}, "pc": 11},
        "pc",
        "sp",
    ),
}


class FrameId:
    """What gdb wants of an unwinder: by what to know a frame."""

    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class Unwinder(gdb.unwinder.Unwinder):
    """Lets the innermost frame be called from where a thread is parked."""

    def __init__(self):
        super().__init__("tek")
        self.enabled = False
        self.layout = None
        self.registers = None
        self.innermost = None

    def __call__(self, pending):
        layout = self.layout
        here = [int(pending.read_register(name)) for name in (layout.sp, layout.pc)]
        if here != self.innermost:
            return None
        sp = self.registers[layout.sp]
        # Below the frames to come: gdb takes it for an error when a caller's frame lies lower.
        info = pending.create_unwind_info(FrameId(gdb.Value(sp - 16), gdb.Value(here[1])))
        for name, value in self.registers.items():
            kind = pending.read_register(name).type
            info.add_saved_register(name, gdb.Value(value).cast(kind))
        return info


UNWINDER = Unwinder()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)


def variable(name):
    """A variable of the engine."""
    try:
        return gdb.parse_and_eval(name)
    except gdb.error:
        raise gdb.GdbError(
            f"There is no {name}: no TEK engine in this program, or without debugging information."
        ) from None


class Uthread:
    """A user-level thread, as it is now."""

    def __init__(self, value, workers):
        self.value = value
        self.id = int(value["id"])
        self.worker = workers.get(int(value.address))

    @property
    def name(self):
        return self.value["name"].string(errors="replace")

    @property
    def kernel_tid(self):
        """Of the kernel thread that it is on; None: it is parked."""
        carrier = self.value["carrier"]
        if int(carrier):
            return int(carrier["tid"])
        if self.worker is not None:
            return int(self.worker["carrier"]["tid"])
        return None

    @property
    def state(self):
        value = self.value
        if int(value["carrier"]):
            return f"LWP {self.kernel_tid}, no worker"
        if self.worker is not None:
            return f"worker {int(self.worker['number'])}, LWP {self.kernel_tid}"
        if int(value["joiner"]) == ENDED:
            return "ended, not joined"
        if int(value["token"]) == PARKED:
            what = int(value["waits_for"])
            words = variable(f"tek_ut__waits_words[{what}]").string() if what else "park"
            return "waits: " + words
        return "ready"

    @property
    def stack(self):
        low = int(self.value["stack_low"])
        if not low:
            return "the program's"
        return f"{low:#x} + {int(self.value['stack_bytes']) // 1024} KiB"


def uthreads():
    """All that live, or were not joined; those with the least number first."""
    first = variable("tek_ut__uthreads")
    workers = {}
    for number in range(int(variable("tek_ut__worker_count"))):
        worker = variable(f"tek_ut__workers[{number}]")
        if int(worker["current"]) and int(worker["carrier"]):
            workers[int(worker["current"])] = worker
    found = []
    while int(first):
        value = first.dereference()
        if int(value["id"]):
            found.append(Uthread(value, workers))
        first = value["all_next"]
    return sorted(found, key=lambda thread: thread.id)


def chosen(words):
    """The threads that 'all', numbers and ranges name; at least one, or an error."""
    everyone = uthreads()
    if words == ["all"]:
        return everyone
    found = []
    for word in words:
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if not match:
            raise gdb.GdbError(f"Not a number of a thread: {word}")
        low, high = int(match[1]), int(match[2] or match[1])
        some = [thread for thread in everyone if low <= thread.id <= high]
        if not some:
            raise gdb.GdbError(f"No user-level thread {word}; see `tek uthreads`.")
        found += some
    return found


def select_frame(level):
    frame = gdb.newest_frame()
    for _ in range(level):
        frame = frame.older()
    frame.select()


class Selection:
    """Gives back, in the end, the kernel thread and the frame that were selected."""

    def __enter__(self):
        self.thread = gdb.selected_thread()
        if self.thread is None:
            raise gdb.GdbError("The program is not being run.")
        self.level = gdb.selected_frame().level()
        return self

    def __exit__(self, *_):
        UNWINDER.enabled = False
        gdb.invalidate_cached_frames()
        self.thread.switch()
        select_frame(self.level)


BACKTRACE = re.compile(r"(bt|backtrace|where)\b(.*)")


def without_innermost(text):
    """A backtrace without frame 0, which is not the thread's; the other frames count from 0."""
    lines, skipping = [], False
    for line in text.splitlines():
        match = re.match(r"#(\d+)", line)
        if match:
            level = int(match[1])
            skipping = level == 0
            line = f"#{level - 1:<3}" + line[match.end() :].lstrip()
        if not skipping:
            lines.append(line)
    return "\n".join(lines) + "\n" if lines else ""


def on_parked(thread, command):
    """What a command says in the frame in which a thread is parked."""
    frame = gdb.newest_frame()
    layout = LAYOUTS.get(frame.architecture().name())
    if layout is None:
        raise gdb.GdbError("Of parked threads nothing is known on this processor.")
    registers = layout.registers(thread.value["context"])
    if registers[layout.pc] == int(variable("&tek__context_enter")):
        routine = thread.value["routine"].format_string(symbols=True)
        return f"It has not begun yet: {routine}\n"
    # The order matters: these are the real ones.
    innermost = [int(frame.read_register(name)) for name in (layout.sp, layout.pc)]
    UNWINDER.layout, UNWINDER.registers, UNWINDER.innermost = layout, registers, innermost
    UNWINDER.enabled = True
    gdb.invalidate_cached_frames()
    select_frame(1)
    match = BACKTRACE.fullmatch(command)
    if not match:
        return gdb.execute(command, to_string=True)
    # One more of the innermost frames: the first is not shown.
    arguments = re.sub(r"(?<![-\w])\d+\b", lambda count: str(int(count[0]) + 1), match[2])
    return without_innermost(gdb.execute("backtrace" + arguments, to_string=True))


def on_kernel_thread(tid, command):
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] == tid or (thread.ptid[1] == 0 and thread.ptid[2] == tid):
            thread.switch()
            return gdb.execute(command, to_string=True)
    return f"Its kernel thread {tid} is not there.\n"


def apply(thread, command):
    """Runs a gdb command on a thread, and prints what it says."""
    with Selection():
        if int(thread.value["joiner"]) == ENDED:
            text = "It has ended.\n"
        elif thread.kernel_tid is not None:
            text = on_kernel_thread(thread.kernel_tid, command)
        else:
            text = on_parked(thread, command)
    gdb.write(text)


def headline(thread):
    name = f" {thread.name!r}" if thread.name else ""
    return f"User-level thread {thread.id}{name} ({thread.state}):\n"


class Prefix(gdb.Command):
    """User-level threads of TEK."""

    def __init__(self):
        super().__init__("tek", gdb.COMMAND_STACK, prefix=True)


class ListCommand(gdb.Command):
    """List the user-level threads: what they do or wait for, and where their stacks are."""

    def __init__(self):
        super().__init__("tek uthreads", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument)
        rows = [("Id", "Name", "State", "Stack")]
        for thread in chosen(words) if words else uthreads():
            rows.append((str(thread.id), thread.name, thread.state, thread.stack))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths)]
            gdb.write("  ".join([cells[0].strip().rjust(widths[0]), *cells[1:], row[3]]) + "\n")


class OneCommand(gdb.Command):
    """Run a command on a user-level thread.
Usage: tek uthread ID COMMAND
       tek uthread apply all|ID... COMMAND"""

    def __init__(self):
        super().__init__("tek uthread", gdb.COMMAND_STACK, gdb.COMPLETE_NONE)

    def invoke(self, argument, from_tty):
        words = argument.split()
        if not words:
            raise gdb.GdbError(self.__doc__)
        several = words[0] == "apply"
        if several:
            words = words[1:]
        count = 0
        while count < len(words) and re.fullmatch(r"all|\d+(-\d+)?", words[count]):
            count += 1
            if not several:
                break
        threads, command = chosen(words[:count]), " ".join(words[count:])
        if not count or (several and not command):
            raise gdb.GdbError(self.__doc__)
        for thread in threads:
            if several or not command:
                gdb.write(headline(thread))
            if command:
                apply(thread, command)
            if several:
                gdb.write("\n")


Prefix()
ListCommand()
OneCommand()
