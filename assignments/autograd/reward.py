"""The reward: a GPT whose gradients all pass through your engine learns to write."""

import sys

from training import learn_to_write

if __name__ == "__main__":
    sys.exit(learn_to_write())
