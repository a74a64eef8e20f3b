"""Verify that an assignment's solution passes, planted bugs fail and the release leaks nothing."""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import resolve_name
from multiprocessing import get_context
from pathlib import Path

from ...errors import DataError
from ..grade.sandbox import Sandbox
from ..grade.session import Session
from .assignment import find_assignment
from .blank import functions, replace_body
from .leaks import leaks
from .package import solution_files, starter_files, write_package
from .release import write_release

__all__ = ["Proof", "verify", "verify_several", "with_bug"]

SEED = 20_240
REWARD_SECONDS = 60  # CPU time, on one core


@dataclass
class Proof:
    """Result of one verification.

    Attributes
    ----------
    what : str
        Description of the verification.
    points : str
        Points earned and maximum points.
    found : str
        Description of what is wrong. Empty if the verification succeeded.
    seconds : float
        Duration in seconds.
    """

    what: str
    points: str = ""
    found: str = ""
    seconds: float = 0.0

    @property
    def holds(self):
        """Whether the verification succeeded."""
        return not self.found


def verify(assignment, level=None, seed=SEED, reward=True, place=0):
    """Verify an assignment, and yield the result of each verification when it is done.

    Parameters
    ----------
    assignment : Assignment
    level : int, optional
        Sandbox level. Defaults to the highest level available.
    seed : int
        Random seed for the inputs.
    reward : bool, default True
        Whether to also run the assignment's `reward.py`, which trains a model.
    place : int, default 0
        Number of this verification among those that run at the same time, passed to `Sandbox`.

    Yields
    ------
    Proof
    """
    folder = Path(tempfile.mkdtemp(prefix="minitorch-attn-verify-"))
    try:
        sandbox = Sandbox(level or Sandbox.best(), place=place)
        yield from _Prover(assignment, folder, sandbox, seed).proofs(reward)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def verify_several(assignments, jobs=1, **options):
    """Verify assignments, `jobs` of them at a time, each in a separate process.

    Parameters
    ----------
    assignments : list of Assignment
    jobs : int, default 1
        Number of processes. With 1, the verifications run in the current process, and each `Proof`
        is yielded as soon as its verification ends.
    **options
        Arguments of `verify`.

    Yields
    ------
    assignment : Assignment
    proofs : iterable of Proof
    """
    if jobs == 1:
        for made in assignments:
            yield made, verify(made, **options)
        return
    one = partial(_verify_folder, options)
    folders = [str(made.folder) for made in assignments]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        found = pool.map(one, folders, range(len(folders)))
        yield from zip(assignments, found, strict=True)


def _verify_folder(options, folder, place):
    return list(verify(find_assignment(folder), place=place, **options))


