"""The reward: a GPT is trained without your causal mask, then with it (about 30 seconds)."""

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
    """Train a GPT without the mask, which learns only to copy, and then a GPT with the mask."""
    print("Without your causal mask a GPT sees the character that it must predict.\n")
    learn_to_write(600, without_mask, length=150)
    print("\nThe loss is almost 0, but this GPT cannot write: there is no next character to copy.")
    print("\nWith your mask:\n")
    return learn_to_write(1000)


if __name__ == "__main__":
    sys.exit(run(main))
