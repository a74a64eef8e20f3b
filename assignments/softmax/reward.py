"""The reward: a GPT with your softmax and your loss learns to write (about 30 seconds)."""

import sys

from training import learn_to_write, run

if __name__ == "__main__":
    sys.exit(run(learn_to_write))
