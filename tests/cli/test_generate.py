"""`mta generate`: text from folders and from runs, and errors for invalid ones."""

import json

import pytest

import minitorch_attn as mt
from minitorch_attn.data.tokenizers import ByteBPE, from_pretrained
from minitorch_attn.models import pretrained

SIZES = {
    "GPT2LMHeadModel": {"n_embd": 6, "n_layer": 1, "n_head": 2, "n_positions": 24},
    "BartForConditionalGeneration": {
        "d_model": 6, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8,
        "max_position_embeddings": 24, "pad_token_id": 1, "forced_eos_token_id": None,
    },
    "BertForMaskedLM": {
        "hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """folder(class name) -> a folder with that model and a tokenizer of bytes."""

    def make(name, tokenizer=True):
        mt.manual_seed(0)
        path = tmp_path / name
        size = {"vocab_size": 257, "bos_token_id": 256, "eos_token_id": 256, **SIZES[name]}
        getattr(pretrained, name)(size).save_pretrained(path)
        if tokenizer:
            vocab = {number: bytes([number]) for number in range(256)}
            ByteBPE(vocab, [], {"<|endoftext|>": 256}).save(path)
        return path

    return make


def test_a_decoder_goes_on_from_the_prompt(mta, folder):
    path = folder("GPT2LMHeadModel")
    code, out, err = mta("generate", path, "--prompt", "né ", "--max-new-tokens", 5, "--greedy")
    assert (code, err) == (0, "") and out.startswith("né ") and out.endswith("\n")
    model, tokenizer = mt.models.from_pretrained(path), from_pretrained(path)
    ids = mt.tensor([tokenizer.encode("né ")])
    expected = model.generate(ids, max_new_tokens=5, do_sample=False)[0]
    assert out.removesuffix("\n") == tokenizer.decode(
        expected.numpy().tolist(), skip_special_tokens=True
    ).removesuffix("\n")


def test_drawn_texts_follow_the_seed_and_stay_within_the_positions(mta, folder):
    path = folder("GPT2LMHeadModel")
    first, again, other = (
        mta("generate", path, "--prompt", "ab", "--seed", seed)[1] for seed in (0, 0, 1)
    )
    assert first == again != other
    assert all(len(text) <= 24 + 1 for text in (first, other))  # a byte makes a character at most


def test_an_encoder_decoder_writes_its_answer_alone(mta, folder):
    path = folder("BartForConditionalGeneration")
    arguments = ("generate", path, "--prompt", "ab", "--max-new-tokens", 7)
    assert mta(*arguments)[:1] == (0,)
    assert mta(*arguments)[1] == mta(*arguments, "--greedy")[1]
    drawn = mta(*arguments, "--seed", 1, "--temperature", 3)[1]
    assert drawn != mta(*arguments, "--seed", 2, "--temperature", 3)[1]


def test_beams_are_shown_at_the_end(mta, folder):
    path = folder("GPT2LMHeadModel")
    code, out, err = mta("generate", path, "--prompt", "ab", "--num-beams", 3)
    assert (code, err) == (0, "") and out.startswith("ab") and len(out) > 3
    # A file may ask for beams, too.
    fields = {"num_beams": 2, "eos_token_id": 256, "decoder_start_token_id": 2}
    path = folder("BartForConditionalGeneration")
    (path / "generation_config.json").write_text(json.dumps(fields))
    code, out, err = mta("generate", path, "--prompt", "ab", "--max-new-tokens", 4)
    assert (code, err) == (0, "")
    assert mta("generate", path, "--prompt", "ab", "--max-new-tokens", 4, "--seed", 1)[0] == 0


def test_a_run_goes_on(mta, tiny, text, tmp_path):
    assert mta(*tiny, "--steps", 10)[0] == 0
    text.unlink()  # the run is enough by itself
    arguments = ("generate", "runs/gpt-1", "--prompt", "the ", "--max-new-tokens", 30)
    code, out, err = mta(*arguments, "--greedy")
    assert (code, err) == (0, "") and out.startswith("the ")
    assert len(out) == 35 and mta(*arguments, "--top-k", 1)[1] == out
    assert mta(*arguments, "--top-p", 1e-6)[1] == out
    drawn = [mta(*arguments, "--seed", seed)[1] for seed in (1, 2)]
    assert drawn[0] != drawn[1]
    code, out, err = mta("generate", "runs/gpt-1", "--prompt", "Ω", "--seed", 1)
    assert code == 1 and "'Ω'" in err and "vocabulary" in err
    assert mta(*arguments, "--num-beams", 2)[0] == 2
    config = tmp_path / "runs/gpt-1/config.json"
    config.write_text(config.read_text().replace('"train gpt"', '"train dates"'))
    code, out, err = mta(*arguments)
    assert code == 1 and "train dates" in err


def test_the_prompt_may_come_through_a_pipe(mta, folder, monkeypatch):
    import io
    import sys

    path = folder("GPT2LMHeadModel")
    given = mta("generate", path, "--prompt", "abc", "--greedy")[1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"abc"), encoding="utf-8"))
    assert mta("generate", path, "--prompt", "-", "--greedy")[1] == given


def test_a_terminal_gets_no_control_characters(mta, folder, monkeypatch):
    path = folder("GPT2LMHeadModel")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("minitorch_attn.cli.generate.console", _terminal)
    code, out, err = mta("generate", path, "--prompt", "a\x1b[31mb", "--greedy")
    assert code == 0 and "\x1b[31m" not in out and "\ufffd[31m" in out
    assert "tokens in" in err


def _terminal():
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=True, force_terminal=True)


@pytest.mark.parametrize(
    ("name", "tokenizer", "words"),
    [
        ("GPT2LMHeadModel", False, ["does not contain a supported tokenizer", "tokenizer.json"]),
        ("BertForMaskedLM", True, ["does not generate text", "BertForMaskedLM"]),
    ],
)
def test_folders_that_cannot_write(name, tokenizer, words, mta, folder):
    code, out, err = mta("generate", folder(name, tokenizer), "--prompt", "a")
    assert code == 1 and out == "" and all(word in err for word in words)


def test_wrong_folders(mta, folder, tmp_path):
    code, out, err = mta("generate", "gpt2", "--prompt", "a")
    assert code == 1 and "gpt2 is not a folder" in err and "download" in err
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("x")
    code, out, err = mta("generate", "empty", "--prompt", "a")
    assert code == 1 and "config.json is missing" in err and "notes.txt" in err
    code, out, err = mta("generate", folder("GPT2LMHeadModel"), "--prompt", "a" * 24)
    assert code == 1 and "too long" in err and "at most 23" in err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "--prompt"),
        (["--prompt", "a", "--greedy", "--seed", "0"], "--seed"),
        (["--prompt", "a", "--num-beams", "2", "--top-k", "3"], "--top-k"),
        (["--prompt", "a", "--temperature", "0"], "--temperature"),
        (["--prompt", "a", "--top-p", "1.5"], "--top-p"),
        (["--prompt", "a", "--max-new-tokens", "0"], "--max-new-tokens"),
    ],
)
def test_wrong_usage(arguments, what, mta, tmp_path):
    code, out, err = mta("generate", tmp_path, *arguments)
    assert code == 2 and what in err


def test_without_a_terminal_and_without_colours(start, folder, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    path = folder("GPT2LMHeadModel")
    process = start("generate", path, "--prompt", "ab", "--seed", 4)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "") and out.startswith("ab") and "\x1b[" not in out
