"""Which tokenizer is loaded from a folder, without the `tokenizers` library."""

import json
import sys

import pytest

from minitorch_attn.data.tokenizers import ByteBPE, from_pretrained
from minitorch_attn.errors import DataError

TEXT = "The lowest of the low: they'll never. naïve 日本 " * 5


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return ByteBPE.train(path, 280, ["<|endoftext|>", "<pad 1>"])


def same(a, b):
    return (a.vocab, a.merges, a.special_tokens) == (b.vocab, b.merges, b.special_tokens)


def test_a_saved_folder_comes_back(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "folder")
    assert same(from_pretrained(tmp_path / "folder"), tokenizer)


def test_special_tokens_of_older_folders(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    found = from_pretrained(tmp_path)
    assert found.special_tokens == {"<|endoftext|>": 278}
    names = {"pad_token": {"content": "<pad 1>"}, "eos_token": "<|endoftext|>"}
    names["additional_special_tokens"] = ["<new>"]
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(names))
    found = from_pretrained(tmp_path)
    assert found.special_tokens == {"<|endoftext|>": 278, "<pad 1>": 279, "<new>": 280}
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<new>": 300}))
    assert from_pretrained(tmp_path).special_tokens["<new>"] == 300


def description(tokenizer, folder):
    """The tokenizer.json of a ByteBPE."""
    tokenizer.save(folder)
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    return {
        "added_tokens": [
            {"id": number, "content": token, "special": True}
            for token, number in tokenizer.special_tokens.items()
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "post_processor": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocab, "merges": [line.split(" ") for line in lines]},
    }


def test_tokenizer_json_of_gpt2_needs_no_library(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    found = description(tokenizer, tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps(found))
    assert same(from_pretrained(tmp_path), tokenizer)
    found["model"]["merges"] = [" ".join(pair) for pair in found["model"]["merges"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(found))
    assert same(from_pretrained(tmp_path), tokenizer)
    del found["model"]["vocab"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(found))
    with pytest.raises(DataError, match="model.vocab is missing"):
        from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}},
        {"pre_tokenizer": {"type": "Metaspace"}},
        {"post_processor": {"type": "TemplateProcessing", "single": ["and a mark"]}},
        {"model": {"type": "Unigram"}},
    ],
)
def test_any_other_kind_goes_to_the_library(change, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "tokenizer.json").write_text(json.dumps(description(tokenizer, tmp_path) | change))
    with pytest.raises(DataError, match=r"minitorch-attn\[tokenizers\]"):
        from_pretrained(tmp_path)


def test_folders_without_one(tmp_path, tokenizer, monkeypatch):
    with pytest.raises(DataError, match="does not contain a supported tokenizer"):
        from_pretrained(tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"")
    with pytest.raises(DataError, match="save_pretrained"):
        from_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    with pytest.raises(DataError, match="add_prefix_space"):
        from_pretrained(tmp_path)


def test_tokenizers_that_cut_text_otherwise(tmp_path, tokenizer):
    tokenizer.save(tmp_path)
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"tokenizer_class": "RobertaTokenizerFast"}')
    assert isinstance(from_pretrained(tmp_path), ByteBPE)
    config.write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
    with pytest.raises(DataError, match="Qwen2"):
        from_pretrained(tmp_path)
    config.unlink()
    (tmp_path / "vocab.json").write_text('{"a": 0, "a</w>": 1}')
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(DataError, match="</w>"):
        from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer_config.json", {"tokenizer_class": 1.5}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": "a"}}}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"5": {"content": 5}}}),
        ("tokenizer_config.json", {"add_prefix_space": "no"}),
        ("special_tokens_map.json", {"eos_token": True}),
        ("special_tokens_map.json", {"eos_token": {"content": 5}}),
        ("special_tokens_map.json", {"additional_special_tokens": "ab"}),
        ("added_tokens.json", {"a": -1}), ("added_tokens.json", {"a": True}),
        ("vocab.json", {"a": True}), ("vocab.json", {"a": 1, "b": 1}),
        ("tokenizer.json", {"model": 5}), ("tokenizer.json", {"added_tokens": [5]}),
    ],
)  # fmt: skip
def test_fields_of_the_wrong_type(file, content, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.raises(DataError):
        from_pretrained(tmp_path)


@pytest.mark.parametrize("file", ["tokenizer.json", "vocab.json", "tokenizer_config.json"])
def test_deep_nesting(file, tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    (tmp_path / file).write_text("[" * 100_000)
    with pytest.raises(DataError, match="nested too deeply"):
        from_pretrained(tmp_path)
