"""Command line of the fuzzers: `python -m tools.fuzz readers` or `python -m tools.fuzz calls`."""

import importlib
import os
import sys

COMMANDS = ("readers", "calls")


def main(arguments=None):
    """Run the subcommand's `main` with the other arguments, and exit with its status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] not in COMMANDS:
        raise SystemExit(f"usage: python -m tools.fuzz {{{','.join(COMMANDS)}}} [--help]")
    for name in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{name}_NUM_THREADS", "1")  # read when NumPy is imported
    command = importlib.import_module(f"{__package__}.{arguments[0]}")
    raise SystemExit(command.main(arguments[1:]))


if __name__ == "__main__":
    main()
