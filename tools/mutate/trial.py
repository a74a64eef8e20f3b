"""Run the tests that execute a statement, with the statement changed."""

import os
import re
import sys
import time

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings

__all__ = ["Footprint", "collect", "footprint", "near_tests", "run_mutant"]


class Footprint:
    """What one test does: how long it takes, whether it passes, which lines it executes.

    Attributes
    ----------
    index : int
        Of the test in the list of all.
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
        The repository; tests lie in `tests/<folder>` for each of `folders`.
    folders : sequence of str
    then : callable
    """

    class Instead:
        def pytest_configure(self, config):
            config.option.tbstyle = "native"  # the quickest; nobody reads it

        def pytest_runtestloop(self, session):
            then(session.items)
            return True

    settings.register_profile(
        "mutate",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=30,
        phases=[Phase.explicit, Phase.generate],  # a failure is enough, it need not be small
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
        raise RuntimeError(f"the tests could not be collected: {status!r}; try pytest itself")


def near_tests(file, items, public):
    """The indices of the tests of one file of the package.

    Those of the mirrored test file, or without one those of every file that names something
    public of it.

    Parameters
    ----------
    file : str
        Such as "ops/softmax.py".
    items : list
        All tests.
    public : sequence of str
        The names the file offers.
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
    """Run one test."""
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=nextitem))


def footprint(items, indices, targets):
    """Run tests as they are and see which lines of the targets each of them executes.

    Parameters
    ----------
    items : list
    indices : list of int
        Which of them to run.
    targets : list of Target

    Returns
    -------
    list of Footprint
    """
    numbers = {}  # by identity: equal code may stand in two files
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
    """Put the changed function in place and run tests until one fails.

    Parameters
    ----------
    mutant : Mutant
    items : list
    order : list of int
        The tests to run, in this order.

    Returns
    -------
    int or None
        The index of the test that noticed.
    """
    # In place, so that whoever holds the function holds the changed one.
    mutant.target.function().__code__ = mutant.code()
    for place, index in enumerate(order):
        following = items[order[place + 1]] if place + 1 < len(order) else None
        if not passes(items[index], following):
            return index
    return None
