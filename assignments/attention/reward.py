"""The reward: a GPT with your attention learns to look up earlier text (about 20 seconds).

The GPT reads some letters in random order, and then the same letters again. To predict the next
letter, it must find the earlier occurrence of the current letter and read the letter after it.
"""

import sys
import time

import numpy as np
from training import beside, panel, run

import minitorch_attn as mt

LETTERS, SHORTEST, LONGEST = "abcdefghijkl", 6, 8
STEPS, BATCH, RATE = 1200, 32, 3e-3


def phrases(rng, count):
    """Return ids of random phrases, each written twice, and a mask of the predictable letters."""
    ids = np.zeros((count, 2 * LONGEST), dtype="int64")
    known = np.zeros((count, 2 * LONGEST - 1), dtype=bool)
    for row in range(count):
        length = rng.integers(SHORTEST, LONGEST + 1)
        phrase = 1 + rng.permutation(len(LETTERS))[:length]
        ids[row, : 2 * length] = [*phrase, *phrase]
        known[row, length : 2 * length - 1] = True
    return ids, known


def weights_of(model, ids):
    """Return the attention weights of each layer.

    They are the output of attention if the values are an identity matrix.
    """
    maps = []

    def keep(attention, args, kwargs):
        x, heads = args[0], attention.num_heads
        query = attention._split(attention.q_proj(x), heads)
        key = attention._split(attention.k_proj(x), heads)
        unit = mt.tensor(np.tile(np.eye(x.shape[1], dtype="float32"), (1, heads, 1, 1)))
        maps.append(attention.attend(query, key, unit, is_causal=True).numpy()[0])

    hooks = [
        block.attention.register_forward_pre_hook(keep, with_kwargs=True) for block in model.blocks
    ]
    with mt.no_grad():
        model(mt.tensor(ids))
    for hook in hooks:
        hook.remove()
    return maps  # each (heads, query, key)


def draw(model):
    """Show the head that attends most to the letter after the current letter's first occurrence."""
    length = LONGEST
    phrase = np.arange(1, length + 1)[None]
    ids = np.concatenate([phrase, phrase], axis=1)[:, :-1]
    query = np.arange(length, 2 * length - 1)
    found = [
        (head[query, query - length + 1].mean(), layer, number, head)
        for layer, heads in enumerate(weights_of(model, ids)) for number, head in enumerate(heads)
    ]  # fmt: skip
    share, layer, number, head = max(found, key=lambda entry: entry[0])
    text = "".join(LETTERS[i - 1] for i in ids[0])
    print(f"\nLayer {layer}, head {number} has learned the look-up: at a repeated letter,")
    print(f"{share:.0%} of its weight is on the letter that followed the first occurrence.\n")
    lines = panel("  ".join([" " + text[0], *text[1:]]).replace("  ", " "), head, top=1.0)
    labels = ["", *text]
    beside(labels, lines, gap=1)


def main():
    """Train, print the share of correct letters, and show the attention weights of one head."""
    mt.manual_seed(0)
    rng, start = np.random.default_rng(0), time.perf_counter()
    model = mt.models.GPT(
        1 + len(LETTERS), 2 * LONGEST, embed_dim=48, num_heads=4, num_layers=2
    )  # fmt: skip
    optimizer = mt.optim.AdamW(model.parameters(), lr=RATE)
    loss_of = mt.nn.CrossEntropyLoss(ignore_index=-100)
    tests, known = phrases(np.random.default_rng(1), 300)
    print("The GPT reads random letters twice, as in kcafhb kcafhb. It predicts the next letter.")
    print(f"correct: share of repeated letters that it predicts in new phrases; random guesses: "
          f"{1 / len(LETTERS):.0%}\n")  # fmt: skip
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = RATE * min(1, 2.02 - 2 * step / STEPS)
        ids, counts = phrases(rng, BATCH)
        logits = model(mt.tensor(ids[:, :-1]))  # (batch, token, letter)
        labels = mt.tensor(np.where(counts, ids[:, 1:], -100).reshape(-1))
        loss = loss_of(logits.flatten(0, 1), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (1, 50) or step % 100 == 0:
            with mt.no_grad():
                found = model(mt.tensor(tests[:, :-1])).argmax(-1).numpy()
            right = (found == tests[:, 1:])[known].mean()
            print(f"step {step:>4}  correct {right:4.0%}  {'#' * round(50 * right)}", flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s.")
    draw(model)
    return 0 if right > 0.8 else 1


if __name__ == "__main__":
    sys.exit(run(main))
