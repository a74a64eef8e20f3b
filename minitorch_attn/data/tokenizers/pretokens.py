"""Pre-tokens: split text at special tokens and into GPT-2's words before byte-pair encoding.

Merges never cross a split, so the tokens of a text depend on the splits and on the merges.
"""

import functools
import re

from ...errors import ArgumentError, DTypeError

__all__ = ["Segmenter", "pretokens"]

# Ranges of letters and numbers that Unicode added after version 16.0. The classes below exclude
# them, so the tokens are the same with every release of `regex` so far. The `tokenizers` library
# gives the same tokens from version 0.22 on, because it uses the tables of Unicode 16.0.
_LATER_LETTERS = (
    "558 58B-58C 88F C5C CDC 208F 209D-209F A7CE-A7CF A7D2 A7D4 A7DD A7E2 A7F1 AB6C-AB6D"
    " 107BB-107BF 10940-10959 10EC5-10EC7 10ED9-10EEE 11B0A 11DB0-11DDB 11DF1 16EA0-16EB8"
    " 16EBB-16ED3 16FF2-16FF3 187F8-187FF 18CD6-18CDA 18D09-18D20 18D80-18DF2 18E00-19191"
    " 191A0-191D2 1B123-1B128 1B168 1D6A6 1DF1F-1DF24 1DF2B-1DF81 1DF90-1DF96 1DFCD-1DFFF"
    " 1E6C0-1E6DE 1E6E0-1E6E2 1E6E4-1E6E5 1E6E7-1E6ED 1E6F0-1E6F4 1E6FE-1E6FF 2B73A-2B73F 2B81E"
    " 2CEA2-2CEAD 323B0-33479 3D000-3FC3F"
)
_LATER_NUMBERS = "11DE0-11DE9 1246F 12475-1247F 12550-12686 16FF4-16FF6"

_READ_AHEAD = 4096  # characters collected before a stream is split
_LARGEST_PIECE = 8192  # maximum number of characters processed at once


@functools.cache
def _pattern():
    """Return GPT-2's compiled pattern; see `pretokens`."""
    import regex

    letter = rf"[\p{{L}}--[{_ranges(_LATER_LETTERS)}]]"
    number = rf"[\p{{N}}--[{_ranges(_LATER_NUMBERS)}]]"
    return regex.compile(
        rf"(?V1)'(?:[sdmt]|ll|ve|re)| ?{letter}+| ?{number}+| ?[^\s{letter}{number}]+"
        r"|\s+(?!\S)|\s+"
    )


def _ranges(text):
    ends = ((part.split("-")[0], part.split("-")[-1]) for part in text.split())
    return "".join(rf"\U{int(a, 16):08X}-\U{int(b, 16):08X}" for a, b in ends)


def pretokens(text):
    """Split text into pieces as GPT-2 does, without loss. BPE merges never cross piece boundaries.

    The patterns are tried in this order: an English contraction ('s, 'd, 'm, 't, 'll, 've, 're), a
    run of letters, a run of numbers, a run of other visible characters, and a run of whitespace. A
    run of visible characters includes one space before it. The last character of whitespace before
    a visible character is split off. If it is a space, it joins the next piece. Otherwise, it is
    its own piece.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str
        Pieces. Their concatenation is the text.

    Notes
    -----
    The pattern is from Radford et al. 2019, "Language Models are Unsupervised Multitask
    Learners", sec. 2.2, as released with GPT-2's weights.

    Examples
    --------
    >>> pretokens("We'll see:  3 dots...")
    ['We', "'ll", ' see', ':', ' ', ' 3', ' dots', '...']
    """
    return _pattern().findall(text)


class Segmenter:
    """Split a text, or a stream of text, into pre-tokens and special tokens.

    If special tokens overlap, the token that starts first is chosen. If several start at the same
    position, the longest is chosen.

    Parameters
    ----------
    special_tokens : iterable of str

    Examples
    --------
    >>> segmenter = Segmenter(["<|end|>", "<|end|><|end|>"])
    >>> list(segmenter.whole("a b<|end|><|end|><|end|>"))
    [(['a', ' b'], '<|end|><|end|>'), ([], '<|end|>'), ([], None)]
    """

    def __init__(self, special_tokens=()):
        longest_first = sorted(special_tokens, key=len, reverse=True)
        if "" in longest_first:
            raise ArgumentError("special tokens must not be empty", got="''")
        self._specials = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._reach = len(longest_first[0]) - 1 if longest_first else 0

    def whole(self, text):
        """Split a text: yield (pre-tokens, next special token), and finally (pre-tokens, None)."""
        self._check(text)
        start = 0
        for match in self._specials.finditer(text):
            yield pretokens(text[start : match.start()]), match.group()
            start = match.end()
        yield pretokens(text[start:]), None

    def stream(self, chunks):
        """Split the concatenated chunks as the method `whole` does, with few chunks in memory.

        Further text can change only the pre-tokens that end within the last n + 1 characters, where
        n is the length of the longest special token (within the last two characters if there are no
        special tokens). These are kept until more text arrives. Earlier pre-tokens are yielded.

        Parameters
        ----------
        chunks : iterable of str, or text file

        Yields
        ------
        (pre-tokens, next special token or None)
            As from `whole`, except that the pre-tokens before a special token can be divided among
            several pairs. All of these except the last have None.
        """
        held, fresh, fresh_length = "", [], 0
        for chunk in self._pieces(chunks):
            fresh.append(chunk)
            fresh_length += len(chunk)
            # For linear total time, process a long word again only after the text has doubled.
            if fresh_length >= max(_READ_AHEAD, len(held)):
                held = yield from self._decided("".join([held, *fresh]))
                fresh, fresh_length = [], 0
        yield from self.whole("".join([held, *fresh]))

    def _decided(self, text):
        """Yield the pre-tokens that later text cannot change. Return the rest of `text`."""
        known = len(text) - self._reach  # special tokens that start before this are complete
        start = 0
        for match in self._specials.finditer(text):
            if match.start() >= known:
                break
            yield pretokens(text[start : match.start()]), match.group()
            start = match.end()
        words, end = pretokens(text[start:]), len(text)
        while words and end > known - 2:
            end -= len(words.pop())
        yield words, None
        return text[end:]

    def _pieces(self, chunks):
        """Split the chunks into short pieces."""
        if isinstance(chunks, str):
            chunks = [chunks]
        elif hasattr(chunks, "read"):
            chunks = iter(lambda file=chunks: file.read(_LARGEST_PIECE), "")
        for chunk in chunks:
            self._check(chunk)
            for start in range(0, len(chunk), _LARGEST_PIECE):
                yield chunk[start : start + _LARGEST_PIECE]

    @staticmethod
    def _check(text):
        if not isinstance(text, str):
            raise DTypeError(
                "encode: the text must be a str",
                got=type(text).__name__,
                hint="decode bytes first: text.decode()" if isinstance(text, bytes) else None,
            )
