"""Pre-tokenization: where text is split; a stream is split like the whole text."""

import io

import pytest
from data.tokenizers import bpe_oracle
from hypothesis import given
from hypothesis import strategies as st

from minitorch_attn.data.tokenizers.pretokens import Segmenter, pretokens
from minitorch_attn.errors import ArgumentError, DTypeError

SPECIALS = ["<|a|>", "<|a|><|b|>", "<", "'l", " x", "<|a|>!"]
# Short strings of what cuts depend on, so that every pair of neighbours turns up.
TRICKY = st.text(
    st.sampled_from(list("ab lvesrtd''  \n\t\u00a0\u3000é1²५!|<>\u0301\u200b") + ["\U0001f600"]),
    max_size=30,
)
TEXT = st.lists(TRICKY | st.text(max_size=8) | st.sampled_from(SPECIALS)).map("".join)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("I'll they've DON'T", ["I", "'ll", " they", "'ve", " DON", "'", "T"]),
        ("'lll'd", ["'ll", "l", "'d"]),
        ("a1b22 333", ["a", "1", "b", "22", " 333"]),
        ("x   y", ["x", "  ", " y"]),
        ("x \n y  ", ["x", " \n", " y", "  "]),
        ("\n\nx", ["\n", "\n", "x"]),
        ("a\tb", ["a", "\t", "b"]),
        ("cafe\u0301 naïve", ["cafe", "\u0301", " naïve"]),  # a combining mark is no letter
        ("½ ²Ⅷ ५", ["½", " ²Ⅷ", " ५"]),  # numbers of all kinds
        ("a\u00a0b\u200bc", ["a", "\u00a0", "b", "\u200b", "c"]),
        ("日本 語。", ["日本", " 語", "。"]),
        ("\x00\x1c\x85", ["\x00\x1c", "\x85"]),
        ("hi😀 😀!?", ["hi", "😀", " 😀!?"]),
    ],
)
def test_pieces(text, pieces):
    assert pretokens(text) == pieces


def test_later_letters_are_other_characters_in_every_release_of_regex():
    assert pretokens("a\u088fb") == ["a", "\u088f", "b"]  # a letter since Unicode 17
    assert pretokens("1\U00011de0") == ["1", "\U00011de0"]  # a digit since Unicode 17
    assert pretokens("a\u1c89b") == ["a\u1c89b"]  # a letter since Unicode 16


@given(TEXT)
def test_nothing_is_lost_and_special_tokens_win(text):
    found = list(Segmenter(SPECIALS).whole(text))
    parts = [piece for words, special in found for piece in ("".join(words), special)]
    assert parts == [*bpe_oracle.split_at(text, SPECIALS), None]
    for words, _ in found:
        assert words == pretokens("".join(words))


@given(TEXT, st.data())
def test_a_stream_is_cut_as_the_whole(text, data):
    """However the chunks fall and however little is read ahead."""
    segmenter = Segmenter(data.draw(st.sampled_from([SPECIALS, ["<|a|><|b|>"], []])))
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    chunks = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    assert flat(segmenter.stream(chunks)) == flat(segmenter.whole(text))
    held, streamed = "", []
    for chunk in chunks:  # as with nothing read ahead
        decided = Collected(segmenter._decided(held + chunk))
        streamed += decided
        held = decided.rest
    assert flat([*streamed, *segmenter.whole(held)]) == flat(segmenter.whole(text))


@pytest.mark.parametrize("specials", [SPECIALS, ["<|a|><|b|>", "<|a|>"], ["<|a|>"], []])
def test_every_cut_of_what_depends_on_the_next_characters(specials):
    """Contractions, runs of spaces and special tokens, cut in two anywhere."""
    segmenter = Segmenter(specials)
    for text in (
        "a'll b",
        "'ll",
        "'re'r",
        "x    y",
        "  <|a|> ",
        "<|a|><|b|>",
        "a <|a|><|b",
        "é ½ ",
    ):
        for place in range(len(text) + 1):
            decided = Collected(segmenter._decided(text[:place]))
            rest = segmenter.whole(decided.rest + text[place:])
            assert flat([*decided, *rest]) == flat(segmenter.whole(text)), (text, place)


class Collected(list):
    """What a generator yields, and what it returns."""

    def __init__(self, generator):
        def run():
            self.rest = yield from generator

        super().__init__()
        self.extend(run())


def flat(found):
    """Pieces in order, the special ones marked."""
    pieces = []
    for words, special in found:
        pieces += words
        if special is not None:
            pieces.append((special,))
    return pieces


def test_a_stream_gives_words_out_before_it_ends():
    seen = []

    def chunks():
        for number in range(100):
            seen.append(number)
            yield "some words " * 100

    first_words, _ = next(Segmenter(["<|end|>"]).stream(chunks()))
    assert first_words and len(seen) < 10


def test_a_file_of_one_long_line_is_read_in_pieces():
    class File(io.StringIO):
        sizes = []

        def read(self, size=-1):
            self.sizes.append(size)
            return super().read(size)

    file = File("word " * 50_000)
    assert len(flat(Segmenter().stream(file))) == 50_001  # and the last space
    assert len(file.sizes) > 3 and min(file.sizes) > 0


def test_what_is_not_text():
    with pytest.raises(DTypeError, match="bytes"):
        list(Segmenter().whole(b"abc"))
    with pytest.raises(DTypeError, match="int"):
        list(Segmenter().stream(["abc", 3]))
    with pytest.raises(ArgumentError, match="empty"):
        Segmenter(["a", ""])
