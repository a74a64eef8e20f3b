"""The commands: `mta`, `minitorch-attn` and `python -m minitorch_attn`."""

__all__ = ["main"]

DONE, FAILED, USAGE, NO_SANDBOX, OWN_FAULT, INTERRUPTED = 0, 1, 2, 3, 4, 130


def main(arguments=None):
    """Run one command.

    Parameters
    ----------
    arguments : list of str, optional
        By default those of the process.

    Returns
    -------
    int
        0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.
    """
    try:
        from .app import run

        return run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
