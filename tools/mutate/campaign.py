"""Campaign of mutation testing: run the tests on every mutant, and collect the verdicts."""

import random
import tomllib
from collections import Counter

from .forks import DIED, LATE, run_all
from .mutants import mutants_of
from .trial import footprint, near_tests, run_mutant

__all__ = ["Campaign", "Verdict", "read_equivalents"]

KILLED, SURVIVED = "killed", "survived"


class Verdict:
    """Test result of one mutant.

    Attributes
    ----------
    mutant : Mutant
    fate : str
        "killed" or "survived".
    by : str
        Name of the test that failed, "time limit" or "crash". Empty if the mutant survived.
    tests : int
        Number of tests that execute the changed statement.
    reason : str or None
        Why the change has no effect. None if `equivalent.toml` does not list the change.
    """

    def __init__(self, mutant, fate, by, tests, reason):
        self.mutant = mutant
        self.fate = fate
        self.by = by
        self.tests = tests
        self.reason = reason

    @property
    def group(self):
        """Column of the results table in which the mutant is counted."""
        if self.reason is None:
            return self.fate
        return "equivalent" if self.fate == SURVIVED else "not equivalent"


def read_equivalents(path):
    """Read the equivalent mutants, {(where, change): reason}, from a TOML file's `mutant` list."""
    if not path.exists():
        return {}
    with open(path, "rb") as stream:
        entries = tomllib.load(stream).get("mutant", [])
    return {(entry["where"], entry["change"]): entry["reason"] for entry in entries}


def draw(targets, sample=None, seed=0):
    """Create all mutants of the targets or, with `sample`, a random sample for each file.

    Returns
    -------
    dict of str to list of Mutant
        Mutants of each file.
    """
    files = {}
    for target in targets:
        files.setdefault(target.file, []).extend(mutants_of(target))
    if sample is not None:
        generator = random.Random(seed)
        for file, mutants in files.items():
            chosen = generator.sample(mutants, min(sample, len(mutants)))
            files[file] = sorted(chosen, key=mutants.index)
    return files


class Campaign:
    """One run of the mutation tests: every mutant with the tests that execute it.

    Parameters
    ----------
    targets : list of Target
    items : list
        All collected tests.
    equivalents : dict
        Result of `read_equivalents`.
    jobs : int
        Number of parallel processes.
    tell : callable
        Function that reports progress; it receives one line of text for each step.
    """

    def __init__(self, targets, items, equivalents, jobs=1, tell=print):
        self.targets = targets
        self.numbers = {target: number for number, target in enumerate(targets)}
        self.items = items
        self.equivalents = equivalents
        self.jobs = jobs
        self.tell = tell
        self.kills = {target: Counter() for target in targets}
        self.broken = set()  # tests that fail without any change

    def run(self, files, public, wide=True):
        """Test each mutant with the tests of its own file, then the survivors with all tests.

        Parameters
        ----------
        files : dict of str to list of Mutant
            Mutants of each file.
        public : dict of str to list of str
            Public names of each file.
        wide : bool
            Whether to test the surviving mutants with all tests.

        Returns
        -------
        list of Verdict
        """
        near = {file: near_tests(file, self.items, public.get(file, ())) for file in files}
        prints = self.footprints(sorted({index for indices in near.values() for index in indices}))
        verdicts = []
        for file, mutants in files.items():
            own = [prints[index] for index in near[file] if index in prints]
            verdicts += self.try_all(mutants, own)
            self.tell_file(file, verdicts)
        if wide and any(v.group == SURVIVED for v in verdicts):
            self.tell("some mutants survive the tests of their own file; running all tests on them")
            seen = set(prints) | self.broken
            prints |= self.footprints([i for i in range(len(self.items)) if i not in seen])
        left = [v.mutant for v in verdicts if v.fate == SURVIVED] if wide else []
        late = {v.mutant: v for v in self.try_all(left, list(prints.values()))}
        verdicts = [late.get(v.mutant, v) for v in verdicts]
        return verdicts

    def footprints(self, indices, portion=150):
        """Run tests in batches. Return {index: Footprint} for the tests that pass."""
        self.tell(f"running {len(indices)} tests unchanged")
        found = {}
        portions = [indices[i : i + portion] for i in range(0, len(indices), portion)]
        results = run_all(self._footprint, portions, lambda _: 600, self.jobs)
        for number, (indices, result) in enumerate(results):
            if result in (LATE, DIED):
                first = self.items[indices[0]].nodeid
                raise RuntimeError(f"a batch of tests failed; its first test is {first}: {result}")
            for one in result:
                found[one.index] = one
                if not one.passed:
                    self.broken.add(one.index)
                    self.tell(f"  fails without a change, skipped: {self.items[one.index].nodeid}")
            self.tell(f"  {min((number + 1) * portion, len(found))} tests", passing=True)
        return {index: found[index] for index in sorted(found) if found[index].passed}

    def _footprint(self, indices):
        return footprint(self.items, indices, self.targets)

    def try_all(self, mutants, prints):
        """Test the mutants and return their verdicts; `prints` are the footprints of the tests."""
        users = {mutant: [p for p in prints if self._executes(p, mutant)] for mutant in mutants}
        verdicts = {}

        def order(mutant):
            kills = self.kills[mutant.target]
            ranked = sorted(users[mutant], key=lambda p: (-kills[p.index], p.seconds))
            return [p.index for p in ranked]

        def work(mutant):
            return run_mutant(mutant, self.items, order(mutant))

        def seconds(mutant):
            return 10 + 5 * sum(p.seconds for p in users[mutant])

        for mutant, result in run_all(work, mutants, seconds, self.jobs):
            verdicts[mutant] = self._verdict(mutant, result, len(users[mutant]))
            self.tell(f"  {len(verdicts)} of {len(mutants)} in {mutant.target.file}", passing=True)
        return [verdicts[mutant] for mutant in mutants]

    def _executes(self, one, mutant):
        number = self.numbers[mutant.target]
        return any((number, line) in one.lines for line in mutant.span)

    def _verdict(self, mutant, result, tests):
        reason = self.equivalents.get((repr(mutant.target), mutant.change))
        if result is None:
            return Verdict(mutant, SURVIVED, "", tests, reason)
        by = {LATE: "time limit", DIED: "crash"}.get(result)
        if by is None:
            self.kills[mutant.target][result] += 1
            by = self.items[result].nodeid
        return Verdict(mutant, KILLED, by, tests, reason)

    def tell_file(self, file, verdicts):
        """Print how many mutants of a file are in each group, such as "killed"."""
        own = [v for v in verdicts if v.mutant.target.file == file]
        count = Counter(v.group for v in own)
        self.tell(f"{file}: {', '.join(f'{n} {group}' for group, n in sorted(count.items()))}")
