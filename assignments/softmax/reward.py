"""The reward: a GPT whose weights and loss are yours learns to write. About half a minute."""

import sys

from training import learn_to_write

if __name__ == "__main__":
    sys.exit(learn_to_write())
