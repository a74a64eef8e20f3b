"""Tokenizers for pretrained model folders in Hugging Face's layout."""

import os

from ...errors import DataError
from ...schema import COUNT, FLAG, TEXT, check, either, list_of, map_of, optional, read_json, record
from .byte_bpe import ByteBPE, as_list
from .gpt2_files import read_merges, read_vocab, token_bytes

__all__ = ["LibraryTokenizer", "from_pretrained"]

_SENTENCEPIECE = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "source.spm")
_ROLES = (
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
)  # fmt: skip

# Kinds of the fields in each file
_NAME = either(TEXT, record({"content": TEXT}))
_OBJECT = optional(record({}))
_FILES = {
    "tokenizer.json": record({}, {
        "model": _OBJECT, "pre_tokenizer": _OBJECT, "post_processor": _OBJECT,
        "normalizer": _OBJECT, "added_tokens": optional(list_of(record({}))),
    }),
    "tokenizer_config.json": record({}, {
        **dict.fromkeys(_ROLES, optional(_NAME)),
        "additional_special_tokens": optional(list_of(_NAME)),
        "added_tokens_decoder": optional(map_of(record({"content": TEXT}))),
        "tokenizer_class": optional(TEXT), "add_prefix_space": optional(FLAG),
        "do_lower_case": optional(FLAG), "strip_accents": optional(FLAG),
        "tokenize_chinese_chars": optional(FLAG),
    }),
    "special_tokens_map.json": record({}, {
        **dict.fromkeys(_ROLES, optional(_NAME)),
        "additional_special_tokens": optional(list_of(_NAME)),
    }),
    "added_tokens.json": map_of(COUNT),
}  # fmt: skip
_BPE = record({
    "model": record({"vocab": map_of(COUNT), "merges": list_of(either(TEXT, list_of(TEXT, 2)))}),
}, {"added_tokens": optional(list_of(record({"content": TEXT, "id": COUNT})))})  # fmt: skip
# Special tokens of the tokenizer classes in transformers that split text as GPT-2 does.
_MARKS = ("<s>", "</s>", "<pad>", "<unk>", "<mask>")
_GPT2_KIND = {
    "GPT2": ("<|endoftext|>",), "Roberta": _MARKS, "Bart": _MARKS, "LED": _MARKS,
    "Longformer": _MARKS, "Whisper": ("<|endoftext|>",), "CodeGen": ("<|endoftext|>",),
}  # fmt: skip


def from_pretrained(folder):
    """Read the tokenizer from a folder in Hugging Face's layout.

    A byte-level BPE like GPT-2's becomes a `ByteBPE`. Other kinds (WordPiece, SentencePiece's
    unigram, ...) require the optional `tokenizers` library: ``pip install
    minitorch-attn[tokenizers]``.

    Parameters
    ----------
    folder : str or path
        Folder with one of

        * `tokenizer.json`;
        * `vocab.json` and `merges.txt`: byte-level BPE. `encode` then returns only the ids of the
          text, without the special tokens that some models expect at the start and the end;
        * `vocab.txt`: BERT's WordPiece.

        Special tokens are read from `tokenizer_config.json`, `special_tokens_map.json` or
        `added_tokens.json`. For GPT-2 (``<|endoftext|>``), RoBERTa and BART, they are built in.

    Returns
    -------
    ByteBPE or LibraryTokenizer

    Raises
    ------
    DataError
        If the tokenizer is missing or cannot be read, or a required library is not installed.
    """

    def there(*names):
        return all(os.path.isfile(os.path.join(folder, name)) for name in names)

    if there("tokenizer.json"):
        path = os.path.join(folder, "tokenizer.json")
        description = _optional(folder, "tokenizer.json")
        if _is_gpt2_kind(description):
            return _byte_bpe(description, path)
        return LibraryTokenizer(
            _from_library(lambda library: library.Tokenizer.from_file(path), path)
        )
    if there("vocab.json", "merges.txt"):
        return _from_two_files(folder)
    if there("vocab.txt"):
        return _word_piece(folder)
    found = [name for name in _SENTENCEPIECE if there(name)]
    raise DataError(
        f"{os.fspath(folder)} does not contain a supported tokenizer",
        got=", ".join(found) or "none of the files below",
        expected="tokenizer.json, or vocab.json and merges.txt, or vocab.txt",
        hint=found
        and "write tokenizer.json with transformers: AutoTokenizer.from_pretrained(folder)"
        ".save_pretrained(folder)"
        or None,
    )


