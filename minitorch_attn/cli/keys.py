"""One key from the terminal, without waiting for Enter."""

import contextlib
import os
import select
import sys
import time

__all__ = ["keys_at_once", "read_key"]

_ESCAPE_SECONDS = 0.05  # the bytes of one key follow each other faster than two keys


@contextlib.contextmanager
def keys_at_once():
    """A block in which typed keys are neither shown nor kept back until Enter."""
    try:
        import termios
        import tty
    except ImportError:  # Windows, where `read_key` does so by itself
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def read_key(seconds=None):
    """Wait for a key. What was typed before the call counts.

    Parameters
    ----------
    seconds : float, optional
        How long to wait; without end by default.

    Returns
    -------
    str
        A character, or an escape sequence such as that of an arrow; empty if no key came.

    Raises
    ------
    EOFError
        If the input has ended.
    KeyboardInterrupt
        For Ctrl-C.
    """
    try:
        import termios  # noqa: F401
    except ImportError:
        return _read_on_windows(seconds)
    with keys_at_once():
        descriptor = sys.stdin.fileno()
        if seconds is not None and not select.select([descriptor], [], [], seconds)[0]:
            return ""
        return _read(descriptor)


def _read_on_windows(seconds):
    import msvcrt

    import click

    end = None if seconds is None else time.monotonic() + seconds
    while end is not None and not msvcrt.kbhit():
        if time.monotonic() > end:
            return ""
        time.sleep(0.02)
    return click.getchar()


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
