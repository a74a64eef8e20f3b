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


HEAP = """
import resource, sys
import numpy as np
if "limited" in sys.argv:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
from minitorch_attn.backend.allocator import keep_memory, release_memory
def advised():
    heap = total = 0
    for line in open("/proc/self/smaps"):
        if "-" in line.split()[0]:
            heap = line.rstrip().endswith("[heap]")
        elif heap and line.startswith("Size:"):
            size = int(line.split()[1])
        elif heap and line.startswith("VmFlags:") and " hg" in line:
            total += size
    return total // 1024
found = [advised()]
for change in (release_memory, lambda: keep_memory(False), keep_memory, keep_memory):
    change()
    found.append(advised())
status = dict(line.split(":") for line in open("/proc/self/status"))
print(*found, int(status["VmHWM"].split()[0]) // 1024)
"""


def heap(word="", **environment):
    """MiB of the heap with a request for huge pages: at first and after changes; peak memory."""
    command = [sys.executable, "-c", HEAP, word]
    environment = {**os.environ, "MINITORCH_KEEP_MEMORY": "", **environment}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [int(number) for number in result.stdout.split()]


@pytest.mark.skipif(not allocator._is_glibc(), reason="needs glibc")
def test_huge_pages_are_requested_for_the_heap():
    imported, released, returned, *kept, peak = heap()
    assert imported >= 1024 <= released and returned < 64
    assert kept[0] >= 1024 and kept[1] == kept[0] < 1200  # not once more for each call
    assert peak < 300  # the reserved memory is not in use


@pytest.mark.skipif(not allocator._is_glibc(), reason="needs glibc")
def test_nothing_is_reserved_if_forbidden_or_limited():
    for *found, _ in (heap(MINITORCH_KEEP_MEMORY="0"), heap("limited")):
        assert max(found) < 64


@pytest.mark.parametrize("refused", [(), (1 << 30,), (1 << 30, 32 << 20)])
def test_a_refused_threshold_leaves_the_other_settings_alone(monkeypatch, refused):
    """Any setting ends glibc's own adjustment of the threshold, which alone would be slower."""
    made = []

    def mallopt(parameter, value):
        made.append(parameter) if value not in refused else None
        return int(value not in refused)

    monkeypatch.delenv("MINITORCH_KEEP_MEMORY", raising=False)
    monkeypatch.setattr(allocator, "_is_glibc", lambda: True)
    monkeypatch.setattr(allocator, "_kept", [False])
    monkeypatch.setattr(allocator, "_reserve", lambda: None)
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
