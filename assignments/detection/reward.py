"""The reward: a small model finds all pictures in a scene at once (20 seconds)."""

import sys
import time

import numpy as np
from training import SHADES, beside, pictures, run

import minitorch_attn as mt
from minitorch_attn.models.boxes import center_to_corners_format, paired_generalized_iou
from minitorch_attn.models.matching import assign
from minitorch_attn.models.set_loss import hungarian_loss, total_loss

SIDE, WINDOW, STRIDE, SIZES = 24, 12, 4, (8, 13)  # in pixels
FIRST, STEPS, BATCH, RATE = 300, 1000, 32, 3e-3
COUNT = (SIDE - WINDOW) // STRIDE + 1  # windows along each axis; each window is a query


class Detector(mt.nn.Module):
    """Detector whose windows attend to each other, and each predict one object or "no object"."""

    def __init__(self, classes, dim=64):
        super().__init__()
        self.pixels = mt.nn.Sequential(mt.nn.Linear(WINDOW**2, 4 * dim), mt.nn.ReLU(),
                                       mt.nn.Linear(4 * dim, dim))  # fmt: skip
        self.places = mt.nn.Parameter(0.1 * mt.randn(COUNT**2, dim))
        settings = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        self.layers = mt.nn.Sequential(
            *(mt.nn.TransformerEncoderLayer(dim, 4, 2 * dim, **settings) for _ in range(2))
        )
        self.norm = mt.nn.LayerNorm(dim)
        self.classes, self.boxes = mt.nn.Linear(dim, classes + 1), mt.nn.Linear(dim, 4)
        center = (STRIDE * np.arange(COUNT) + WINDOW / 2) / SIDE
        y, x = np.meshgrid(center, center, indexing="ij")
        start = np.stack([x, y, 0 * x + 0.35, 0 * x + 0.35], axis=-1).reshape(-1, 4)
        self.start = mt.tensor(np.log(start / (1 - start)).astype("float32"))

    def classify(self, windows):
        """Return the logits of windows (batch, pixel), without attention between them."""
        return self.classes(self.norm(self.pixels(windows)))

    def forward(self, windows):
        """Return logits and boxes of all queries for windows (batch, query, pixel)."""
        x = self.norm(self.layers(self.pixels(windows) + self.places))  # (batch, query, dim)
        return self.classes(x), (self.boxes(x) + self.start).sigmoid()


def draw(rng, canvas, image, size):
    """Draw a picture of `size` pixels where the canvas is free. Return its box, or None."""
    for _ in range(20):
        top, left = rng.integers(0, len(canvas) - size + 1, 2)
        place = np.s_[top : top + size, left : left + size]
        if not canvas[place].any():
            grid = np.arange(size) * 8 // size
            canvas[place] = image[0][np.ix_(grid, grid)] + 1e-6
            return [left + size / 2, top + size / 2, size, size]
    return None


def scene(rng, images, labels):
    """Draw one or two pictures that do not overlap. Return the scene and its target."""
    canvas, found = np.zeros((SIDE, SIDE), np.float32), []
    for i in rng.integers(0, len(images), rng.integers(1, 3)):
        box = draw(rng, canvas, images[i], rng.integers(*SIZES))
        found += [] if box is None else [(labels[i], box)]
    kinds, boxes = zip(*found, strict=True)
    boxes = mt.tensor(np.array(boxes, np.float32) / SIDE)
    return canvas, {"class_labels": mt.tensor(np.array(kinds)), "boxes": boxes}


def batch(rng, images, labels, count=BATCH):
    """Draw scenes, and return them with their windows and their targets."""
    scenes, targets = zip(*(scene(rng, images, labels) for _ in range(count)), strict=True)
    views = np.lib.stride_tricks.sliding_window_view(np.array(scenes), (WINDOW, WINDOW), (1, 2))
    windows = views[:, ::STRIDE, ::STRIDE].reshape(count, COUNT**2, -1)
    return np.array(scenes), mt.tensor(windows), list(targets)


def detections(logits, boxes):
    """Return for each image the classes and the boxes of the queries that found an object."""
    kinds = logits.argmax(-1).numpy()
    chosen = [np.flatnonzero(row < logits.shape[-1] - 1) for row in kinds]
    return [(kinds[i][c], boxes[i][mt.tensor(c)]) for i, c in enumerate(chosen)]


