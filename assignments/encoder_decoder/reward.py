"""The reward: your Transformer learns to spell words backward (about 30 seconds)."""

import sys
import time

import numpy as np
from training import beside, panel, run

import minitorch_attn as mt

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAD, START, END = 0, 1, 2
STEPS, BATCH, LONGEST, RATE = 1200, 48, 9, 4e-3
SHOWN = ("attention", "encoder", "token", "mask")


def encoded(words):
    """Return the ids of words, and of the reversed words between a start and an end token."""
    source = np.full((len(words), LONGEST), PAD)
    target = np.full((len(words), LONGEST + 2), PAD)
    for row, word in enumerate(words):
        ids = np.array([3 + LETTERS.index(letter) for letter in word])
        source[row, : len(ids)] = ids
        target[row, : len(ids) + 2] = [START, *ids[::-1], END]
    return mt.tensor(source), mt.tensor(target)


def drawn(rng, count):
    """Return `count` words of random letters."""
    return [
        "".join(LETTERS[i] for i in rng.integers(0, len(LETTERS), rng.integers(3, LONGEST + 1)))
        for _ in range(count)
    ]


def written(model, words):
    """Return the word that the model generates for each input word."""
    found = mt.generation.translate(
        model, encoded(words)[0], START, END, max_new_tokens=LONGEST + 1
    ).tolist()
    return ["".join(LETTERS[i - 3] for i in row[: (row + [END]).index(END)] if i > 2)
            for row in found]  # fmt: skip


def draw(model, word):
    """Show the decoder's cross-attention: one row for each letter that it generates."""
    source, target = encoded([word])
    maps = mt.viz.attention_maps(model, source, target[:, :-1])
    across = maps[-1].mean(axis=0)[: len(word), : len(word)]  # (output, input)
    print(f"\nAttention to the letters of {word!r} (columns) for each generated letter (rows):\n")
    lines = panel(" " + " ".join(word), across)
    beside(["", *word[::-1]], lines, gap=1)


def main():
    """Train, show what the model generates during training, and show its attention weights."""
    mt.manual_seed(0)
    rng, start = np.random.default_rng(0), time.perf_counter()
    model = mt.models.Transformer(
        3 + len(LETTERS), embed_dim=48, num_heads=4, ff_dim=96, num_encoder_layers=1,
        num_decoder_layers=1, dropout=0.0, norm_first=True, pad_id=PAD,
    )  # fmt: skip
    optimizer = mt.optim.AdamW(model.parameters(), lr=RATE)
    loss_of = mt.nn.CrossEntropyLoss(ignore_index=PAD)
    tests = drawn(np.random.default_rng(1), 200)
    print("The model is trained on words of random letters. The words below are new to it.\n")
    print("step  loss  " + "".join(f"{word:<11}" for word in SHOWN) + f"correct of {len(tests)}")
    losses = []
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = RATE * min(step / 50, 1.05 - step / STEPS)
        source, target = encoded(drawn(rng, BATCH))
        logits = model(source, target[:, :-1])  # (batch, target, vocabulary)
        loss = loss_of(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step in (1, 50) or step % 100 == 0:
            pairs = zip(tests, written(model, tests), strict=True)
            right = np.mean([word[::-1] == found for word, found in pairs])
            cells = "".join(f"{word:<11}" for word in written(model, SHOWN))
            print(f"{step:>4}  {np.mean(losses[-50:]):4.2f}  {cells}{right:4.0%}", flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s.")
    draw(model, SHOWN[0])
    return 0 if right > 0.8 else 1


if __name__ == "__main__":
    sys.exit(run(main))
