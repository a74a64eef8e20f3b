"""`python -m minitorch_attn`: the same as the command `mta`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
