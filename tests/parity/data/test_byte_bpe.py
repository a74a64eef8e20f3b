"""ByteBPE against the `tokenizers` library and transformers' GPT-2, on any Unicode text."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_attn.data import default_text
from minitorch_attn.data.tokenizers import ByteBPE
from minitorch_attn.data.tokenizers.byte_alphabet import to_printable
from minitorch_attn.data.tokenizers.pretokens import pretokens

tokenizers = pytest.importorskip("tokenizers")
SPECIALS = ["<|endoftext|>", "<|endoftext|><|endoftext|>", "<|x|>"]
# Much of it is never seen in training; the rest makes merges of several scripts and of whitespace.
SAMPLE = default_text()[:60_000] + 40 * (
    " naïve café 日本語の文章です。 Привет, мир! नमस्ते दुनिया 123 ٣٤٥ ½²³ 😀😀👩\u200d👩\u200d👧"
    " e\u0301e\u0301 \t\t\n\n\r\n\u00a0\u00a0\u3000 \u200b\u200d \x00\x01\x1c don't I'll we've"
    " DON'T 'S \u2028\u2029\x85 ##--==!!??"
)
ODD = st.sampled_from(
    [*" \n\t\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u202f\u3000\u180e\u200b\ufeff\u0301\u0903"]
    + [*"a1'sStTdDmMlLvVrReE.!¼Ⅷ५一あק\U0001f600\U0001f1e9\u0378\u088f\U00011de0\U0010ffff\x00\x7f"]
    + [" the", "'ll", "'re", "  ", "日本", "é", *SPECIALS, "<|endoftext|"]
)
TEXT = st.lists(st.text(max_size=10) | st.lists(ODD, max_size=10).map("".join)).map("".join)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bpe")
    (folder / "text.txt").write_bytes(SAMPLE.encode())
    ByteBPE.train(folder / "text.txt", 1500, SPECIALS).save(folder)
    return folder


@pytest.fixture(scope="module")
def ours(folder):
    return ByteBPE.from_files(folder / "vocab.json", folder / "merges.txt", SPECIALS)


@pytest.fixture(scope="module")
def theirs(folder):
    vocab, merges = tokenizers.models.BPE.read_file(
        str(folder / "vocab.json"), str(folder / "merges.txt")
    )
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def check(ours, theirs, text):
    ids = ours.encode(text)
    assert ids == theirs.encode(text).ids
    assert list(ours.encode_iterable(text)) == ids
    assert theirs.decode(ids, skip_special_tokens=False) == text == ours.decode(ids)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(text=TEXT)
def test_ids_of_any_text(ours, theirs, text):
    check(ours, theirs, text)


def test_ids_of_long_texts(ours, theirs):
    check(ours, theirs, default_text())
    check(ours, theirs, SAMPLE)
    check(ours, theirs, "a" * 3000 + "é" * 3001 + " " * 3002)


@pytest.mark.slow
def test_every_character_between_others(ours, theirs):
    """All of Unicode next to a letter, a digit and a space; the empty planes in samples."""
    planes = [*range(0xD800), *range(0xE000, 0x40000), *range(0x40000, 0x110000, 97)]
    points = list(map(chr, planes))
    splitter = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
        ),
        "isolated",
    )
    for start in range(0, len(points), 4096):
        text = "".join(f"a{c}1 {c}." for c in points[start : start + 4096])
        pieces = [piece for piece, _ in splitter.pre_tokenize_str(text)]
        assert pretokens(text) == pieces
    text = "".join(f"a{c}1 {c}." for c in points[::97])
    assert ours.encode(text) == theirs.encode(text).ids


@settings(max_examples=500, deadline=None)
@given(ids=st.lists(st.integers(0, 1499)))
def test_text_of_any_ids(ours, theirs, ids):
    """Also where they cut characters in two."""
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
    assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(ids)


@settings(max_examples=20, deadline=None)
@given(text=st.lists(TEXT, min_size=1, max_size=3).map("".join), data=st.data())
def test_merges_in_any_order(text, data):
    """A merges file need not come from training: tokens may be built in several ways."""
    letters = sorted(set(text.encode()))[:4]
    if not letters:
        return
    tokens = [bytes([value]) for value in range(256)]
    merges = []
    pool = [bytes([letter]) for letter in letters]
    for _ in range(data.draw(st.integers(1, 12))):
        pair = data.draw(st.tuples(st.sampled_from(pool), st.sampled_from(pool)))
        if pair not in merges:
            merges.append(pair)
            if pair[0] + pair[1] not in pool:
                pool.append(pair[0] + pair[1])
                tokens.append(pair[0] + pair[1])
    data.draw(st.randoms()).shuffle(merges)
    ours = ByteBPE(dict(enumerate(tokens)), merges)
    theirs = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            {to_printable(token): number for number, token in enumerate(tokens)},
            [(to_printable(a), to_printable(b)) for a, b in merges],
        )
    )
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    word = bytes(letters * 3).decode("latin-1") if max(letters) < 128 else text
    for part in (text, word):
        assert ours.encode(part) == theirs.encode(part).ids


def test_transformers_reads_a_saved_folder(folder, ours):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.GPT2Tokenizer.from_pretrained(folder)
    for text in (SAMPLE, "a<|endoftext|><|endoftext|> b<|x|> <|endoftext|>c", " I'll  see\n"):
        ids = theirs(text)["input_ids"]
        assert ours.encode(text) == ids
        assert theirs.decode(ids) == ours.decode(ids)
    assert theirs.get_vocab() == json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
