"""The reward: a GPT with your norms and feed-forward blocks learns to write. Half a minute."""

import sys

from training import learn_to_write

if __name__ == "__main__":
    sys.exit(learn_to_write(activation="gelu"))
