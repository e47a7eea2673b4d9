"""The modes that each program runs in: the words of `tek` before it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    name: str  # as --mode has it, and the heading of its column
    words: tuple[str, ...]  # after `tek`; {directory} is a directory of the run
    times: int = 1  # how often the work is done; the last time counts


def _run(name: str, *options: str, times: int = 1) -> Mode:
    return Mode(name, ("run", *options, "--"), times)


NATIVE = Mode("native", ())

MODES = (
    _run("plain"),
    _run("critical", "--critical", "*"),
    # The first run measures the stacks, the second gets those that fit.
    _run("stack", "--stack", "auto", "--stack-profiles", "{directory}/stacks", times=2),
    _run("lock-park", "--lock", "park"),
    _run("lock-auto", "--lock", "auto"),
    _run("mimalloc", "--alloc", "mimalloc"),
    _run("tlsf", "--alloc", "tlsf"),
    _run("place", "--place", "spread"),
    _run("m:1", "--model", "m:1"),
    _run("m:n", "--model", "m:n", "--workers", "2"),
    _run("klt", "--model", "m:n", "--workers", "2", "--preempt", "klt"),
    Mode("profile", ("profile", "-o", "{directory}/profile", "--")),
)
