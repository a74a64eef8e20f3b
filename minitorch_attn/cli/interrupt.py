"""Interrupt handling: the first Ctrl-C stops after the current step, the second immediately."""

import contextlib
import os
import signal
import threading

__all__ = ["stop_on_signal"]


@contextlib.contextmanager
def stop_on_signal(loop):
    """Make Ctrl-C (or SIGTERM) ask the loop to stop after its current step.

    A second Ctrl-C raises KeyboardInterrupt immediately.

    Parameters
    ----------
    loop : Loop
        Training loop whose `stop_requested` is set.

    Yields
    ------
    list of int
        Empty until a signal is received; then it contains the number of the signal.
    """
    received = []

    def handle(number, frame):
        if received:
            raise KeyboardInterrupt
        received.append(number)
        loop.stop_requested = True
        # Do not use print(): the signal may have interrupted a print().
        os.write(2, b"\nstopping after this step; press Ctrl-C again to stop now\n")

    if threading.current_thread() is not threading.main_thread():
        yield received  # only the main thread may handle signals
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
