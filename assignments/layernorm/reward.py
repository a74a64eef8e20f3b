"""The reward: a deep GPT with and without your norms, then a GPT that writes (30 seconds)."""

import sys

import numpy as np
from training import fit, learn_to_write, prose, run

import minitorch_attn as mt

LAYERS, STEPS, RATE = 8, 160, 2e-2


def losses(tokenizer, ids, with_norms):
    """Train a deep GPT with or without norms, and return its losses."""
    mt.manual_seed(1)
    model = mt.models.GPT(len(tokenizer), 64, 32, num_heads=4, num_layers=LAYERS, activation="gelu")
    if not with_norms:
        model.norm = mt.nn.Identity()
        for block in model.blocks:
            block.norm1, block.norm2 = mt.nn.Identity(), mt.nn.Identity()
    with np.errstate(all="ignore"):
        return list(fit(model, ids, STEPS, RATE, steady=True))


def shown(loss):
    """Return a loss as a number and as a bar; the bar is cut off if the loss is 5 or more."""
    number = f"{loss:8.2f}" if loss < 1e5 else f"{loss:8.0e}"
    return f"{number} {'#' * round(4 * loss) if loss < 5 else '#' * 20 + ' ...'}"


def side_by_side():
    """Train a GPT with and without your norms, and print the losses side by side."""
    text = prose()
    tokenizer = mt.data.CharTokenizer.from_text(text)
    ids = tokenizer.encode(text)
    print(f"The loss of a GPT with {LAYERS} layers and a large learning rate:\n")
    without, yours = (losses(tokenizer, ids, with_norms) for with_norms in (False, True))
    print(f"step  {'without norms':>13}{'':<22}with your norms")
    for step in (1, *range(20, STEPS + 1, 20)):
        cells = [shown(np.mean(each[max(0, step - 10) : step])) for each in (without, yours)]
        print(f"{step:>4}  {cells[0]:<35}{cells[1]}", flush=True)


def main():
    """Compare a deep GPT with and without norms, then train a two-layer GPT to write text."""
    side_by_side()
    print("\nNow a GPT with your norms, linear layers and feed-forward blocks learns to write:\n")
    return learn_to_write(1000, activation="gelu")


if __name__ == "__main__":
    sys.exit(run(main))
