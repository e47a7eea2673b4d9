"""The cells that are expected not to work, with the reason. The first entry that matches counts.

Remove an entry when tools/real-programs reports that its cell works.
"""

from .verdict import Known, Verdict

REFUSED = Verdict.REFUSED

_SANDBOX = "its sandboxed processes may not make the system calls; the others are in this mode"
_RIGHTS = "its sandboxed processes give up their rights; the others are in this mode"
_ZYGOTE = ("its sandbox and zygotes need processes of one kernel thread, "
           "which user-level threads are not")
_GO = "Go's run-time switches signal stacks and thread-local storage of kernel threads by itself"
_MODELS = ("m:[1n]", "klt")

KNOWN = (
    Known("firefox-esr", "critical", REFUSED, _SANDBOX),
    Known("chromium", "critical", REFUSED, _RIGHTS),
    *(Known("firefox-esr", mode, REFUSED, _ZYGOTE) for mode in _MODELS),
    *(Known("chromium", mode, REFUSED, _ZYGOTE) for mode in _MODELS),
    *(Known("go-cgo", mode, REFUSED, _GO) for mode in _MODELS),
    Known("go", "*", REFUSED, "it is statically linked, so nothing can be preloaded into it"),
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
