"""The reward: a model names the pictures in a scene and shows where it looks (20 seconds)."""

import sys
import time

import numpy as np
from training import beside, panel, pictures, run

import minitorch_attn as mt
from minitorch_attn.models.show_attend_tell import ShowAttendTell, caption_loss

SIDE, SHOWN, STEPS, RATE, BATCH = 3, 2, 500, 4e-3, 64  # scenes of 3 x 3 cells with 2 pictures


class Captioner(mt.nn.Module):
    """Model that names the pictures in the cells of a scene, from top left to bottom right."""

    def __init__(self, classes, dim=64):
        super().__init__()
        self.encoder = mt.nn.Sequential(mt.nn.Linear(64, dim), mt.nn.ReLU())
        self.classes = mt.nn.Linear(dim, classes)
        self.places = mt.nn.Parameter(0.5 * mt.randn(SIDE * SIDE, dim))
        self.decoder = ShowAttendTell(classes + 1, dim, 32, 64, 64)  # the last id starts a caption

    def forward(self, cells, words):
        """Return the logits and the attention weights for cells (batch, cell, 64)."""
        return self.decoder(self.encoder(cells) + self.places, words)


def scenes(rng, images, labels):
    """Return cells (batch, cell, 64) and the names of their pictures in reading order."""
    chosen = rng.integers(0, len(images), (BATCH, SHOWN))
    places = np.sort(rng.permuted(np.tile(np.arange(SIDE**2), (BATCH, 1)), axis=1)[:, :SHOWN])
    cells = np.zeros((BATCH, SIDE**2, 64), np.float32)
    np.put_along_axis(cells, places[:, :, None], images[chosen].reshape(BATCH, SHOWN, 64), axis=1)
    return cells, labels[chosen]


def given(words, classes):
    """Return the decoder's input: the start token, and then all words but the last."""
    return mt.tensor(np.concatenate([np.full((BATCH, 1), classes), words[:, :-1]], axis=1))


def train(model, images, labels, classes):
    """Train on single pictures first, then also on captions; yield the step and its loss."""
    optimizer, rng = mt.optim.Adam(model.parameters(), lr=RATE), np.random.default_rng(0)
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, 2 * (1.02 - step / STEPS))
        chosen = rng.integers(0, len(images), BATCH)
        single = model.classes(model.encoder(mt.tensor(images[chosen].reshape(BATCH, 64))))
        loss = mt.nn.functional.cross_entropy(single, mt.tensor(labels[chosen]))
        if step > STEPS // 5:
            cells, words = scenes(rng, images, labels)
            logits, alphas = model(mt.tensor(cells), given(words, classes))
            loss = loss + caption_loss(logits, mt.tensor(words), alphas, penalty=0.1)
        optimizer.zero_grad()
        loss.backward()
        mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % (STEPS // 10) == 0:
            yield step, loss.item()


def main():
    """Train on scenes, then draw a test scene with the attention weights of each word."""
    mt.manual_seed(0)
    images, labels, test_images, test_labels = pictures()
    classes = int(labels.max()) + 1
    model, start, rng = Captioner(classes), time.perf_counter(), np.random.default_rng(1)
    cells, words = scenes(rng, test_images, test_labels)
    print(f"Scenes of {SIDE} x {SIDE} cells with {SHOWN} of {classes} kinds of pictures.")
    print("correct: share of 64 test scenes with both names correct; their pictures are new\n")
    for step, loss in train(model, images, labels, classes):
        with mt.no_grad():
            logits, alphas = model(mt.tensor(cells), given(words, classes))
        found = logits.argmax(-1).numpy()
        right = (found == words).all(axis=1).mean()
        print(f"step {step:>4}  loss {loss:5.2f}  correct {right:4.0%}  {'#' * round(40 * right)}",
              flush=True)  # fmt: skip
    print(f"\n{time.perf_counter() - start:.0f} s. A scene, and where the model looks:\n")
    scene = cells[0].reshape(SIDE, SIDE, 8, 8).swapaxes(1, 2).reshape(8 * SIDE, 8 * SIDE)
    maps = np.kron(alphas[0].numpy().reshape(-1, SIDE, SIDE), np.ones((8, 2)))
    beside(panel("the scene", scene),
           *(panel(f'for "{found[0, i]}"', maps[i], 1.0) for i in range(SHOWN)))  # fmt: skip
    return 0 if right > 0.7 else 1


if __name__ == "__main__":
    sys.exit(run(main))
