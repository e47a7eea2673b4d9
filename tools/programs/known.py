"""The cells that are expected not to work, with the reason. The first entry that matches counts.

Remove an entry when tools/real-programs reports that its cell works.
"""

from .verdict import Known, Verdict

REFUSED, DIFFERS, HANGS = Verdict.REFUSED, Verdict.DIFFERS, Verdict.HANGS

KNOWN = (
    Known("go", "*", REFUSED, "it is statically linked, so nothing can be preloaded into it"),
)
