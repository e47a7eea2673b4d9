"""The tests of tools/check itself: a parser that loses a failure would hide it for good."""

import io
import sys
import unittest

from .process import Context
from .results import Case, failed, passed, skipped


class _Recorder(unittest.TextTestResult):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.cases: list[Case] = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.cases.append(passed(test.id()))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.cases.append(skipped(test.id(), reason))

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.cases.append(failed(test.id(), "passed, but is expected to fail"))


def own_tests(context: Context) -> list[Case]:
    tests = unittest.defaultTestLoader.discover(str(context.top / "tools"), "test_*.py")
    return _run(context, tests)


def alone(context: Context, name: str) -> list[Case]:
    """The test with that name: MODULE.CLASS.METHOD."""
    sys.path.insert(0, str(context.top / "tools"))
    return _run(context, unittest.defaultTestLoader.loadTestsFromName(name))


def _run(context: Context, suite: unittest.TestSuite) -> list[Case]:
    stream = io.StringIO()
    result = unittest.TextTestRunner(stream=stream, resultclass=_Recorder).run(suite)
    context.logs.mkdir(parents=True, exist_ok=True)
    log = context.logs / "tools.log"
    log.write_text(stream.getvalue())
    return result.cases + [failed(test.id(), why.strip().split("\n")[-1], log, why)
                           for test, why in [*result.failures, *result.errors]]
