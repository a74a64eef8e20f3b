"""The examples of docs/distributed.md print what the page says."""

import re

from distributed.ranks import ROOT, needs_mpi, run_python

PAGE = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")


@needs_mpi
def test_the_example_prints_what_the_page_says(tmp_path):
    code, training = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    (said,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)
    (n,) = re.findall(r"^mpiexec -n (\d) python hello.py$", PAGE, re.M)
    path = tmp_path / "hello.py"
    path.write_text(code, encoding="utf-8")
    done = run_python(int(n), path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", said)
    path.write_text(training, encoding="utf-8")
    done = run_python(int(n), path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
