"""Byte-level byte-pair encoding (BPE) as in GPT-2."""

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
    """Byte-level byte-pair encoding, which encodes any text without loss.

    A text is split at its special tokens, then into words (`pretokens`). At first, each byte of a
    word is one token. Merges then join adjacent tokens until no merge applies. The merge that comes
    first in `merges` is applied first, from left to right.

    Parameters
    ----------
    vocab : mapping of int to bytes
        Token of each id.
    merges : sequence of (bytes, bytes)
        Merges in order of precedence.
    special_tokens : sequence of str, or mapping of str to int, optional
        Tokens that are never split or merged with other tokens. If ids are not given, tokens that
        are not in the vocabulary get the next free ids.

    Attributes
    ----------
    vocab : dict of int to bytes
        Vocabulary, including the special tokens.
    merges : list of (bytes, bytes)
    special_tokens : dict of str to int

    Notes
    -----
    Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", sec. 2.2, after
    Sennrich et al. 2016, arXiv:1508.07909v5. With GPT-2's two files, the ids equal the ids of
    GPT-2's published tokenizer.

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
            UTF-8 text file. It is read in pieces, and only its distinct words are kept in memory.
        vocab_size : int
            Number of tokens: the 256 bytes, merged tokens and special tokens. A short text may
            result in fewer tokens.
        special_tokens : sequence of str, optional
            Tokens at which the text is split. They are never merged.

        Returns
        -------
        ByteBPE
            Tokenizer whose ids 0 to 255 are the bytes, followed by the merged tokens in merge order
            and the special tokens.

        Notes
        -----
        Among equally frequent pairs, the greatest is merged first. Pairs are compared as tuples of
        bytes objects.

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
                "ByteBPE.train: vocab_size is too small for the bytes and the special tokens",
                got=str(vocab_size), expected=f"at least {256 + len(special_tokens)}",
            )  # fmt: skip
        words = count_words(path, Segmenter(special_tokens))
        tokens, merges = learn_merges(words, vocab_size - len(special_tokens))
        pairs = [(tokens[first], tokens[second]) for first, second in merges]
        return cls(dict(enumerate(tokens)), pairs, special_tokens)

    @classmethod
    def from_files(cls, vocab, merges, special_tokens=()):
        """Read a tokenizer from GPT-2's two files.

        Parameters
        ----------
        vocab : str or path
            `vocab.json`, which maps tokens in GPT-2's alphabet (`to_printable`) to ids.
        merges : str or path
            `merges.txt`, which has two tokens per line, in order of precedence.
        special_tokens : sequence of str, optional
            Special tokens to recognize, such as ``["<|endoftext|>"]`` for GPT-2. By default, they
            are encoded like any other text.

        Returns
        -------
        ByteBPE

        Raises
        ------
        DataError
            If a file cannot be read, or the two files do not match.
        """
        ids = read_vocab(vocab)
        tokens = {number: token_bytes(text) for text, number in ids.items()}
        if not isinstance(special_tokens, Mapping):
            special_tokens = _numbered(special_tokens, ids, max(ids.values()) + 1)
        try:
            return cls(tokens, read_merges(merges), special_tokens)
        except DataError as error:
            message = f"{os.fspath(vocab)} and {os.fspath(merges)}: {error.message}"
            raise DataError(
                message, got=error.got, expected=error.expected, hint=error.hint
            ) from None

    def save(self, folder):
        """Write `vocab.json`, `merges.txt` and `tokenizer_config.json` to a folder.

        Transformers' `GPT2Tokenizer` and `from_pretrained` can read the folder.

        Parameters
        ----------
        folder : str or path
        """
        write_files(folder, self.vocab, self.merges, self.special_tokens)

    def encode(self, text, *, allowed_special="all"):
        """Encode a text to ids.

        Parameters
        ----------
        text : str
        allowed_special : "all" or collection of str, default "all"
            Special tokens to recognize. Others are encoded as plain text. Use ``()`` for untrusted
            text.

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
        """Encode a text that arrives in pieces. The ids are the same as for the whole text.

        Memory use does not depend on the length of the text, only on its longest word. About 8,000
        characters are read ahead, or as many as the current word has if that is more.

        Parameters
        ----------
        chunks : iterable of str, or text file
            Pieces of the text, split anywhere, even within a special token.
        allowed_special : "all" or collection of str, default "all"
            Special tokens to recognize; see `encode`.

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
        """Decode token ids to text.

        Parameters
        ----------
        ids : sequence, array or tensor of int
        skip_special_tokens : bool, default False

        Returns
        -------
        str
            Text. Bytes that are not valid UTF-8, such as an incomplete character, become U+FFFD.

        Raises
        ------
        IndexRangeError
            If an id is not in the vocabulary.
        """
        return b"".join(self._bytes_of(as_list(ids), skip_special_tokens)).decode(errors="replace")

    def decode_iterable(self, ids, *, skip_special_tokens=False):
        """Decode ids that arrive one at a time, and yield text as soon as characters are complete.

        Parameters
        ----------
        ids : iterable of int
        skip_special_tokens : bool, default False

        Yields
        ------
        str
            Non-empty pieces of text. Their concatenation is the text that `decode` returns.
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
                    "ByteBPE.decode: an id is not in the vocabulary",
                    got=str(number),
                    expected=f"one of {len(self)} ids from {min(self.vocab)} to {max(self.vocab)}",
                    hint="decode with the tokenizer that encoded the text",
                ) from None

    def _segmenter(self, allowed_special):
        if isinstance(allowed_special, str) and allowed_special == "all":
            allowed_special = self.special_tokens
        allowed = frozenset(allowed_special)
        if allowed not in self._segmenters:
            unknown = allowed - self.special_tokens.keys()
            if unknown:
                raise ArgumentError(
                    "ByteBPE.encode: allowed_special contains unknown special tokens",
                    got=", ".join(map(repr, sorted(unknown))),
                    expected=f'"all", or some of {list(self.special_tokens)}',
                    hint="pass special_tokens=[...] when you create the tokenizer",
                )
            self._segmenters[allowed] = Segmenter(allowed)
        return self._segmenters[allowed]

    def _merge_word(self, word):
        """Encode one word."""
        try:
            ids = [self._byte_ids[byte] for byte in word.encode()]
        except UnicodeEncodeError as error:
            raise DataError(
                "ByteBPE.encode: the text contains an unpaired surrogate",
                got=f"U+{ord(word[error.start]):04X}",
                hint='replace it with "?": text.encode("utf-8", "replace").decode()',
            ) from None
        if -1 in ids:
            missing = sorted({byte for byte in word.encode() if self._byte_ids[byte] < 0})
            raise DataError(
                f"ByteBPE.encode: the vocabulary does not contain a byte of {word!r}",
                got=", ".join(f"0x{byte:02x}" for byte in missing),
                expected="a byte-level vocabulary, which contains all 256 bytes",
            )
        return merge_tokens(ids, self._ranks)

    def _ranked_merges(self):
        """Return a dict that maps each pair of ids to (rank of the merge, merged id)."""
        ids, ranks, strange = self._ids, {}, []
        for rank, (first, second) in enumerate(self.merges):
            joined = ids.get(first + second)
            if first not in ids or second not in ids or joined is None:
                strange.append(f"{to_printable(first)} {to_printable(second)}")
            else:
                ranks[ids[first], ids[second]] = rank, joined
        if strange:
            raise DataError(
                "the merges do not match the vocabulary",
                got=f"{len(strange)} merges with unknown tokens: {', '.join(strange[:5])}",
                expected="a vocabulary that contains both parts and the result of every merge",
                hint="take vocab.json and merges.txt from the same model",
            )
        return ranks


def _numbered(special_tokens, known, free):
    """Return {special token: id}. Tokens that are not in `known` get the next free ids."""
    if isinstance(special_tokens, str):
        raise ArgumentError(
            "special_tokens must be a list of strings",
            got="one string", hint=f"pass [{special_tokens!r}]",
        )  # fmt: skip
    numbered = {}
    for token in special_tokens or ():
        if token not in numbered:
            numbered[token] = known.get(token, free)
            free += numbered[token] == free
    return numbered


def as_list(ids):
    """Convert token ids (a list, an array, a tensor or a single id) to a list."""
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    return [ids] if isinstance(ids, int) else ids
