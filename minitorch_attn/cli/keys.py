"""Keyboard input: read single keys without waiting for Enter."""

import contextlib
import os
import select
import sys
import time

__all__ = ["keys_at_once", "read_key"]

_ESCAPE_SECONDS = 0.05  # longest interval between two bytes of one key


@contextlib.contextmanager
def keys_at_once():
    """Deliver typed keys immediately, without Enter, and do not echo them on the terminal."""
    try:
        import termios
        import tty
    except ImportError:  # on Windows, `read_key` does this itself
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
    """Wait for a key. Keys typed before the call are also read.

    Parameters
    ----------
    seconds : float, optional
        Longest time to wait, in seconds. Unlimited by default.

    Returns
    -------
    str
        A character, an escape sequence (for example of an arrow key), or "" after `seconds`.

    Raises
    ------
    EOFError
        At the end of the input.
    KeyboardInterrupt
        After Ctrl-C.
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
    """Read the bytes of one key and return them as text."""
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
    """Return True unless the bytes end in the middle of a UTF-8 character."""
    try:
        found.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason != "unexpected end of data"
    return True