class _Prover:
    """Grader of candidates: the solution, the starter, planted bugs and workarounds."""

    def __init__(self, assignment, folder, sandbox, seed):
        self.assignment, self.folder, self.sandbox = assignment, folder, sandbox
        self.checks = assignment.checks_by_name(seed)
        write_package(assignment, folder / "stripped", stripped=True)

    def proofs(self, reward):
        made = self.assignment
        everything = {entry.name for entry in made.checks}
        solution = solution_files(made)
        yield self.candidate("the solution", solution, set())
        yield self.candidate("the starter", starter_files(made), everything)
        for bug in made.bugs:
            yield self.candidate(f"bug: {bug.name}", with_bug(solution, bug), set(bug.loses))
        for way in made.ways:
            files = with_bug(solution_files(made, calling=way.body), way)
            proof = self.candidate(f"workaround: {way.name}", files, set(way.loses))
            missing = [f"the library does not have {name}" for name in _missing_imports(way)]
            proof.found = "\n".join([*missing, proof.found]).strip()
            yield proof
        yield from self.release(solution, reward)

    def candidate(self, what, files, loses):
        """Grade `files`, and verify that exactly the checks in `loses` fail."""
        start, lost, said, points = time.monotonic(), set(), {}, 0
        data = {path: text.encode() for path, text in files.items()}
        with Session(self.sandbox, self.folder / "stripped", data) as session:
            for entry in self.assignment.checks:
                verdicts = (session.verdict(check) for check in self.checks[entry.name])
                failed = next((v for v in verdicts if not v.passed), None)
                if failed is None:
                    points += entry.points
                else:
                    lost.add(entry.name)
                    said[entry.name] = f"{failed.status}: {_end(failed.message)}"
        found = [
            f"{name} must pass, but its status is {said[name]}" for name in sorted(lost - loses)
        ]
        found += [f"{name} must fail, but it passed" for name in sorted(loses - lost)]
        total = f"{points} of {self.assignment.points}"
        return Proof(what, total, "\n".join(found), time.monotonic() - start)

    def release(self, solution, reward):
        """Verify that a release leaks nothing, and that its checks and `reward.py` run."""
        folder = self.folder / "release"
        start = time.monotonic()
        write_release(self.assignment, folder)
        found = leaks(self.assignment, folder)
        yield Proof("no leak in the release", "", "\n".join(found), time.monotonic() - start)
        public = sum(entry.points for entry in self.assignment.checks if not entry.hidden)
        yield self.script("check.py on the starter", folder, "check.py", 1, f"0 of {public} points")
        for path, text in solution.items():
            (folder / path).write_text(text, encoding="utf-8")
        total = f"{public} of {public} points"
        yield self.script("check.py on the solution", folder, "check.py", 0, total)
        if reward:
            yield self.script("the reward", folder, "reward.py", 0, "")

    def script(self, what, folder, name, code, said):
        """Run a script of the release, and check its exit status and output."""
        start, used = time.monotonic(), _used_by_children()
        environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [sys.executable, name], cwd=folder, env=environment, capture_output=True, text=True,
            check=False, timeout=600,
        )  # fmt: skip
        seconds, used, found = time.monotonic() - start, _used_by_children() - used, ""
        if done.returncode != code or said not in done.stdout:
            text = (done.stdout + done.stderr).strip()[-1500:]
            found = f"exit status {done.returncode}, expected {code} and {said!r}:\n{text}"
        elif name == "reward.py" and used > REWARD_SECONDS:
            found = f"it took {used:.0f} s of CPU time, more than {REWARD_SECONDS} s"
        return Proof(what, "", found, seconds)


def _used_by_children():
    """Return the CPU seconds of finished child processes, or a clock reading on Windows."""
    try:
        import resource
    except ImportError:
        return time.monotonic()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _missing_imports(way):
    """Return the names that a workaround imports but the library does not have.

    A workaround (an attempt to earn points without doing the work) must fail because a check
    rejects it, not because an import fails.
    """
    package = way.target.module.rpartition(".")[0]
    missing = []
    for node in ast.walk(ast.parse(way.body)):
        if isinstance(node, ast.ImportFrom) and node.level:
            name = resolve_name("." * node.level + (node.module or ""), package)
            try:
                module = import_module(name)
            except ModuleNotFoundError:
                missing.append(name)
                continue
            missing += [f"{name}:{a.name}" for a in node.names if not hasattr(module, a.name)]
    return missing


def _end(text):
    """Return the last lines of a message."""
    return "\n".join(text.splitlines()[-4:])[-500:]


def with_bug(files, bug):
    """Plant a bug in the files of the solution.

    Parameters
    ----------
    files : dict of str to str
        Text of each file, by path.
    bug : Bug

    Returns
    -------
    dict of str to str
        The files, with the bug.
    """
    path, name = bug.target.path, bug.target.name
    text = files[path]
    if bug.body is not None:
        return {**files, path: replace_body(text, name, bug.body)}
    node = functions(text)[name]
    lines = text.splitlines(keepends=True)
    body = "".join(lines[node.lineno - 1 : node.end_lineno])
    if body.count(bug.old) != 1:
        raise DataError(
            f"bug {bug.name!r}: the text to replace must occur once in {bug.target}",
            got=f"{body.count(bug.old)} times {bug.old!r}",
            hint="copy the text from the function, with enough of it to be unique",
        )
    lines[node.lineno - 1 : node.end_lineno] = [body.replace(bug.old, bug.new)]
    return {**files, path: "".join(lines)}