class LibraryTokenizer:
    """Wrapper that gives a tokenizer from the `tokenizers` library the methods of `ByteBPE`.

    Parameters
    ----------
    library_tokenizer : tokenizers.Tokenizer

    Attributes
    ----------
    library_tokenizer
        The wrapped tokenizer, for access to offsets, text pairs and batches.
    special_tokens : dict of str to int
    """

    def __init__(self, library_tokenizer):
        library_tokenizer.no_truncation()
        library_tokenizer.no_padding()
        self.library_tokenizer = library_tokenizer
        added = library_tokenizer.get_added_tokens_decoder()
        self.special_tokens = {
            token.content: number for number, token in added.items() if token.special
        }

    def __len__(self):
        return self.library_tokenizer.get_vocab_size()

    def encode(self, text, *, add_special_tokens=True):
        """Encode a text to ids.

        Parameters
        ----------
        text : str
        add_special_tokens : bool, default True
            If True, add the special tokens that the model was trained with ([CLS], </s>, ...).

        Returns
        -------
        list of int
        """
        encode = self.library_tokenizer.encode
        try:
            return encode(text, add_special_tokens=add_special_tokens).ids
        except Exception as error:  # the library raises a plain Exception
            raise DataError("encode: the tokenizer failed", got=str(error)) from error

    def decode(self, ids, *, skip_special_tokens=False):
        """Decode token ids to text."""
        ids = [int(number) for number in as_list(ids)]
        return self.library_tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)


def _from_library(build, path):
    try:
        import tokenizers
    except ImportError:
        raise DataError(
            f"{path} requires the `tokenizers` library, which is not installed",
            hint="python -m pip install 'minitorch-attn[tokenizers]'",
        ) from None
    try:
        return build(tokenizers)
    except Exception as error:  # the library raises a plain Exception for files that it cannot read
        raise DataError(
            f"{path} is not a tokenizer",
            got=str(error), hint="the file may be incomplete: download it again",
        ) from None  # fmt: skip


def _is_gpt2_kind(description):
    """Return True if `ByteBPE` supports everything in this tokenizer.json."""
    model = description.get("model") or {}
    before = description.get("pre_tokenizer") or {}
    after = description.get("post_processor") or {"type": "ByteLevel"}
    text_alone = [{"Sequence": {"id": "A", "type_id": 0}}]
    unusual = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback",
               "ignore_merges")  # fmt: skip
    return (
        model.get("type") == "BPE"
        and not any(model.get(setting) for setting in unusual)
        and before.get("type") == "ByteLevel"
        and (after.get("type") == "ByteLevel" or after.get("single") == text_alone)
        and before.get("add_prefix_space") is False
        and before.get("use_regex", True)
        and not description.get("normalizer")
        and not any(
            token.get(setting)
            for token in description.get("added_tokens") or ()
            for setting in ("single_word", "lstrip", "rstrip")
        )
    )


def _byte_bpe(description, path):
    hint = "save it again with the `transformers` library: .save_pretrained(folder)"
    check(description, _BPE, path, hint=hint)
    model, added = description["model"], description.get("added_tokens") or ()
    vocab = {number: token_bytes(token) for token, number in model["vocab"].items()}
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    if len(vocab) < len(model["vocab"]) or any(len(pair) != 2 for pair in pairs):
        raise DataError(
            f"{path} is not a valid byte-level BPE",
            expected="distinct ids, and two tokens in every merge", hint=hint,
        )  # fmt: skip
    merges = [(token_bytes(first), token_bytes(second)) for first, second in pairs]
    return ByteBPE(vocab, merges, {token["content"]: token["id"] for token in added})


