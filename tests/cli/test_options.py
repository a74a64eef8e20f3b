"""Options, configuration files, and usage errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minitorch_attn.cli.console import table
from minitorch_attn.training.recipes.character_gpt import a_sentence

ROOT = Path(__file__).resolve().parents[2]


def options_of(tmp_path, name="runs/gpt-1"):
    return json.loads((tmp_path / name / "config.json").read_text())["options"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["tour", "--steps", "0"], "--steps"),
        (["tour", "--steps", "many"], "--steps"),
        (["tour", "--layers", "3"], "--layers"),
        (["train"], "gpt"),
        (["train", "gpt", "--steps", "5", "--minutes", "1"], "give one of them"),
        (["train", "gpt", "--minutes", "nan"], "finite"),
        (["train", "gpt", "--lr", "inf"], "finite"),
        (["train", "gpt", "--dropout", "nan"], "finite"),
        (["train", "gpt", "--dtype", "float16"], "float32"),
        (["train", "gpt", "--dropout", "1"], "--dropout"),
        (["train", "gpt", "--config", "nowhere.toml"], "nowhere.toml"),
        (["tour", "--resume", "yesterday"], "yesterday"),
        (["tour", "--resume"], "no run runs/tour-N here"),
        (["dance"], "dance"),
    ],
)
def test_wrong_usage(arguments, what, mta, tmp_path):
    code, out, err = mta(*arguments)
    assert code == 2 and what in out + err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--help"], ["tour", "-h"], ["train", "gpt", "--help"]])
def test_help(arguments, mta):
    code, out, err = mta(*arguments)
    assert (code, err) == (0, "") and "Usage:" in out
    assert max(map(len, out.splitlines())) <= 80


def test_version(mta):
    code, out, err = mta("--version")
    assert code == 0 and "0." in out


def test_a_toml_file_gives_defaults_and_the_command_line_wins(mta, tiny, tmp_path):
    (tmp_path / "my.toml").write_text('lr = 0.01\nsteps = 2\n"weight-decay" = 0.5\nclip = 0\n')
    code, out, err = mta(*tiny, "--config", "my.toml", "--lr", 0.02)
    assert (code, err) == (0, "")
    options = options_of(tmp_path)
    assert options["lr"] == 0.02 and options["steps"] == 2
    assert options["weight_decay"] == 0.5 and options["clip"] == 0


@pytest.mark.slow
def test_the_configuration_of_a_run_starts_another_like_it(mta, tiny, tmp_path):
    assert mta(*tiny, "--steps", 12, "--seed", 7)[0] == 0
    assert mta("train", "gpt", "--config", "runs/gpt-1/config.json")[0] == 0
    assert options_of(tmp_path) == options_of(tmp_path, "runs/gpt-2")
    first, second = ((tmp_path / f"runs/gpt-{n}/metrics.jsonl").read_bytes() for n in (1, 2))
    assert first == second


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.toml", "speed = 3", "unknown options: speed"),
        ("a.toml", "lr = ", "is not valid TOML"),
        ("a.json", "[1]", "must contain a JSON object"),
        ("a.json", '{"layers": "three"}', "the value of layers is invalid"),
        ("a.json", '{"layers": 0}', "--layers"),
        ("a.json", '{"resume": "latest"}', "unknown options: resume"),
    ],
)
def test_wrong_configuration_files(name, content, what, mta, tiny, tmp_path):
    (tmp_path / name).write_text(content)
    arguments = ["train", "gpt", "--config", name]
    code, out, err = mta(*arguments)
    assert code == 2 and what in err
    assert not (tmp_path / "runs").exists()


def test_minutes_become_steps(mta, tiny, tmp_path):
    code, out, err = mta(*tiny, "--minutes", 0.005)
    assert (code, err) == (0, "")
    assert 1 <= options_of(tmp_path)["steps"] < 10_000


def test_a_clock_that_stands_still(mta, tiny, monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 5.0)
    code, out, err = mta(*tiny, "--steps", 4)
    assert (code, err) == (0, "")
    code, out, err = mta(*tiny, "--minutes", 1)
    assert code == 1 and "the clock did not advance" in err


def test_control_characters_of_the_text_do_not_reach_the_terminal(mta, tiny, text):
    text.write_text("a\x1b[2Jb \x07 \x9b " * 300)
    code, out, err = mta(*tiny, "--steps", 4)
    assert (code, err) == (0, "")
    assert not set(out) & {"\x1b", "\x07", "\x9b"} and "\ufffd" in out


@pytest.mark.slow
def test_without_docstrings(tmp_path):
    """`python -OO` removes docstrings."""
    program = "import sys; from minitorch_attn.cli import main; sys.exit(main(sys.argv[1:]))"
    for arguments in (["train", "gpt", "--help"], ["tour", "--help"], ["lesson", "--help"]):
        run = subprocess.run(
            [sys.executable, "-OO", "-c", program, *arguments], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert run.returncode == 0 and "Traceback" not in run.stderr, run.stderr


def test_heads_that_do_not_divide_the_width(mta, tiny):
    code, out, err = mta(*tiny, "--dim", 9)
    assert code == 1 and "multiple of num_heads" in err


def test_a_device_that_is_not_there(mta, tmp_path):
    code, out, err = mta("tour", "--device", "abacus")
    assert code == 1 and "abacus" in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_float64_and_the_strict_device(mta, tiny, tmp_path):
    code, out, err = mta(*tiny, "--steps", 3, "--dtype", "float64", "--device", "strict")
    assert (code, err) == (0, "") and "float64 on strict" in out


@pytest.mark.slow
def test_the_overview_shows_runs_and_the_next_command(mta, tiny, tmp_path):
    code, out, err = mta()
    assert (code, err) == (0, "") and "next: python -m minitorch_attn tour" in out
    assert mta(*tiny, "--steps", 2)[0] == 0
    code, out, err = mta()
    assert "runs/gpt-1" in out and "2 of 2 steps" in out and "done" in out
    config = json.loads((tmp_path / "runs/gpt-1/config.json").read_text())
    config["options"]["steps"] = 9
    (tmp_path / "runs/gpt-1/config.json").write_text(json.dumps(config))
    (tmp_path / "runs/broken").mkdir()
    (tmp_path / "runs/broken/config.json").write_text("{")
    code, out, err = mta()
    assert code == 0 and "unreadable" in out
    assert "next: python -m minitorch_attn train gpt --out runs/gpt-1 --resume" in out


def test_sentences_and_tables():
    text = "x. The cat sat\non the mat. It ran. A very long sentence of many words follows here. y"
    assert a_sentence(text, 40) == "The cat sat on the mat."
    assert a_sentence("no sentence here", 6) == "no sen"
    assert table([("1", "a"), ("10", "bb")]) == "   1  a\n  10  bb"
