"""`mta train RECIPE`: the list, the help, runs and resuming, for all recipes except `gpt`."""

import json
import re

import pytest

from minitorch_attn.training.recipes import RECIPES, load_recipe

PARTS = ("threads", "processes")
SMALL = "--layers 1 --heads 2 --dim 8 --batch 4 --warmup 2 --eval-every 4".split()


def test_the_list_has_two_lines_for_each(mta):
    code, out, err = mta("train", "--list")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == list(RECIPES)
    for name, line, below in zip(RECIPES, lines[::2], lines[1::2], strict=True):
        recipe = load_recipe(name)
        assert line.endswith(recipe.summary) and below.strip() == str(recipe.target)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", RECIPES)
def test_help_names_every_option(name, mta):
    code, out, err = mta("train", name, "--help")
    assert (code, err) == (0, "") and out.startswith("Usage:")
    for option in load_recipe(name).OPTIONS:
        assert f"--{option.name.replace('_', '-')} " in out
    for option in ("--minutes", "--out", "--config", "--resume"):
        assert option in out
    assert "Parameters" not in out and max(map(len, out.splitlines())) <= 80


def test_a_recipe_that_does_not_exist(mta):
    code, out, err = mta("train", "poetry")
    assert code == 2 and "poetry" in err


@pytest.mark.slow
def test_threads_and_processes_train_to_the_same_bytes(mta, tmp_path):
    arguments = ["train", "dates", *SMALL, "--held-out", 40, "--steps", 8, "--dropout", 0.2]
    for parts in PARTS:
        assert mta(*arguments, f"--{parts}", 2, "--out", parts)[0] == 0
    for name in ("metrics.jsonl", "result.json"):
        found, expected = ((tmp_path / parts / name).read_bytes() for parts in PARTS)
        assert found == expected


@pytest.mark.slow
def test_a_run_of_dates(mta, tmp_path):
    arguments = ["train", "dates", *SMALL, "--held-out", 40]
    assert mta(*arguments, "--steps", 8, "--out", "whole")[0] == 0
    code, out, err = mta(*arguments, "--steps", 4, "--out", "a")
    assert (code, err) == (0, "")
    assert (
        "3 July 1987, a Friday" in out and "exact answers to held-out dates: at least 99.0 %" in out
    )
    assert "dates/s" in out and "What to do next" in out
    result = json.loads((tmp_path / "a/result.json").read_text())
    assert result["recipe"] == "dates" and result["reached"] is False
    assert "Target missed after 4 steps: exact answers to held-out dates 0.0 %" in out
    line = next(line for line in out.splitlines() if line.startswith("  python"))
    assert re.fullmatch(r".* train dates --steps \d+ --out a --resume", line)
    assert (tmp_path / "a/cross_attention.png").stat().st_size > 10_000
    code, out, err = mta("train", "dates", "--out", "a", "--resume", "--steps", 8)
    assert (code, err) == (0, "") and "resuming from step 4 of 8" in out


@pytest.mark.slow
def test_a_run_goes_on_with_the_command_that_began_it(mta, tiny):
    assert mta(*tiny, "--steps", 2, "--out", "a")[0] == 0
    code, out, err = mta("train", "dates", "--out", "a", "--resume")
    assert code == 2 and "was started with `python -m minitorch_attn train gpt`" in err
    assert mta("tour", "--out", "a", "--resume")[0] == 0


def test_what_a_run_of_bert_cannot_change(mta):
    pytest.importorskip("pydoc_data.topics")
    arguments = ["train", "bert", *SMALL, "--finetune", 2, "--labels", 2, "--steps", 4]
    code, out, err = mta(*arguments, "--out", "a")
    assert (code, err) == (0, "") and "from scratch, on the same labels" in out
    assert ("Train for longer with" in out) == ("Target missed" in out)
    for change in (["--steps", 9], ["--minutes", 1]):
        code, out, err = mta("train", "bert", "--out", "a", "--resume", *change)
        assert code == 2 and "can only change --device" in err
    assert mta("train", "bert", "--out", "a", "--resume")[0] == 0


def test_digits_without_scikit_learn(mta, monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    code, out, err = mta("train", "vit", *SMALL, "--steps", 2)
    assert code == 1 and "scikit-learn, which includes the digits, is not installed" in err
    assert "pip install" in err and not (tmp_path / "runs").exists()
