"""Settings of the C library's allocator: made by the import, unless the environment forbids it."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from minitorch_attn.backend import allocator

PROGRAM = """
import resource, sys
import numpy as np
if sys.argv[1] in ("import", "return"):
    from minitorch_attn.backend import keep_memory
    if sys.argv[1] == "return":
        keep_memory(False)
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
x = np.ones(4_000_000, "float32")
for _ in range(3): y = x + 1
before = faults()
for _ in range(10): y = x + 1
print(faults() - before)
"""


def run(word, **environment):
    command = [sys.executable, "-c", PROGRAM, word]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return int(result.stdout)


@pytest.mark.skipif(not allocator._is_glibc(), reason="needs glibc")
def test_kept_memory_causes_no_page_faults():
    assert run("import", MINITORCH_KEEP_MEMORY="") < 20


@pytest.mark.skipif(not allocator._is_glibc(), reason="needs glibc")
def test_returned_again_on_request():
    assert run("return", MINITORCH_KEEP_MEMORY="") > 60


@pytest.mark.skipif(not allocator._is_glibc(), reason="needs glibc")
@pytest.mark.parametrize("word", ["import", "nothing"])
def test_switched_off_by_the_environment(word):
    assert run(word, MINITORCH_KEEP_MEMORY="0") > 60  # with huge pages; without them, 40,000


@pytest.mark.parametrize("refused", [(), (1 << 30,), (1 << 30, 32 << 20)])
def test_a_refused_threshold_leaves_the_other_settings_alone(monkeypatch, refused):
    """Any setting ends glibc's own adjustment of the threshold, which alone would be slower."""
    made = []

    def mallopt(parameter, value):
        made.append(parameter) if value not in refused else None
        return int(value not in refused)

    monkeypatch.delenv("MINITORCH_KEEP_MEMORY", raising=False)
    monkeypatch.setattr(allocator, "_is_glibc", lambda: True)
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    assert allocator.keep_memory() is (len(refused) < 2)
    assert made == ([] if len(refused) == 2 else [-3, -1, -2])


def test_other_c_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(allocator, "_is_glibc", lambda: False)
    assert allocator.keep_memory() is False


@pytest.mark.parametrize("error", [ValueError, OSError])
def test_an_unknown_c_library_is_not_glibc(monkeypatch, error):
    def confstr(name):
        raise error

    monkeypatch.setattr(allocator.os, "confstr", confstr, raising=False)
    assert not allocator._is_glibc()
