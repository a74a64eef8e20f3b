"""The reward: a GPT that does not see the future, thanks to you, learns to write."""

import sys

from training import learn_to_write

if __name__ == "__main__":
    sys.exit(learn_to_write())