def _from_two_files(folder):
    vocab, merges = (os.path.join(folder, name) for name in ("vocab.json", "merges.txt"))
    config = _optional(folder, "tokenizer_config.json")
    if config.get("add_prefix_space"):
        raise DataError(
            f"{os.fspath(folder)}: add_prefix_space is not supported without tokenizer.json",
            got="add_prefix_space in tokenizer_config.json",
            hint="add tokenizer.json, which the `tokenizers` library reads",
        )
    kind = (config.get("tokenizer_class") or "GPT2").removesuffix("Fast").removesuffix("Tokenizer")
    ids = read_vocab(vocab)
    if kind not in _GPT2_KIND or sum(token.endswith("</w>") for token in ids) > len(ids) / 10:
        raise DataError(
            f"{os.fspath(folder)}: this kind of BPE is not supported without tokenizer.json",
            got=kind if kind not in _GPT2_KIND else "tokens that end in </w>",
            expected=f"one of {', '.join(_GPT2_KIND)}",
            hint="add tokenizer.json, which the `tokenizers` library reads",
        )
    specials = _special_tokens(folder, config)
    for token in _GPT2_KIND[kind]:
        if token in ids:
            specials.setdefault(token, ids[token])
    free = max([*ids.values(), *(n for n in specials.values() if n is not None)]) + 1
    for token, number in specials.items():
        if number is None:
            specials[token] = ids.get(token, free)
            free += specials[token] == free
    tokens = {number: token_bytes(token) for token, number in ids.items()}
    return ByteBPE(tokens, read_merges(merges), specials)


def _special_tokens(folder, config):
    """Return {special token: id}, where the id is None if the files do not state it."""
    found = {}
    for roles in (_optional(folder, "special_tokens_map.json"), config):
        named = [roles.get(role) for role in _ROLES]
        named += roles.get("additional_special_tokens") or ()
        for token in named:
            if token is not None:
                found.setdefault(_text_of(token))
    found |= _optional(folder, "added_tokens.json")
    for number, token in (config.get("added_tokens_decoder") or {}).items():
        if not (number.isascii() and number.isdecimal() and len(number) < 19):
            raise DataError(
                f"{os.fspath(folder)}/tokenizer_config.json: a token id is invalid",
                got=repr(number[:40]), expected="a non-negative integer as a string",
            )  # fmt: skip
        found[token["content"]] = int(number)
    return found


def _text_of(token):
    """Return a special token's text. The token is a string or a dict with the key "content"."""
    return token["content"] if isinstance(token, dict) else token


def _word_piece(folder):
    """Read BERT's WordPiece tokenizer from vocab.txt. Text is lower-cased by default."""
    path = os.path.join(folder, "vocab.txt")
    config = _optional(folder, "tokenizer_config.json")
    names = {role: _text_of(config.get(f"{role}_token") or f"[{role.upper()}]") for role in
             ("unk", "sep", "cls", "pad", "mask")}  # fmt: skip

    def build(library):
        vocab = library.models.WordPiece.read_file(path)
        if absent := [names[role] for role in ("unk", "sep", "cls") if names[role] not in vocab]:
            raise ValueError(f"the vocabulary does not contain {', '.join(absent)}")
        tokenizer = library.Tokenizer(library.models.WordPiece(vocab, unk_token=names["unk"]))
        tokenizer.add_special_tokens([name for name in names.values() if name in vocab])
        lowercase = config.get("do_lower_case", True)
        tokenizer.normalizer = library.normalizers.BertNormalizer(
            lowercase=lowercase,
            strip_accents=config.get("strip_accents"),
            handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        )
        tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = library.decoders.WordPiece(prefix="##")
        ends = [(names[role], vocab[names[role]]) for role in ("sep", "cls")]
        tokenizer.post_processor = library.processors.BertProcessing(*ends)
        return tokenizer

    return LibraryTokenizer(_from_library(build, path))


def _optional(folder, name):
    """Return the checked contents of the JSON file `name`, or {} if the file is missing."""
    path = os.path.join(folder, name)
    fields = read_json(path) if os.path.isfile(path) else {}
    check(fields, _FILES[name], path)
    return fields
