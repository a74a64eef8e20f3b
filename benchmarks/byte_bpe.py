"""Measure how long byte-pair encoding takes: `python -m benchmarks.byte_bpe [FILE]`.

Without FILE, the text is five million characters of the source code of Python's standard library.
"""

import os
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from minitorch_attn.data.tokenizers import ByteBPE

CHARACTERS = 5_000_000
VOCAB_SIZE = 1000


def library_sources():
    """Return the standard library's source files as one text.

    The files are joined in the order of their paths, and cut after CHARACTERS characters in all.
    """
    parts, length = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" not in path.parts:
            parts.append(path.read_text(encoding="utf-8", errors="ignore"))
            length += len(parts[-1])
            if length >= CHARACTERS:
                break
    return "".join(parts)[:CHARACTERS]


def timed(action):
    """Return the result of `action`, its wall-clock time and its CPU time, in seconds."""
    clock, processor = time.perf_counter(), time.process_time()
    result = action()
    return result, time.perf_counter() - clock, time.process_time() - processor


def main():
    """Time the training of a tokenizer, encoding and decoding, and print the times."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text.txt")
        text = Path(sys.argv[1]).read_text("utf-8") if len(sys.argv) > 1 else library_sources()
        Path(path).write_text(text, encoding="utf-8", newline="")
        size = os.path.getsize(path) / 1e6
        tokenizer, *train = timed(lambda: ByteBPE.train(path, VOCAB_SIZE, ["<|endoftext|>"]))
        print(f"{size:.1f} MB of text, {len(tokenizer)} tokens; seconds (processor time)")
        print(f"train            {train[0]:6.2f} ({train[1]:.2f})")
        ids, *seconds = timed(lambda: tokenizer.encode(text))
        print(f"encode           {seconds[0]:6.2f} ({seconds[1]:.2f})  {len(ids):,} ids")
        with open(path, encoding="utf-8", newline="") as file:
            streamed, *seconds = timed(lambda: list(tokenizer.encode_iterable(file)))
        print(f"encode_iterable  {seconds[0]:6.2f} ({seconds[1]:.2f})")
        decoded, *seconds = timed(lambda: tokenizer.decode(ids))
        print(f"decode           {seconds[0]:6.2f} ({seconds[1]:.2f})")
        if streamed != ids or decoded != text:
            sys.exit("encode_iterable differs from encode, or decode does not restore the text")


if __name__ == "__main__":
    main()
