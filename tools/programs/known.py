"""The cells that are expected not to work, with the reason. The first entry that matches counts.

Remove an entry when tools/real-programs reports that its cell works.
"""

from .verdict import Known, Verdict

REFUSED, DIFFERS, HANGS = Verdict.REFUSED, Verdict.DIFFERS, Verdict.HANGS

KNOWN = (
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