def is_correct(kinds, boxes, target):
    """Return whether each object was found once, with its class and an IoU above 0.5."""
    labels, wanted = target["class_labels"].numpy(), target["boxes"]
    if len(kinds) != len(labels):
        return False
    a, b = center_to_corners_format(boxes), center_to_corners_format(wanted)
    overlap = paired_generalized_iou(a[:, None], b).numpy()
    i, j = assign(-overlap)
    return bool((kinds[i] == labels[j]).all() and (overlap[i, j] > 0.5).all())


def class_loss_of_windows(model, rng, images, labels):
    """Return the class loss for single pictures, each in one window."""
    chosen = rng.integers(0, len(images), 2 * BATCH)
    windows = np.zeros((2 * BATCH, WINDOW, WINDOW), np.float32)
    for window, i in zip(windows, chosen, strict=True):
        draw(rng, window, images[i], rng.integers(*SIZES))
    logits = model.classify(mt.tensor(windows.reshape(2 * BATCH, -1)))
    return mt.nn.functional.cross_entropy(logits, mt.tensor(labels[chosen]))


def set_loss_of_scenes(model, rng, images, labels):
    """Return the loss of scenes, with your boxes, your matching and your losses."""
    _, windows, targets = batch(rng, images, labels)
    logits, boxes = model(windows)
    losses = hungarian_loss(logits, boxes, targets, logits.shape[-1] - 1, eos_coef=0.3,
                            class_cost=1, bbox_cost=5, giou_cost=2)  # fmt: skip
    return total_loss(losses)


def train(model, images, labels):
    """Train on single pictures first, then on scenes. Yield steps and mean losses."""
    optimizer, rng = mt.optim.AdamW(model.parameters(), lr=RATE), np.random.default_rng(0)
    losses = []
    for step in range(1 - FIRST, STEPS + 1):
        loss_of = class_loss_of_windows if step <= 0 else set_loss_of_scenes
        optimizer.param_groups[0]["lr"] = RATE * min(1.0 if step <= 0 else step / 30,
                                                     1.02 - step / STEPS)  # fmt: skip
        loss = loss_of(model, rng, images, labels)
        optimizer.zero_grad()
        loss.backward()
        mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step > 0 and step % (STEPS // 10) == 0:
            yield step, np.mean(losses[-20:])


def drawing(canvas, kinds, boxes):
    """Draw a scene as text, two rows of pixels per line, with the boxes and classes on top."""
    cells = np.array(list(SHADES))[(9 * canvas.clip(0, 1)).round().astype(int)]
    cells = np.where(canvas[::2] > canvas[1::2], cells[::2], cells[1::2])
    for kind, box in zip(kinds, boxes, strict=True):
        left, top, right, bottom = (SIDE * box - [0, 0, 1, 1]).round().clip(0, SIDE - 1).astype(int)
        top, bottom = top // 2, bottom // 2
        cells[[[top], [bottom]], left : right + 1] = "-"
        cells[top : bottom + 1, [left, right]] = "|"
        cells[top, left] = str(kind)
    return [f"|{''.join(line)}|" for line in cells]


def main():
    """Train on scenes, count the test scenes without a mistake, and draw some with their boxes."""
    mt.manual_seed(0)
    images, labels, test_images, test_labels = pictures()
    classes = int(labels.max()) + 1
    model, start, rng = Detector(classes), time.perf_counter(), np.random.default_rng(1)
    scenes, windows, targets = batch(rng, test_images, test_labels, 100)
    print(f"Scenes of one or two pictures of {classes} kinds; {COUNT**2} queries.")
    print("correct: share of scenes in which each picture is found once, with its class and box")
    print("(of 100 test scenes, whose pictures are not used for training)\n")
    for step, loss in train(model, images, labels):
        with mt.no_grad():
            found = detections(*model(windows))
        right = np.mean([is_correct(*f, t) for f, t in zip(found, targets, strict=True)])
        print(f"step {step:>4}  loss {loss:5.2f}  correct {right:4.0%}  {'#' * round(40 * right)}",
              flush=True)  # fmt: skip
    print(f"\n{time.perf_counter() - start:.0f} s. What your model finds:\n")
    shown = [drawing(scenes[i], found[i][0], center_to_corners_format(found[i][1]).numpy())
             for i in range(6)]  # fmt: skip
    beside(*shown[:3])
    print()
    beside(*shown[3:])
    return 0 if right > 0.4 else 1


if __name__ == "__main__":
    sys.exit(run(main))
