"""The reward: two GPTs learn to write, without your causal mask and with it. Half a minute."""

import sys

from training import learn_to_write, run


def without_mask(model):
    """Let every token see the whole text, the next character too."""
    for block in model.blocks:
        block.attention.attend = _seeing_all(block.attention.attend)


def _seeing_all(attend):
    def seeing_all(query, key, value, mask=None, bias=None, is_causal=False):
        return attend(query, key, value, mask, bias, False)

    return seeing_all


def main():
    """The first one only has to look at what comes next, and learns nothing by it."""
    print("Without your causal mask a GPT sees the character that it is to predict.\n")
    learn_to_write(600, without_mask, length=150)
    print("\nNearly no loss, and nothing learned: when it writes, the next one is not there.")
    print("\nWith your mask:\n")
    return learn_to_write(1000)


if __name__ == "__main__":
    sys.exit(run(main))
