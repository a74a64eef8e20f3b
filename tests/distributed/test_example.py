"""The examples of docs/distributed.md print what the page says."""

import re

import pytest
from distributed.ranks import ROOT, needs_mpi, run_python

PAGE = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")


@needs_mpi
@pytest.mark.slow
def test_the_example_prints_what_the_page_says(tmp_path):
    code, training, split = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    said, of_splits = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)
    (n,) = re.findall(r"^mpiexec -n (\d) python hello.py$", PAGE, re.M)
    path = tmp_path / "hello.py"
    path.write_text(code, encoding="utf-8")
    done = run_python(int(n), path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", said)
    path.write_text(training, encoding="utf-8")
    done = run_python(int(n), path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    path.write_text(split, encoding="utf-8")
    for line in of_splits.splitlines():
        name, *losses, sent, unit = line.split()
        done = run_python(1 if name == "none" else 2, path, name)
        assert (done.returncode, done.stderr) == (0, "")
        found = done.stdout.split()
        assert (found[0], *found[-2:]) == (name, sent, unit)
        assert [float(x) for x in found[1:-2]] == pytest.approx(
            [float(x) for x in losses], abs=1e-4
        )
