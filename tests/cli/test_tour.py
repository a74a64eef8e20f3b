"""`mta tour`: what a user sees."""

import json
import re

import pytest

import minitorch_attn as mt


@pytest.mark.slow
def test_the_tour(start, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # others wait for busy cores
    process = start("tour", "--steps", 12, cwd=tmp_path)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    folder = tmp_path / "runs" / "tour-1"
    names = {p.name for p in folder.iterdir() if p.name != ".lock"}
    assert names == {
        "attention.png", "checkpoints", "config.json", "gradcheck.txt", "loss.png",
        "metrics.jsonl", "result.json", "sample.txt",
    }  # fmt: skip
    for picture in ("attention.png", "loss.png"):
        assert (folder / picture).stat().st_size > 10_000
    config = json.loads((folder / "config.json").read_text())
    for name in ("uniform", "unigram", "bigram"):
        assert out.count(f"{config['baselines'][name]:.3f}  {name}") == 2
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert f"{metrics[-1]['validation_loss']:.3f}  this model" in out
    assert "all 68 inputs and parameters of the 4 blocks agree" in out and "WRONG" not in out
    assert (folder / "gradcheck.txt").read_text().count("attention.q_proj.weight") == 4
    sample = (folder / "sample.txt").read_text()
    assert sample.startswith("The ")
    assert "\x1b" not in out and "\r" not in out
    other_lines = set(out.splitlines()) - {"  " + line for line in sample.splitlines()}
    assert [line for line in other_lines if len(line) > 80] == []
    for name in names - {"checkpoints"}:
        assert re.search(rf"^  {re.escape(name)}  ", out, re.M), name
    assert "What to do next" in out and "train gpt --text FILE" in out
    state = mt.load(folder / "checkpoints" / "step-00000012.safetensors")
    assert state["vocabulary"] == config["vocabulary"] and state["config"] == config


@pytest.mark.slow
def test_runs_are_numbered_and_never_overwritten(mta, tiny, tmp_path):
    for number in (1, 2):
        assert mta(*tiny, "--steps", 2, "--seed", number)[0] == 0
        config = json.loads((tmp_path / "runs" / f"gpt-{number}" / "config.json").read_text())
        assert config["options"]["seed"] == number
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    code, out, err = mta(*tiny, "--steps", 2, "--out", "runs/gpt-1")
    assert code == 1 and "runs/gpt-1 is not empty" in err and "--resume" in err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    code, out, err = mta(*tiny, "--steps", 2, "--out", "mine")
    assert code == 1 and "mine is not empty" in err and "thesis.txt" in err
    assert [p for p in before if not p[0].exists() or p[0].stat().st_mtime_ns != p[1]] in (
        [],
        [p for p in before if p[0] == tmp_path],
    )


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run(mta, tiny, tmp_path):
    for name in ("a", "b"):
        assert mta(*tiny, "--steps", 12, "--out", name, "--seed", 4)[0] == 0
    assert mta(*tiny, "--steps", 12, "--out", "c", "--seed", 5)[0] == 0
    a, b, c = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in "abc")
    assert a == b != c
    assert len({(tmp_path / name / "sample.txt").read_text() for name in "ab"}) == 1


def test_it_learns_more_than_counting_can(mta, tiny, tmp_path):
    """On a text whose words follow a fixed pattern."""
    code, out, err = mta(*tiny, "--steps", 300, "--dim", 16, "--dropout", 0, "--lr", 0.01)
    config = json.loads((tmp_path / "runs" / "gpt-1" / "config.json").read_text())
    lines = (tmp_path / "runs" / "gpt-1" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["validation_loss"] < 0.8 * config["baselines"]["bigram"]


def test_a_wrong_backward_shows_and_fails(mta, tiny, monkeypatch):
    """Layer norm whose weight gets twice its gradient."""
    from minitorch_attn.ops.layer_norm import LayerNorm

    real = LayerNorm.backward

    def wrong(ctx, grad):
        grad_x, grad_weight, *rest = real(ctx, grad)
        return grad_x, grad_weight * 2, *rest

    monkeypatch.setattr(LayerNorm, "backward", staticmethod(wrong))
    code, out, err = mta(*tiny, "--steps", 2)
    assert code == 1 and out.count("WRONG") >= 2
