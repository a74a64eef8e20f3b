"""Streaming: show tokens as soon as they are chosen.

A streamer has two methods. `put(ids)` is called first with the prompt (row, token), and then after
every step with the new tokens (row,). All ids are arrays on the host. `end()` is called after the
last step.
"""

import queue
import sys

import numpy as np

from ..errors import ArgumentError
from ..named_errors import NamedErrors

__all__ = ["TextIteratorStreamer", "TextStreamer", "TokenStreamer"]

UNKNOWN = "\ufffd"  # decoders return this character for invalid or incomplete UTF-8
LONGEST = 4  # maximum number of bytes of a character in UTF-8


class TokenStreamer(NamedErrors):
    """Call a function with every new token.

    Parameters
    ----------
    callback : callable
        Function that receives the ids of a step, as a list with one int for each row.
    skip_prompt : bool, default True
        If False, the first call receives the prompt as a list of lists.
    """

    def __init__(self, callback, skip_prompt=True):
        self.callback = callback
        self.skip_prompt = skip_prompt
        self._at_prompt = True

    def put(self, ids):
        """Process the ids of the prompt, or the new ids of one generation step."""
        if not (self._at_prompt and self.skip_prompt):
            self.callback(np.asarray(ids).tolist())
        self._at_prompt = False

    def end(self):
        """Prepare for the next prompt."""
        self._at_prompt = True


class TextStreamer(NamedErrors):
    """Write text as it is generated, one or more complete characters at a time.

    One character may consist of several tokens. The streamer keeps an incomplete character in a
    buffer until it is complete.

    Parameters
    ----------
    tokenizer : object
        Object whose `decode(list of int)` returns text.
    skip_prompt : bool, default False
        Whether to omit the prompt.
    write : callable, optional
        Function that receives each piece of text. Default: write to standard output.
    **decode_kwargs
        Further arguments passed to `decode`.

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
        """Process the ids of the prompt or of one step, and write all complete characters."""
        ids = np.asarray(ids)
        if (
            ids.ndim > 1
            and ids.shape[0] > 1
            or ids.ndim == 1
            and not self._at_prompt
            and ids.size > 1
        ):
            raise ArgumentError(
                "TextStreamer: ids must have one row",
                got=f"{ids.shape[0]} rows", hint="generate one text at a time to stream it",
            )  # fmt: skip
        skip, self._at_prompt = self._at_prompt and self.skip_prompt, False
        if skip:
            return
        self._ids.extend(ids.reshape(-1).tolist())
        text = self._text()
        ready = text.rstrip(UNKNOWN)
        # An incomplete character is decoded to fewer than LONGEST replacement characters.
        ready = text if len(text) - len(ready) >= LONGEST else ready
        self._give(ready)
        if ready == text and text.endswith("\n"):  # start a new buffer at each line
            self._ids, self._written = [], 0

    def end(self):
        """Write the remaining text, even an incomplete character. Prepare for the next prompt."""
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
    """Iterator over text as it is generated, while `generate` runs in another thread.

    Parameters
    ----------
    tokenizer : object
        Object whose `decode(list of int)` returns text.
    skip_prompt : bool, default False
        Whether to omit the prompt.
    timeout : float, optional
        Maximum time in seconds to wait for the next piece. After this time, queue.Empty is raised.
    **decode_kwargs
        Further arguments passed to `decode`.
    """

    def __init__(self, tokenizer, skip_prompt=False, timeout=None, **decode_kwargs):
        if timeout is not None and not (isinstance(timeout, (int, float)) and timeout >= 0):
            raise ArgumentError(
                "TextIteratorStreamer: timeout must be None or a number of seconds",
                got=f"timeout={timeout!r:.60}",
            )
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
