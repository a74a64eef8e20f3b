"""The reward: a GPT whose weights and loss are yours learns to write. About half a minute."""

import sys

from training import learn_to_write, run

if __name__ == "__main__":
    sys.exit(run(learn_to_write))
