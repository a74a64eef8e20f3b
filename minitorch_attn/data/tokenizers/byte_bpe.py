"""Byte-level byte-pair encoding, as GPT-2 has it."""

import codecs
import os
from collections.abc import Mapping
from itertools import chain

from ...errors import ArgumentError, DataError, IndexRangeError
from .bpe_training import count_words, learn_merges
from .byte_alphabet import to_printable
from .gpt2_files import read_merges, read_vocab, token_bytes, write_files
from .merging import KeptWords, merge_tokens
from .pretokens import Segmenter

__all__ = ["ByteBPE", "as_list"]


class ByteBPE:
    """Byte-level byte-pair encoding: any text becomes ids, and comes back exactly.

    A text is cut at its special tokens, then into words (`pretokens`). The bytes of each word are
    its first tokens; of all neighbours that the merges know, those of the earliest merge are
    joined, the leftmost first, until no merge applies.

    Parameters
    ----------
    vocab : mapping of int to bytes
        The token of each id.
    merges : sequence of (bytes, bytes)
        In order of precedence.
    special_tokens : sequence of str, or mapping of str to int, optional
        Tokens that are never cut and never merged with what is around them. Without ids, one that
        the vocabulary lacks gets the next free id.

    Attributes
    ----------
    vocab : dict of int to bytes
        With the special tokens.
    merges : list of (bytes, bytes)
    special_tokens : dict of str to int

    Notes
    -----
    Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", sec. 2.2, after
    Sennrich et al. 2016, arXiv:1508.07909v5. The ids are those of GPT-2's published tokenizer when
    its two files are given.

    Examples
    --------
    >>> vocab = {value: bytes([value]) for value in range(256)}
    >>> vocab |= {256: b"th", 257: b"the", 258: b" c"}
    >>> merges = [(b"t", b"h"), (b"th", b"e"), (b" ", b"c")]
    >>> tokenizer = ByteBPE(vocab, merges, special_tokens=["<|end|>"])
    >>> tokenizer.encode("the cat<|end|>")
    [257, 258, 97, 116, 259]
    >>> tokenizer.decode([257, 258, 97, 116, 259])
    'the cat<|end|>'
    """

    def __init__(self, vocab, merges, special_tokens=()):
        self.vocab = dict(vocab)
        self.merges = [tuple(pair) for pair in merges]
        self._ids = {token: number for number, token in reversed(self.vocab.items())}
        self._byte_ids = [self._ids.get(bytes([value]), -1) for value in range(256)]
        self._ranks = self._ranked_merges()
        if not isinstance(special_tokens, Mapping):
            known = {token.decode(errors="replace"): number for token, number in self._ids.items()}
            special_tokens = _numbered(special_tokens, known, max(self.vocab, default=-1) + 1)
        self.special_tokens = dict(special_tokens)
        self.vocab |= {number: token.encode() for token, number in special_tokens.items()}
        self._segmenters = {}
        self._kept = KeptWords(self._merge_word, limit=65536)

    def __len__(self):
        return len(self.vocab)

    @classmethod
    def train(cls, path, vocab_size, special_tokens=()):
        """Learn the merges from a text file.

        Parameters
        ----------
        path : str or path
            Text in UTF-8. It is read in pieces: memory holds its different words only.
        vocab_size : int
            The 256 bytes, the merged tokens and the special tokens together. A short text may give
            fewer.
        special_tokens : sequence of str, optional
            Where they stand in the text, it is cut, and they are not learnt from.

        Returns
        -------
        ByteBPE
            Ids 0 to 255 are the bytes, then come the merged tokens in order of merging, then the
            special tokens.

        Notes
        -----
        Of equally frequent pairs, the greatest pair of byte strings is merged first.

        Examples
        --------
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "text.txt")
        ...     with open(path, "w") as file:
        ...         _ = file.write("low lower lowest<|end|>low")
        ...     tokenizer = ByteBPE.train(path, 260, special_tokens=["<|end|>"])
        >>> tokenizer.merges
        [(b'o', b'w'), (b'l', b'ow'), (b'low', b'e')]
        >>> tokenizer.special_tokens
        {'<|end|>': 259}
        """
        special_tokens = list(_numbered(special_tokens, {}, 0))
        if vocab_size < 256 + len(special_tokens):
            raise ArgumentError(
                "ByteBPE.train(vocab_size): too small for the bytes and the special tokens.",
                got=str(vocab_size),
                expected=f"at least {256 + len(special_tokens)}",
            )
        words = count_words(path, Segmenter(special_tokens))
        tokens, merges = learn_merges(words, vocab_size - len(special_tokens))
        pairs = [(tokens[first], tokens[second]) for first, second in merges]
        return cls(dict(enumerate(tokens)), pairs, special_tokens)

    @classmethod
    def from_files(cls, vocab, merges, special_tokens=()):
        """Read GPT-2's two files.

        Parameters
        ----------
        vocab : str or path
            `vocab.json`: token to id, the tokens written in GPT-2's alphabet (`to_printable`).
        merges : str or path
            `merges.txt`: two tokens per line, in order of precedence.
        special_tokens : sequence of str, optional
            For GPT-2: ``["<|endoftext|>"]``. Without it that text is encoded like any other.

        Returns
        -------
        ByteBPE

        Raises
        ------
        DataError
            If a file cannot be read, or the two do not belong together.
        """
        ids = read_vocab(vocab)
        tokens = {number: token_bytes(text) for text, number in ids.items()}
        if not isinstance(special_tokens, Mapping):
            special_tokens = _numbered(special_tokens, ids, max(ids.values()) + 1)
        try:
            return cls(tokens, read_merges(merges), special_tokens)
        except DataError as error:
            names = f"{os.fspath(vocab)} and {os.fspath(merges)}"
            message = f"{names}: {error.message}"
            raise DataError(message, got=error.got, expected=error.expected) from None

    def save(self, folder):
        """Write `vocab.json`, `merges.txt` and `tokenizer_config.json`, which is made if needed.

        Transformers' `GPT2Tokenizer` reads the folder, and so does `from_pretrained`.

        Parameters
        ----------
        folder : str or path
        """
        write_files(folder, self.vocab, self.merges, self.special_tokens)

    def encode(self, text, *, allowed_special="all"):
        """The ids of a text.

        Parameters
        ----------
        text : str
        allowed_special : "all" or collection of str, default "all"
            The special tokens to look for. Others are encoded as the plain text that they are: for
            text that comes from someone else, give ``()``.

        Returns
        -------
        list of int
        """
        ids = []
        for words, special in self._segmenter(allowed_special).whole(text):
            ids.extend(chain.from_iterable(map(self._kept.__getitem__, words)))
            if special is not None:
                ids.append(self.special_tokens[special])
        return ids

    def encode_iterable(self, chunks, *, allowed_special="all"):
        """The ids of a text that comes in pieces: those of `encode` for the pieces joined.

        Memory does not grow with the length of the text, only with that of its longest word (some
        8,000 characters are read ahead).

        Parameters
        ----------
        chunks : iterable of str, or text file
            Cut anywhere, also within a special token.
        allowed_special : "all" or collection of str, default "all"
            As in `encode`.

        Yields
        ------
        int
        """
        kept = KeptWords(self._merge_word, limit=2048)
        for words, special in self._segmenter(allowed_special).stream(chunks):
            for word in words:
                yield from kept[word]
            if special is not None:
                yield self.special_tokens[special]

    def decode(self, ids, *, skip_special_tokens=False):
        """The text of token ids.

        Parameters
        ----------
        ids : sequence, array or tensor of int
        skip_special_tokens : bool, default False

        Returns
        -------
        str
            Bytes that are not UTF-8, as when a character is cut in two, become U+FFFD.

        Raises
        ------
        IndexRangeError
            If an id has no token.
        """
        return b"".join(self._bytes_of(as_list(ids), skip_special_tokens)).decode(errors="replace")

    def decode_iterable(self, ids, *, skip_special_tokens=False):
        """The text of ids that come one at a time, given out as soon as a character is complete.

        Parameters
        ----------
        ids : iterable of int
        skip_special_tokens : bool, default False

        Yields
        ------
        str
            Never empty. Joined, the pieces are the text of `decode`.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in self._bytes_of(ids, skip_special_tokens):
            text = decoder.decode(token)
            if text:
                yield text
        rest = decoder.decode(b"", final=True)
        if rest:
            yield rest

    def _bytes_of(self, ids, skip_special_tokens):
        skipped = set(self.special_tokens.values()) if skip_special_tokens else ()
        for number in ids:
            if number in skipped:
                continue
            try:
                yield self.vocab[int(number)]
            except KeyError:
                raise IndexRangeError(
                    "ByteBPE.decode(ids): an id has no token.",
                    got=str(number),
                    expected=f"one of {len(self)} ids from {min(self.vocab)} to {max(self.vocab)}",
                ) from None

    def _segmenter(self, allowed_special):
        if isinstance(allowed_special, str) and allowed_special == "all":
            allowed_special = self.special_tokens
        allowed = frozenset(allowed_special)
        if allowed not in self._segmenters:
            unknown = allowed - self.special_tokens.keys()
            if unknown:
                raise ArgumentError(
                    "encode(allowed_special): this tokenizer has no such special token.",
                    got=", ".join(map(repr, sorted(unknown))),
                    expected=f'"all", or some of {list(self.special_tokens)}',
                )
            self._segmenters[allowed] = Segmenter(allowed)
        return self._segmenters[allowed]

    def _merge_word(self, word):
        """The ids of one word."""
        try:
            ids = [self._byte_ids[byte] for byte in word.encode()]
        except UnicodeEncodeError as error:
            raise DataError(
                "the text holds half of a surrogate pair, which is no character.",
                got=f"U+{ord(word[error.start]):04X}",
            ) from None
        if -1 in ids:
            missing = sorted({byte for byte in word.encode() if self._byte_ids[byte] < 0})
            raise DataError(
                f"the vocabulary lacks a byte that {word!r} needs.",
                got=", ".join(f"0x{byte:02x}" for byte in missing),
                expected="a byte-level vocabulary, which has all 256",
            )
        return merge_tokens(ids, self._ranks)

    def _ranked_merges(self):
        """(id, id) -> (precedence, id of the two together)."""
        ids, ranks, strange = self._ids, {}, []
        for rank, (first, second) in enumerate(self.merges):
            joined = ids.get(first + second)
            if first not in ids or second not in ids or joined is None:
                strange.append(f"{to_printable(first)} {to_printable(second)}")
            else:
                ranks[ids[first], ids[second]] = rank, joined
        if strange:
            raise DataError(
                "the merges and the vocabulary do not belong together.",
                got=f"{len(strange)} merges of or into unknown tokens: {', '.join(strange[:5])}",
                expected="both parts and the whole of every merge in the vocabulary",
            )
        return ranks


def _numbered(special_tokens, known, free):
    """Give each special token its id in `known`, or the next one that is free."""
    if isinstance(special_tokens, str):
        raise ArgumentError("special_tokens is one string.", expected="a list of strings")
    numbered = {}
    for token in special_tokens or ():
        if token not in numbered:
            numbered[token] = known.get(token, free)
            free += numbered[token] == free
    return numbered


def as_list(ids):
    """Ids in a list, from a list, an array, a tensor or a single one."""
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    return [ids] if isinstance(ids, int) else ids
