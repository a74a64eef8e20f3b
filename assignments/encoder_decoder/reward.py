"""The reward: your Transformer learns to write words backwards. About half a minute."""

import sys
import time

import numpy as np

import minitorch_attn as mt

LETTERS = "abcdefgh"
PAD, START, END = 0, 1, 2
STEPS, BATCH, LONGEST, RATE = 500, 48, 6, 3e-3


def words(rng, count):
    """Words of different lengths, and each of them backwards, as ids."""
    source = np.full((count, LONGEST), PAD)
    target = np.full((count, LONGEST + 2), PAD)
    for row in range(count):
        word = rng.integers(3, 3 + len(LETTERS), rng.integers(3, LONGEST + 1))
        source[row, : len(word)] = word
        target[row, : len(word) + 2] = [START, *word[::-1], END]
    return mt.tensor(source), mt.tensor(target)


def as_text(ids):
    """The letters of some ids, up to the end."""
    ids = [int(i) for i in ids]
    ids = ids[: ids.index(END)] if END in ids else ids
    return "".join(LETTERS[i - 3] for i in ids if i >= 3)


def main():
    """Train, print the loss as it falls, and let the model write."""
    mt.manual_seed(0)
    rng = np.random.default_rng(0)
    model = mt.models.Transformer(
        3 + len(LETTERS), embed_dim=32, num_heads=4, ff_dim=64, num_encoder_layers=1,
        num_decoder_layers=1, dropout=0.0, norm_first=True, pad_id=PAD,
    )  # fmt: skip
    optimiser = mt.optim.AdamW(model.parameters(), lr=RATE)
    loss_of = mt.nn.CrossEntropyLoss(ignore_index=PAD)
    losses, start = [], time.perf_counter()
    for step in range(1, STEPS + 1):
        source, target = words(rng, BATCH)
        logits = model(source, target[:, :-1])  # (batch, target, vocabulary)
        loss = loss_of(logits.flatten(0, 1), target[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if step % 100 == 0:
            recent = np.mean(losses[-50:])
            print(f"step {step:>4}  loss {recent:5.2f}  {'#' * round(20 * recent)}", flush=True)
    print(f"{time.perf_counter() - start:.0f} s. It writes:\n")
    source, target = words(np.random.default_rng(1), 200)
    found = mt.generation.translate(model, source, START, END, max_new_tokens=LONGEST + 1)
    rows = zip(source.tolist(), found.tolist(), target.tolist(), strict=True)
    pairs = [tuple(map(as_text, row)) for row in rows]
    for word, wrote, _ in pairs[:6]:
        print(f"    {word:<8} {wrote}")
    right = sum(wrote == truth for _, wrote, truth in pairs)
    print(f"\n{right} of {len(pairs)} new words are right")
    return 0 if right > 100 else 1


if __name__ == "__main__":
    sys.exit(main())
