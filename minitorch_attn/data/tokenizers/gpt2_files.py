"""GPT-2 tokenizer files: read and write `vocab.json` and `merges.txt`."""

import json
import os

from ...errors import DataError
from ...files import atomic_file, read_error
from ...schema import read_json
from .byte_alphabet import from_printable, to_printable

__all__ = ["read_merges", "read_vocab", "token_bytes", "write_files"]


def read_vocab(path):
    """Read `vocab.json`: a dict from tokens, written in GPT-2's byte alphabet, to ids."""
    ids = read_json(path)
    if not ids or not all(type(number) is int and number >= 0 for number in ids.values()):
        raise DataError(
            f"{os.fspath(path)} is not a vocabulary",
            expected='{"token": id, ...}, ids from 0',
            hint="for a folder with tokenizer.json, use data.tokenizers.from_pretrained",
        )
    if len(set(ids.values())) != len(ids):
        raise DataError(f"{os.fspath(path)}: two tokens have the same id")
    return ids


def token_bytes(text):
    """Convert a token from GPT-2's byte alphabet to bytes. Encode any other text as UTF-8."""
    token = from_printable(text)
    return text.encode() if token is None else token


def read_merges(path):
    """Read `merges.txt`: pairs of byte strings, in order of precedence."""
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = file.read().split("\n")
    except OSError as error:
        raise read_error(path, error, DataError) from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{os.fspath(path)} is not UTF-8",
            got=str(error), hint="the file may be damaged: download it again",
        ) from None  # fmt: skip
    merges = []
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\r")
        if not line or line.startswith("#version"):
            continue
        pair = tuple(map(from_printable, line.split(" ")))
        if len(pair) != 2 or not all(pair):
            raise DataError(
                f"{os.fspath(path)}, line {number}: the line is not a merge of byte-level tokens",
                got=repr(line),
                expected="two tokens in GPT-2's alphabet with one space between them",
                hint="pass the merges.txt that belongs to the vocabulary",
            )
        merges.append(pair)
    return merges


def write_files(folder, vocab, merges, special_tokens):
    """Write `vocab.json` and `merges.txt`, and the special tokens to `tokenizer_config.json`.

    Parameters
    ----------
    folder : str or path
        Folder to write to. It is created if it does not exist.
    vocab : dict of int to bytes
    merges : list of (bytes, bytes)
    special_tokens : dict of str to int
    """
    os.makedirs(folder, exist_ok=True)
    names = {number: token for token, number in special_tokens.items()}
    ids = {names.get(number) or to_printable(token): number for number, token in vocab.items()}
    if len(ids) < len(vocab):
        raise DataError("ByteBPE.save: two tokens have the same text in vocab.json")
    lines = [f"{to_printable(first)} {to_printable(second)}\n" for first, second in merges]
    added = {
        str(number): {"content": token, "special": True, "normalized": False}
        for token, number in special_tokens.items()
    }
    config = {"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": added}
    texts = {
        "vocab.json": json.dumps(ids, ensure_ascii=False),
        "merges.txt": "".join(["#version: 0.2\n", *lines]),
        "tokenizer_config.json": json.dumps(config, ensure_ascii=False, indent=2),
    }
    for name, text in texts.items():
        with atomic_file(os.path.join(folder, name)) as file:
            file.write(text.encode())
