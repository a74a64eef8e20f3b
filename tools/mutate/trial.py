"""Trial of a mutant: run the tests that execute the changed statement."""

import os
import re
import sys
import time

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings

__all__ = ["Footprint", "collect", "footprint", "near_tests", "run_mutant"]


class Footprint:
    """Footprint of one test: its time, its outcome and the lines that it executes.

    Attributes
    ----------
    index : int
        Index of the test in the list of all tests.
    seconds : float
    passed : bool
    lines : set of (target number, line)
    """

    def __init__(self, index, seconds, passed, lines):
        self.index = index
        self.seconds = seconds
        self.passed = passed
        self.lines = lines


def collect(root, folders, then):
    """Collect the tests once and call `then(items)`.

    Parameters
    ----------
    root : Path
        Repository.
    folders : sequence of str
        Names of the folders in `tests/` to collect.
    then : callable
    """

    class Instead:
        def pytest_configure(self, config):
            config.option.tbstyle = "native"  # the fastest traceback style; nobody reads the output

        def pytest_runtestloop(self, session):
            then(session.items)
            return True

    settings.register_profile(
        "mutate",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=30,
        phases=[Phase.explicit, Phase.generate],  # do not shrink failing examples
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutate")
    places = [str(root / "tests" / folder) for folder in folders]
    places = [place for place in places if os.path.isdir(place)]
    options = ["-o", "addopts=", "--import-mode=importlib", "--assert=plain", "-s"]
    for plugin in ("terminal", "cacheprovider", "faulthandler"):
        options += ["-p", f"no:{plugin}"]
    status = pytest.main([*options, f"--rootdir={root}", *places], plugins=[Instead()])
    if status != pytest.ExitCode.OK:
        raise RuntimeError(f"the tests could not be collected ({status!r}); run pytest to see why")


def near_tests(file, items, public):
    """Return the indices of the tests for one file of the package.

    These are the tests in the test file with the corresponding path in `tests/`. If that test file
    does not exist, they are the tests in all test files that mention one of the public names.

    Parameters
    ----------
    file : str
        Path relative to the package, such as "ops/softmax.py".
    items : list
        All tests.
    public : sequence of str
        Public names of the file.
    """
    folder, name = file.rsplit("/", 1)
    mirrored = f"tests/{folder}/test_{name}"
    paths = {item.path for item in items}
    chosen = {path for path in paths if path.as_posix().endswith(mirrored)}
    if not chosen and public:
        words = re.compile(r"\b(" + "|".join(map(re.escape, public)) + r")\b")
        chosen = {path for path in paths if words.search(path.read_text(encoding="utf-8"))}
    return [index for index, item in enumerate(items) if item.path in chosen]


def passes(item, nextitem=None):
    """Run one test, and return True if it passes."""
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=nextitem))


def footprint(items, indices, targets):
    """Run tests on the unmutated code, and record which lines of the targets each test executes.

    Parameters
    ----------
    items : list
        All collected tests.
    indices : list of int
        Indices of the tests to run.
    targets : list of Target

    Returns
    -------
    list of Footprint
    """
    numbers = {}  # the keys are id(code), because two files may contain equal code
    for number, target in enumerate(targets):
        _note_codes(target.function().__code__, number, numbers)
    found, lines = [], set()

    def trace_line(frame, event, argument):
        lines.add((numbers[id(frame.f_code)], frame.f_lineno))
        return trace_line

    def trace_call(frame, event, argument):
        return trace_line if id(frame.f_code) in numbers else None

    for place, index in enumerate(indices):
        following = items[indices[place + 1]] if place + 1 < len(indices) else None
        lines.clear()
        start = time.process_time()
        sys.settrace(trace_call)
        try:
            passed = passes(items[index], following)
        finally:
            sys.settrace(None)
        found.append(Footprint(index, time.process_time() - start, passed, set(lines)))
    return found


def _note_codes(code, number, numbers):
    numbers[id(code)] = number
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            _note_codes(constant, number, numbers)


def run_mutant(mutant, items, order):
    """Apply a mutant and run tests until one fails.

    Parameters
    ----------
    mutant : Mutant
    items : list
        All collected tests.
    order : list of int
        Indices of the tests, in the order in which to run them.

    Returns
    -------
    int or None
        Index of the test that failed, or None if all tests passed.
    """
    # Replacing `__code__` changes the function for all references to it.
    mutant.target.function().__code__ = mutant.code()
    for place, index in enumerate(order):
        following = items[order[place + 1]] if place + 1 < len(order) else None
        if not passes(items[index], following):
            return index
    return None
