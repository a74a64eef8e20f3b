"""Fixtures: a small text, small settings, and commands run in this process or in a child."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minitorch_attn.cli import INTERRUPTED, main

ROOT = Path(__file__).resolve().parents[2]
TINY = "--layers 1 --heads 2 --dim 8 --context 8 --batch 4 --warmup 3 --dropout 0.1".split()


@pytest.fixture(autouse=True)
def quiet_place(request, tmp_path, monkeypatch):
    """An empty working folder."""
    if request.config.getoption("--device") != "numpy":
        pytest.skip("commands have a --device of their own and are tested once")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MTA_STATE", str(tmp_path / "state"))
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "MTA_FAST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def text(tmp_path):
    """A text file of 3,000 characters."""
    words = "the quick brown fox jumps over the lazy dog and then it rests a while. ".split(" ")
    picked = [words[i * i % 13] for i in range(900)]
    path = tmp_path / "text.txt"
    path.write_text(" ".join(picked)[:3000])
    return path


@pytest.fixture
def mta(capsys):
    """mta("tour", ...) -> exit code, standard output, standard error.

    Ctrl-C during a command ends the test run, unless a test sets `interrupted` and causes it.
    """

    def call(*arguments, interrupted=False):
        code = main([str(a) for a in arguments])
        if code == INTERRUPTED and not interrupted:
            raise KeyboardInterrupt
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def tiny(text):
    """Arguments of a run that takes a fraction of a second."""
    return ["train", "gpt", "--text", text, "--eval-every", 10, *TINY]


@pytest.fixture
def start():
    """start(arguments...) -> a child process that runs `mta` with them."""

    def launch(*arguments, **options):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "minitorch_attn", *map(str, arguments)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
        )  # fmt: skip

    return launch
