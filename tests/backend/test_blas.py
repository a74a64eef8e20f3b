"""BLAS threads and kernels: what is read and set is that of NumPy's own library."""

import subprocess
import sys

import pytest

pytest.importorskip("scipy")
pytest.importorskip("threadpoolctl")

PROGRAM = """
import {first}
import {second}
import numpy as np
import threadpoolctl
from minitorch_attn.backend.blas import blas_kernels, blas_threads, limited_blas_threads

def of_numpy(entry="num_threads"):
    found = [i for i in threadpoolctl.threadpool_info() if "numpy" in i["filepath"]]
    return [i[entry] for i in found if i["user_api"] == "blas"]

before = of_numpy()
if not before:
    raise SystemExit(77)  # NumPy and SciPy use the same library
with limited_blas_threads(1):
    inside = of_numpy()
same = of_numpy("architecture") == [blas_kernels()]
print(before == of_numpy() == [blas_threads()], inside, same)
"""


@pytest.mark.parametrize("first, second", [("numpy", "scipy.linalg"), ("scipy.linalg", "numpy")])
def test_the_library_of_numpy_is_limited_beside_that_of_scipy(first, second):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(first=first, second=second)],
        capture_output=True, text=True, timeout=60, env={"OPENBLAS_NUM_THREADS": "2"},
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this NumPy does not include a BLAS library")
    assert done.stdout.split("\n")[0] == "True [1] True", done.stderr
