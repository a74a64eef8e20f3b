"""The fuzzer of the readers: it finds planted mistakes, and the package's readers pass it."""

import json
import mmap
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # tools/ is not installed

fuzz = pytest.importorskip("tools.fuzz.readers", reason="requires fork and resource limits")

from minitorch_attn.errors import DataError, MiniTorchError  # noqa: E402
from tools.fuzz.isolated import limit_memory, run_isolated  # noqa: E402
from tools.fuzz.mutations import FORMATS, mutate  # noqa: E402
from tools.fuzz.reader import Reader, write_json  # noqa: E402

VALID = {"size": 3, "name": "a", "flag": True, "eps": 0.5, "rows": [1, 2]}
GOOD = (int, str, bool, float, list)


def careful(folder):
    """A reader that refuses every wrong type."""
    try:
        found = json.loads((folder / "a.json").read_text(encoding="utf-8"), parse_constant=float)
    except (OSError, ValueError, RecursionError, TypeError) as error:
        raise DataError("a.json could not be read", got=str(error)) from None
    if not isinstance(found, dict) or found.keys() < VALID.keys():
        raise DataError("a.json does not have the fields")
    if any(type(found.get(name)) is not kind for name, kind in zip(VALID, GOOD, strict=True)):
        raise DataError("a.json has a field of the wrong type")
    if any(type(row) is not int for row in found["rows"]) or not abs(found["eps"]) < 1e300:
        raise DataError("a.json has a row of the wrong type")


def without_types(folder):
    try:
        json.loads((folder / "a.json").read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError("a.json could not be read", got=str(error)) from None


def failures_of(read, tmp_path, count=60, seconds=20.0):
    reader = Reader("planted", lambda f: write_json(f / "a.json", VALID), read, {"a.json": "json"})
    campaign = fuzz.Campaign([reader], 0, tmp_path, (MiniTorchError,))
    results = list(run_isolated(campaign.run, range(count), seconds))
    assert len(results) == count
    return [failure for failure in results if failure]


def test_a_careful_reader_passes(tmp_path):
    assert failures_of(careful, tmp_path, 400) == []


def test_a_foreign_error_is_found_with_its_place_and_case(tmp_path):
    def read(folder):
        json.loads((folder / "a.json").read_text(encoding="utf-8"))["size"]

    found = failures_of(read, tmp_path)
    places = {failure.place for failure in found}
    assert any(place.startswith("test_fuzz_readers.py:") for place in places)
    again = failures_of(read, tmp_path)
    assert found == again  # the seed determines the files
    assert all(f"{f.case}" and "planted, a.json" in f.what for f in found)


def test_an_accepted_wrong_type_is_found(tmp_path):
    found = failures_of(without_types, tmp_path)
    assert any(f.place == "accepted a wrong type: planted" for f in found)


@pytest.mark.parametrize("how", ["endless", "memory", "crash"])
def test_a_reader_that_does_not_come_back(how, tmp_path):
    valid = json.dumps(VALID, indent=1)

    def read(folder):
        if (folder / "a.json").read_bytes() == valid.encode():
            return
        if how == "endless":
            time.sleep(60)
        elif how == "memory":
            bytearray(1 << 40)
        os._exit(3)

    (failure,) = failures_of(read, tmp_path, 1, seconds=1.0 if how == "endless" else 20.0)
    assert {"endless": "time limit", "memory": "test_fuzz_readers.py", "crash": "crash"}[
        how
    ] in failure.place


@pytest.mark.parametrize("kind", FORMATS)
def test_mutations_differ_and_follow_from_the_seed(kind, tmp_path):
    reader = next(r for r in fuzz.all_readers() if kind in r.files.values())
    reader.make(tmp_path)
    name = next(name for name, found in reader.files.items() if found == kind)
    data = (tmp_path / name).read_bytes()
    made = [mutate(data, kind, random.Random(seed)).data for seed in range(60)]
    assert made == [mutate(data, kind, random.Random(seed)).data for seed in range(60)]
    assert len(set(made)) > 30


@pytest.mark.slow
def test_the_readers_of_the_package():
    """A small part of the campaign: five files for each reader."""
    command = [sys.executable, "-W", "ignore", "-m", "tools.fuzz", "readers"]
    count = 5 * len(fuzz.all_readers())
    done = subprocess.run(
        [*command, "--seed", "1", "--count", str(count)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert f"0 failures at 0 places in {count} files" in done.stdout


def test_the_memory_of_the_parent_does_not_count_towards_the_limit():
    """A test process with browsers and plots has gigabytes of address space."""
    found = run_in_child_of_large_parent(512 << 20)
    assert found == "allocated"
    assert run_in_child_of_large_parent(3 << 30) == "refused"


def run_in_child_of_large_parent(size):
    """Reserve 4 GiB of address space, then allocate `size` bytes in a limited child process.

    The bytes come from the system: free memory that the parent keeps has been counted already.
    """
    with mmap.mmap(-1, 4 << 30, prot=mmap.PROT_READ):
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            limit_memory(1 << 30)
            try:
                mmap.mmap(-1, size).close()
                os.write(writer, b"allocated")
            except OSError:
                os.write(writer, b"refused")
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with os.fdopen(reader) as file:
            return file.read()
