"""The cells that are expected not to work, with the reason. The first entry that matches counts.

Remove an entry when tools/real-programs reports that its cell works.
"""

from .verdict import Known, Verdict

REFUSED, DIFFERS, HANGS = Verdict.REFUSED, Verdict.DIFFERS, Verdict.HANGS

_SANDBOX = "its sandboxed processes may not make the system calls; the others are in this mode"
_ZYGOTE = "its sandbox and zygotes need processes of one kernel thread, which user-level threads are not"
_GO = "Go's run-time switches signal stacks and thread-local storage of kernel threads by itself"

KNOWN = (
    Known("firefox-esr", "critical", REFUSED, _SANDBOX),
    Known("firefox-esr", "place", REFUSED, _SANDBOX),
    Known("firefox-esr", "m:[1n]", HANGS, _ZYGOTE),
    Known("firefox-esr", "klt", HANGS, _ZYGOTE),
    Known(
        "chromium",
        "critical",
        DIFFERS,
        "its zygotes abort: they check that they have one kernel thread, and the guard of budgets "
        "is"
        " a second one",
    ),
    Known("chromium", "m:[1n]", HANGS, _ZYGOTE),
    Known("chromium", "klt", HANGS, _ZYGOTE),
    Known("go", "*", REFUSED, "it is statically linked, so nothing can be preloaded into it"),
    Known("go-cgo", "m:[1n]", DIFFERS, _GO),
    Known(
        "postgresql",
        "critical",
        REFUSED,
        "it refuses to run as root, and nobody may not use real-time priorities",
    ),
)

# Without a right to real-time priorities, and without a tekd that grants them.
WITHOUT_RIGHTS = Known("*", "critical", REFUSED, "the user may not use real-time priorities")


def known_cells(root: bool) -> tuple[Known, ...]:
    return KNOWN if root else (WITHOUT_RIGHTS, *KNOWN)
