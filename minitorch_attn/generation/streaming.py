"""Show tokens as soon as they are chosen.

A streamer has `put(ids)`, called with the prompt, (row, token), and then with the tokens of every
step, (row,), as host arrays; and `end()`.
"""

import queue
import sys

import numpy as np

from ..errors import ArgumentError

__all__ = ["TextIteratorStreamer", "TextStreamer", "TokenStreamer"]

UNKNOWN = "\ufffd"  # what a decoder writes for bytes that are not UTF-8, or not yet
LONGEST = 4  # bytes of one character


class TokenStreamer:
    """Call a function with every new token.

    Parameters
    ----------
    callback : callable
        Called with the ids of a step, a list with one int for each row.
    skip_prompt : bool, default True
        Otherwise the first call has the prompt, a list of lists.
    """

    def __init__(self, callback, skip_prompt=True):
        self.callback = callback
        self.skip_prompt = skip_prompt
        self._at_prompt = True

    def put(self, ids):
        """Take the ids of the prompt, or of a step."""
        if not (self._at_prompt and self.skip_prompt):
            self.callback(np.asarray(ids).tolist())
        self._at_prompt = False

    def end(self):
        """Be ready for another prompt."""
        self._at_prompt = True


class TextStreamer:
    """Write text as it grows, in whole characters.

    Several tokens may make one character. What ends in bytes that are no character yet is held
    back until it is complete, so that nothing written has to be taken back.

    Parameters
    ----------
    tokenizer : object
        Its `decode(list of int)` gives text.
    skip_prompt : bool, default False
    write : callable, optional
        Called with each piece of text; by default it goes to standard output.
    **decode_kwargs
        For `decode`.

    Examples
    --------
    >>> class Bytes:
    ...     def decode(self, ids):
    ...         return bytes(ids).decode("utf-8", errors="replace")
    >>> pieces = []
    >>> streamer = TextStreamer(Bytes(), write=pieces.append)
    >>> for byte in "né!".encode():
    ...     streamer.put(np.array([byte]))
    >>> streamer.end()
    >>> pieces
    ['n', 'é', '!']
    """

    def __init__(self, tokenizer, skip_prompt=False, write=None, **decode_kwargs):
        self.tokenizer = tokenizer
        self.skip_prompt = skip_prompt
        self.decode_kwargs = decode_kwargs
        self.write = _to_stdout if write is None else write
        self._ids, self._written, self._at_prompt = [], 0, True

    def put(self, ids):
        """Take the ids of the prompt, or of a step, and write what is complete."""
        ids = np.asarray(ids)
        if (
            ids.ndim > 1
            and ids.shape[0] > 1
            or ids.ndim == 1
            and not self._at_prompt
            and ids.size > 1
        ):
            raise ArgumentError("TextStreamer: one sequence at a time.", got=f"{ids.shape[0]} rows")
        skip, self._at_prompt = self._at_prompt and self.skip_prompt, False
        if skip:
            return
        self._ids.extend(ids.reshape(-1).tolist())
        text = self._text()
        ready = text.rstrip(UNKNOWN)
        # More marks than a character has bytes are really in the text.
        ready = text if len(text) - len(ready) >= LONGEST else ready
        self._give(ready)
        if ready == text and text.endswith("\n"):  # a new line begins anew: less to decode
            self._ids, self._written = [], 0

    def end(self):
        """Write what is left, complete or not, and be ready for another prompt."""
        if self._ids:
            self._give(self._text())
        self._ids, self._written, self._at_prompt = [], 0, True

    def _text(self):
        return self.tokenizer.decode(self._ids, **self.decode_kwargs)

    def _give(self, text):
        if len(text) > self._written:
            self.write(text[self._written :])
            self._written = len(text)


def _to_stdout(text):
    sys.stdout.write(text)
    sys.stdout.flush()


class TextIteratorStreamer(TextStreamer):
    """Text as it grows, to iterate over while `generate` runs in another thread.

    Parameters
    ----------
    tokenizer : object
    skip_prompt : bool, default False
    timeout : float, optional
        Wait at most so many seconds for the next piece; then queue.Empty is raised.
    **decode_kwargs
        For `decode`.
    """

    def __init__(self, tokenizer, skip_prompt=False, timeout=None, **decode_kwargs):
        self.queue, self.timeout = queue.Queue(), timeout
        super().__init__(tokenizer, skip_prompt, self.queue.put, **decode_kwargs)

    def end(self):
        super().end()
        self.queue.put(None)

    def __iter__(self):
        return self

    def __next__(self):
        piece = self.queue.get(timeout=self.timeout)
        if piece is None:
            raise StopIteration
        return piece
