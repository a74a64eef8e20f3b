"""Fuzz the file readers: mutate valid files, and report errors that are not the package's own.

python -m tools.fuzz readers --seed 0 --count 50000     all readers in turn
python -m tools.fuzz readers --only "mt.load"           only readers with this text in their names
python -m tools.fuzz readers --seed 0 --case 123        one case, with its file and its traceback
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from pathlib import Path

from .isolated import Failure, place_of, run_isolated
from .mutations import mutate

__all__ = ["Campaign", "all_readers", "main"]

_SECONDS = 60.0  # time limit of one case
_MOST = 3  # cases to print for each place


def all_readers():
    """Return the list of all readers."""
    from .course_readers import COURSE_READERS
    from .learner_readers import LEARNER_READERS
    from .model_readers import MODEL_READERS
    from .sound_readers import SOUND_READERS

    return [*MODEL_READERS, *COURSE_READERS, *LEARNER_READERS, *SOUND_READERS]


class Campaign:
    """A fuzzing run: mutated files for a list of readers, determined by a seed.

    Parameters
    ----------
    readers : list of Reader
    seed : int
    folder : path
        Folder for the files.
    allowed : tuple of exception classes
        Errors that a reader may raise to reject a file.
    """

    def __init__(self, readers, seed, folder, allowed):
        self.readers, self.seed, self.folder = readers, seed, Path(folder)
        self.allowed = allowed
        self.valid = {reader.name: self._valid_files(reader) for reader in readers}

    def _valid_files(self, reader):
        """Write a reader's valid files once, check that it accepts them, and return their bytes."""
        place = self._empty_folder()
        reader.make(place)
        paths = sorted(path for path in place.rglob("*") if path.is_file())
        files = {path.relative_to(place).as_posix(): path.read_bytes() for path in paths}
        if reader.accepts:
            reader.read(place)
        return files

    def _empty_folder(self):
        place = self.folder / "case"
        if place.exists():
            shutil.rmtree(place)
        place.mkdir()
        return place

    def mutated(self, case):
        """Return the reader, the name of the mutated file, and the Mutation of one case."""
        reader = self.readers[case % len(self.readers)]
        rng = random.Random(f"{self.seed}/{case}/{reader.name}")
        name = rng.choice([*reader.files])
        return reader, name, mutate(self.valid[reader.name][name], reader.files[name], rng)

    def run(self, case, raising=False):
        """Run one case. Return None if the file was read or refused correctly, else a Failure."""
        reader, name, mutation = self.mutated(case)
        place = self._empty_folder()
        for other, data in self.valid[reader.name].items():
            path = place / other
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(mutation.data if other == name else data)
        what = f"{reader.name}, {name}: {mutation.what}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reader.read(place)
        except self.allowed:
            return None
        except BaseException as error:
            if raising:
                traceback.print_exc()
            text = f"{type(error).__name__}: {error}"[:150]
            return Failure(case, f"{what}\n      {text}", place_of(error))
        if reader.must_refuse(mutation):
            return Failure(case, what, f"accepted a wrong type: {reader.name}")
        return None


def parsed(arguments):
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz readers", description="Give mutated files to every reader."
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--count", type=int, default=50_000, help="number of files")
    parser.add_argument("--only", default="", metavar="TEXT", help="readers with TEXT in the name")
    parser.add_argument("--case", type=int, metavar="N", help="run case N only, and show its error")
    parser.add_argument("--all", action="store_true", help="print all failures of each place")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run the command. Return its exit status: 1 if there is any failure."""
    import click

    from minitorch_attn.errors import MiniTorchError

    options = parsed(arguments)
    start, failures = time.monotonic(), defaultdict(list)
    readers = [reader for reader in all_readers() if options.only in reader.name]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        campaign = Campaign(readers, options.seed, folder, (MiniTorchError, click.ClickException))
        if options.case is not None:
            return _show(campaign, options.case)
        for number, failure in enumerate(
            run_isolated(campaign.run, range(options.count), _SECONDS), 1
        ):
            if failure:
                failures[failure.place].append(failure)
            if number % 500 == 0 and sys.stderr.isatty():
                print(f"\r{number} of {options.count}", end="", file=sys.stderr, flush=True)
    _report(failures, options.all)
    count = sum(map(len, failures.values()))
    print(
        f"{count} failures at {len(failures)} places in {options.count} files of {len(readers)} "
        f"readers; seed {options.seed}; {time.monotonic() - start:.0f} s"
    )
    return 1 if failures else 0


def _show(campaign, case):
    reader, name, mutation = campaign.mutated(case)
    print(f"{reader.name}, {name}: {mutation.what}\n{mutation.data[:2000]!r}")
    failure = campaign.run(case, raising=True)
    print(failure or "read, or refused with an error of the package")
    return 1 if failure else 0


def _report(failures, everything):
    """Print the failures, grouped by place, with the most frequent place first."""
    for place, found in sorted(failures.items(), key=lambda item: -len(item[1])):
        print(f"{place}  ({len(found)} files)")
        for failure in found if everything else found[:_MOST]:
            print(f"   case {failure.case}: {failure.what}")
