"""The reward: two GPTs learn to write, without your causal mask and with it. 30 seconds."""

import sys

from training import learn_to_write, run


def without_mask(model):
    """Let every token attend to the whole text, including the next character."""
    for block in model.blocks:
        block.attention.attend = _seeing_all(block.attention.attend)


def _seeing_all(attend):
    def seeing_all(query, key, value, mask=None, bias=None, is_causal=False):
        return attend(query, key, value, mask, bias, False)

    return seeing_all


def main():
    """Train without the mask, where copying the next character is enough, then with it."""
    print("Without your causal mask a GPT sees the character that it must predict.\n")
    learn_to_write(600, without_mask, length=150)
    print("\nThe loss is almost 0, but it cannot write: then there is no next character to copy.")
    print("\nWith your mask:\n")
    return learn_to_write(1000)


if __name__ == "__main__":
    sys.exit(run(main))
