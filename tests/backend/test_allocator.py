"""Settings of the C library's allocator: made once, and only on request."""

import os
import subprocess
import sys

import pytest

from minitorch_attn.backend import allocator

PROGRAM = """
import resource, sys
import numpy as np
from minitorch_attn.backend.allocator import keep_memory
made = keep_memory() if sys.argv[1] == "keep" else None
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
x = np.ones(4_000_000, "float32")
for _ in range(3): y = x + 1
before = faults()
for _ in range(10): y = x + 1
print(made, faults() - before)
"""


def run(word, **environment):
    command = [sys.executable, "-c", PROGRAM, word]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    made, faults = result.stdout.split()
    return made, int(faults)


@pytest.mark.skipif(not allocator._is_glibc(), reason="needs glibc")
def test_kept_memory_causes_no_page_faults():
    made, faults = run("keep")
    assert made == "True"
    _, faults_without = run("leave")
    assert faults < 20
    assert faults_without > 60  # with huge pages; without them there are 40,000


def test_switched_off_by_the_environment():
    made, _ = run("keep", MINITORCH_KEEP_MEMORY="0")
    assert made == "False"


def test_other_c_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(allocator, "_is_glibc", lambda: False)
    assert allocator.keep_memory() is False


@pytest.mark.parametrize("error", [ValueError, OSError])
def test_an_unknown_c_library_is_not_glibc(monkeypatch, error):
    def confstr(name):
        raise error

    monkeypatch.setattr(allocator.os, "confstr", confstr, raising=False)
    assert not allocator._is_glibc()
