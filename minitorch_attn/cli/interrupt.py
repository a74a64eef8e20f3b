"""Ctrl-C: the first one stops cleanly, the second one at once."""

import contextlib
import os
import signal
import threading

__all__ = ["stop_on_signal"]


@contextlib.contextmanager
def stop_on_signal(loop):
    """Let Ctrl-C (or a TERM signal) ask the loop to stop after its current step.

    A second one raises KeyboardInterrupt where the program stands.

    Parameters
    ----------
    loop : Loop

    Yields
    ------
    list of int
        Empty, or the signal that came.
    """
    received = []

    def handle(number, frame):
        if received:
            raise KeyboardInterrupt
        received.append(number)
        loop.stop_requested = True
        # Not print(): the signal may have come in the middle of one.
        os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")

    if threading.current_thread() is not threading.main_thread():
        yield received  # only the main thread may handle signals
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
