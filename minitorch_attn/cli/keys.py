"""One key from the terminal, without waiting for Enter."""

import os
import select
import sys

__all__ = ["read_key"]

_ESCAPE_SECONDS = 0.05  # the bytes of one key follow each other faster than two keys


def read_key():
    """Wait for a key. What was typed before the call counts.

    Returns
    -------
    str
        A character, or an escape sequence such as that of an arrow.

    Raises
    ------
    EOFError
        If the input has ended.
    KeyboardInterrupt
        For Ctrl-C.
    """
    try:
        import termios
        import tty
    except ImportError:  # Windows
        import click

        return click.getchar()
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        return _read(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _read(descriptor):
    """The bytes of one key as text."""
    found = os.read(descriptor, 1)
    if not found:
        raise EOFError
    while found[:1] == b"\x1b" or not _is_whole(found):
        if not select.select([descriptor], [], [], _ESCAPE_SECONDS)[0]:
            break
        found += os.read(descriptor, 1)
        if found[:1] == b"\x1b" and len(found) > 2 and 0x40 <= found[-1] <= 0x7E:
            break
    return found.decode("utf-8", "replace")


def _is_whole(found):
    """Whether these bytes are not the beginning of a longer character."""
    try:
        found.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason != "unexpected end of data"
    return True
