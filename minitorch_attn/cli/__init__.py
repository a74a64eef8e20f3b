"""Command-line interface (CLI): `mta`, `minitorch-attn` and `python -m minitorch_attn`."""

import sys

__all__ = ["main"]

DONE, FAILED, USAGE, NO_SANDBOX, OWN_FAULT, INTERRUPTED = 0, 1, 2, 3, 4, 130


def main(arguments=None):
    """Run one command.

    Parameters
    ----------
    arguments : list of str, optional
        Command-line arguments. Defaults to `sys.argv[1:]`.

    Returns
    -------
    int
        Exit status: 0 on success, 1 on failure, 2 for a usage error, 130 after Ctrl-C.
    """
    try:
        from .app import run

        code = run(arguments)
        distributed = sys.modules.get("minitorch_attn.distributed")
        if code and distributed is not None and distributed.is_initialized():
            sys.exit(code)  # `distributed` replaces sys.exit, to end the other workers, too
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
