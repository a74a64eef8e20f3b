"""Byte-level BPE: exact, reversible, never across special tokens, in constant memory."""

import io
import json
import random
import tracemalloc

import numpy as np
import pytest
from data.tokenizers import bpe_oracle
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_attn as mt
from minitorch_attn.data.tokenizers import ByteBPE
from minitorch_attn.data.tokenizers.pretokens import pretokens
from minitorch_attn.errors import ArgumentError, DataError, DTypeError, IndexRangeError

SAMPLE = (
    "The lowest of the low: 'they'll' they've 12 123 naïve naïveté 日本語 😀😀 é\u0301  \n\n"
) * 3
SPECIALS = ["<|end|>", "<|end|><|end|>", "[MASK]"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe") / "text.txt"
    path.write_text(SAMPLE + "<|end|>lower" * 50, encoding="utf-8")
    return ByteBPE.train(path, 300, SPECIALS)


def plain(text, tokenizer, special_tokens):
    """Ids by the plain definitions."""
    ids = {token: number for number, token in tokenizer.vocab.items()}
    found = []
    for i, part in enumerate(bpe_oracle.split_at(text, special_tokens)):
        if i % 2:
            found.append(tokenizer.special_tokens[part])
        else:
            for word in pretokens(part):
                found += [ids[t] for t in bpe_oracle.encode(word.encode(), tokenizer.merges)]
    return found


TEXT = st.lists(
    st.text(max_size=20) | st.sampled_from([*SPECIALS, "lower", " the", "  \n", "'ll", "é", "😀"])
).map("".join)


@given(text=TEXT)
def test_encode_is_the_definition_and_decode_undoes_it(tokenizer, text):
    ids = tokenizer.encode(text)
    assert ids == plain(text, tokenizer, SPECIALS)
    assert tokenizer.decode(ids) == text
    assert "".join(tokenizer.decode_iterable(iter(ids))) == text
    ids = tokenizer.encode(text, allowed_special=["[MASK]"])
    assert ids == plain(text, tokenizer, ["[MASK]"])
    assert tokenizer.decode(ids) == text


@given(text=TEXT, size=st.integers(1, 9))
def test_a_stream_gives_the_same_ids(tokenizer, text, size):
    chunks = (text[i : i + size] for i in range(0, len(text), size))
    assert list(tokenizer.encode_iterable(chunks)) == tokenizer.encode(text)


@settings(max_examples=300)
@given(ids=st.lists(st.integers(0, 299)))
def test_any_ids_decode(tokenizer, ids):
    text = tokenizer.decode(ids)
    assert text == b"".join(tokenizer.vocab[i] for i in ids).decode(errors="replace")
    pieces = list(tokenizer.decode_iterable(ids))
    assert "".join(pieces) == text and "" not in pieces


def test_training_does_not_learn_from_special_tokens(tokenizer):
    assert len(tokenizer) == 300
    assert [tokenizer.vocab[i] for i in range(256)] == [bytes([i]) for i in range(256)]
    assert tokenizer.special_tokens == {token: 297 + i for i, token in enumerate(SPECIALS)}
    learnt = [first + second for first, second in tokenizer.merges]
    assert b"lower" in learnt
    assert not any(b"|" in token or b"nd" in token for token in learnt)


def test_the_longest_special_token_wins(tokenizer):
    end, two, mask = tokenizer.special_tokens.values()
    assert tokenizer.encode("<|end|><|end|><|end|>[MASK]") == [two, end, mask]
    assert tokenizer.decode([two, end, 97, mask], skip_special_tokens=True) == "a"
    only = tokenizer.encode("<|end|><|end|>", allowed_special=["<|end|>"])
    assert only == [end, end]
    assert two not in tokenizer.encode("<|end|><|end|>", allowed_special=())
    with pytest.raises(ArgumentError, match=r"\[PAD\]"):
        tokenizer.encode("", allowed_special=["[PAD]"])


def test_memory_does_not_grow_with_the_text(tokenizer):
    """Text of ever new words is encoded within a megabyte or so."""
    random.seed(7)

    def chunks(count):
        for _ in range(count):
            yield "".join(random.choices("abcdefgh \n", k=2000))

    peaks = []
    for count in (10, 100):
        tracemalloc.start()
        total = sum(1 for _ in tokenizer.encode_iterable(chunks(count)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert total > 500 * count
    assert max(peaks) < 1.5e6


def test_a_file_can_be_encoded(tokenizer):
    assert list(tokenizer.encode_iterable(io.StringIO(SAMPLE))) == tokenizer.encode(SAMPLE)
    assert list(tokenizer.encode_iterable(SAMPLE)) == tokenizer.encode(SAMPLE)
    assert list(tokenizer.encode_iterable([])) == tokenizer.encode("") == []


def test_ids_may_be_arrays_or_tensors(tokenizer, device):
    ids = tokenizer.encode("lower")
    assert tokenizer.decode(np.array(ids)) == "lower"
    assert tokenizer.decode(mt.tensor(ids, device=device)) == "lower"
    assert tokenizer.decode(97) == "a"
    for wrong in (300, -1):
        with pytest.raises(IndexRangeError, match=str(wrong)):
            tokenizer.decode([97, wrong])


def test_a_saved_tokenizer_is_the_same(tokenizer, tmp_path):
    folder = tmp_path / "made" / "here"
    tokenizer.save(folder)
    again = ByteBPE.from_files(folder / "vocab.json", folder / "merges.txt", SPECIALS)
    assert again.vocab == tokenizer.vocab
    assert again.merges == tokenizer.merges
    assert again.special_tokens == tokenizer.special_tokens
    assert again.encode(SAMPLE + "[MASK]") == tokenizer.encode(SAMPLE + "[MASK]")
    without = ByteBPE.from_files(folder / "vocab.json", folder / "merges.txt")
    assert without.special_tokens == {} and without.decode(without.encode("[MASK]")) == "[MASK]"


def test_special_tokens_beyond_the_alphabet(tokenizer, tmp_path):
    """A space or another script in a special token stays as it is in vocab.json."""
    odd = ByteBPE(tokenizer.vocab, tokenizer.merges, ["<im start>", "中", "a"])
    assert odd.special_tokens == {"<im start>": 300, "中": 301, "a": 97}
    odd.save(tmp_path)
    names = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    assert names["<im start>"] == 300 and names["中"] == 301
    specials = list(odd.special_tokens)
    again = ByteBPE.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt", specials)
    assert again.special_tokens == odd.special_tokens and again.vocab == odd.vocab


def test_new_special_tokens_get_free_ids(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    more = ByteBPE.from_files(
        tmp_path / "vocab.json", tmp_path / "merges.txt", ["<x>", "[MASK]", "<y>", "<x>"]
    )
    assert more.special_tokens == {"<x>": 300, "[MASK]": 299, "<y>": 301}


def test_wrong_text_and_arguments(tokenizer, tmp_path):
    with pytest.raises(DataError, match="U\\+D800"):
        tokenizer.encode("a\ud800")
    with pytest.raises(DTypeError, match="bytes"):
        tokenizer.encode(b"a")
    path = tmp_path / "text.txt"
    path.write_text("abc")
    with pytest.raises(ArgumentError, match="at least 257"):
        ByteBPE.train(path, 256, ["<x>"])
    with pytest.raises(ArgumentError, match="must be a list of strings"):
        ByteBPE.train(path, 300, "<x>")
    short = ByteBPE.train(path, 300, ["<x>"])  # there is not more to learn
    assert len(short) == 256 + 2 + 1


def test_a_vocabulary_without_some_bytes():
    few = ByteBPE({0: b"a", 1: b"b", 2: b"ab"}, [(b"a", b"b")])
    assert few.encode("abba") == [2, 1, 0]
    with pytest.raises(DataError, match="0xa9, 0xc3"):
        few.encode("é")


@pytest.mark.parametrize(
    ("vocab", "merges", "message"),
    [
        ("{", "", "vocab.json is not valid JSON"),
        ("[]", "", "must contain a JSON object"),
        ("{}", "", "is not a vocabulary"),
        ('{"a": "0"}', "", "is not a vocabulary"),
        ('{"a": -1}', "", "is not a vocabulary"),
        ('{"a": 0, "b": 0}', "", "the same id"),
        ('{"a": 0, "b": 1}', "#version: 0.2\na b\n", "unknown tokens: a b"),
        ('{"a": 0, "ab": 1}', "a b", "unknown tokens: a b"),
        ('{"a": 0, "aa": 1}', "#version\na a\na a a", "merges.txt, line 3"),
        ('{"a": 0, "aa": 1}', "aa", "merges.txt, line 1"),
        ('{"a": 0, "aa": 1}', "a  a", "merges.txt, line 1"),
        ('{"a": 0, "a中": 1}', "a 中", "merges.txt, line 1"),
    ],
)
def test_files_that_do_not_fit(vocab, merges, message, tmp_path):
    (tmp_path / "vocab.json").write_text(vocab, encoding="utf-8")
    (tmp_path / "merges.txt").write_text(merges, encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        ByteBPE.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert str(tmp_path) in str(caught.value)


def test_missing_files(tmp_path):
    with pytest.raises(DataError, match="vocab.json could not be read"):
        ByteBPE.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt")
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    with pytest.raises(DataError, match="merges.txt could not be read"):
        ByteBPE.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt")
