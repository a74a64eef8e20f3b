"""Image GPT recipe: a GPT generates handwritten digits pixel by pixel."""

import math
from functools import cached_property

import numpy as np

from ...autograd import no_grad
from ...backend import to_host
from ...data.examples import ShuffledBatches, in_batches
from ...data.linear_probe import probe_accuracy
from ...data.pixel_tables import NEIGHBORHOODS, pixel_table_bits
from ...generation import sample
from ...models.image_gpt import ImageGPT
from ...tensor import tensor
from .base import Target
from .digits import DigitRecipe
from .options import common_options

__all__ = ["IGPT"]

_LEVELS, _SIDE = 16, 8
_COMPLETIONS = 3


class IGPT(DigitRecipe):
    """Train an Image GPT on handwritten digits of 8 x 8 pixels with 16 gray levels.

    The model reads the pixels in raster order and learns to predict the next pixel. It is compared
    with tables that count how often each level occurs, given the levels of the neighboring pixels.
    After training, linear classifiers on the features of every layer show in which layers the model
    represents the digit's class, although it was trained without labels.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Chen et al. 2020, "Generative Pretraining from Pixels", ICML 2020.
    """

    name = "igpt"
    summary = "an Image GPT writes handwritten digits pixel by pixel"
    headline = "An Image GPT learns to write digits, one pixel at a time."
    target = Target(
        "part of the best table",
        0.85,
        "bits per pixel, relative to the best table of neighbors",
        higher_is_better=False,
    )
    more_targets = (
        Target(
            "part of the best table with positions", 0.9,
            "bits per pixel, relative to the best table with positions",
            higher_is_better=False,
        ),
        Target("probe", 0.8, "accuracy of a linear probe on the best layer"),
    )  # fmt: skip
    splits = ("data", "tensor")
    OPTIONS = (
        *common_options(
            steps=1600, lr=4e-3, batch=32, layers=4, dim=64, dropout=0.1, weight_decay=0.05,
            eval_every=400,
        ),
    )  # fmt: skip

    def prepare(self):
        """Load and split the digits, and round the pixels to 16 levels."""
        data = super().prepare()
        self.ids = tuple(as_levels(images) for images, _ in (self.training, self.test))
        return data

    def build(self):
        """Create the model. Its feed-forward networks are twice as wide as the embeddings."""
        options = self.options
        return ImageGPT(
            _LEVELS, _SIDE * _SIDE, options["dim"], options["heads"], options["layers"],
            mlp_ratio=2, dropout=options["dropout"],
        )  # fmt: skip

    def batches(self):
        """Return batches of training images as sequences of gray levels, without their labels."""
        options = self.options
        return ShuffledBatches(self.ids[:1], options["batch"], options["seed"], options["device"])

    def loss(self, model, batch):
        """Return the loss of predicting the next pixel, Eq. 1 of the paper."""
        return model.next_pixel_loss(batch[0])

    def evaluate(self, model):
        """Return the loss on the test images, in nats and in bits per pixel."""
        with no_grad():
            parts = [model.next_pixel_loss(x).item() * len(x) for (x,) in self._batches_of(1)]
        nats = sum(parts) / len(self.ids[1])
        return {"validation_loss": nats, "bits": nats / math.log(2)}

    def _batches_of(self, which):
        return in_batches(self.ids[which : which + 1], 120, self.options["device"])

    def baselines(self):
        """Return the test losses of the best count tables, in nats per pixel."""
        return dict(self._tables)

    @cached_property
    def _tables(self):
        images = [ids.reshape(-1, _SIDE, _SIDE) for ids in self.ids]
        found = {}
        for name, position in (("neighbors", False), ("neighbors and position", True)):
            bits = [
                pixel_table_bits(*images, _LEVELS, offsets, position)
                for offsets in NEIGHBORHOODS.values()
            ]
            found[name] = min(bits) * math.log(2)
        return found

    def probes(self):
        """Return the test accuracies of linear probes on the raw pixels and on each layer."""
        labels = self.training[1], self.test[1]
        raw = [images.reshape(len(images), -1) for images, _ in (self.training, self.test)]
        found = {"raw pixels": probe_accuracy(raw[0], labels[0], raw[1], labels[1])}
        features = [self.features(which) for which in (0, 1)]
        for layer, (train, test) in enumerate(zip(*features, strict=True)):
            found[f"layer {layer}"] = probe_accuracy(train, labels[0], test, labels[1])
        return found

    def features(self, which):
        """Return the features of every layer, arrays of shape (image, dim).

        Parameters
        ----------
        which : {0, 1}
            0 for the training images, 1 for the test images.
        """
        self.model.eval()
        parts = [self.model.features(ids) for (ids,) in self._batches_of(which)]
        return [
            np.concatenate([to_host(x.array) for x in layer]) for layer in zip(*parts, strict=True)
        ]

    def measure(self, metrics):
        """Return the bits per pixel, also relative to count tables, and the probe accuracies."""
        self.model.eval()
        nats = self.evaluate(self.model)["validation_loss"]
        tables = self.baselines()
        probes = self.probes()  # accuracy for raw pixels, layer 0, layer 1, ...
        accuracies = list(probes.values())
        return {
            "bits": nats / math.log(2),
            "part of the best table": nats / tables["neighbors"],
            "part of the best table with positions": nats / tables["neighbors and position"],
            "probe": max(accuracies[2:]),  # after at least one block
            **{f"probe, {name}": accuracy for name, accuracy in probes.items()},
        }

    def complete(self, ids, rows, seed=0):
        """Sample the pixels of an image below its first `rows` rows.

        Parameters
        ----------
        ids : int array of shape (64,)
            Gray levels of the image, row by row. Only the first `rows` rows are used.
        rows : int
            Number of rows that the model is given.
        seed : int, default 0

        Returns
        -------
        array of shape (8, 8)
            Pixels between 0 and 1.
        """
        start = [_LEVELS, *ids[: rows * _SIDE]]
        pixels = sample(self.model, start, len(ids) - rows * _SIDE, seed=seed)[1:]
        return np.reshape(pixels, (_SIDE, _SIDE)) / (_LEVELS - 1)

    def show(self, page, measured):
        """Show bits per pixel and probe accuracies; plot completed images and each pixel's bits."""
        self.model.eval()
        tables = {name: nats / math.log(2) for name, nats in page.baselines.items()}
        rows = [*tables.items(), ("this model", measured["bits"])]
        page.text("Bits per pixel on the test images:\n")
        page.table([(f"{bits:.3f}", name) for name, bits in rows])
        for target in self.more_targets:
            page.text(f"\n{target}: {target.show(measured[target.metric])}.")
        page.text("\nA linear classifier finds the digit from the features of a layer:\n")
        probes = {k.removeprefix("probe, "): v for k, v in measured.items() if "probe, " in k}
        page.table([(self.more_targets[1].show(v), name) for name, v in probes.items()])
        page.draw_loss("Image GPT on handwritten digits", unit="nats per pixel")
        self._draw_completions(page)
        self._draw_bits(page)
        return True

    def last_words(self, folder):
        """Suggest which figures to look at, and mention the recipe's source file."""
        return (
            f"Look at {folder}/completions.png and {folder}/bits.png. The recipe is "
            "minitorch_attn/training/recipes/image_gpt.py."
        )

    def _draw_completions(self, page):
        chosen = [int(np.flatnonzero(self.test[1] == digit)[0]) for digit in range(10)]
        originals = self.test[0][chosen, 0]
        given = originals.copy()
        given[:, _SIDE // 2 :] = np.nan
        drawn = [
            [self.complete(self.ids[1][i], _SIDE // 2, seed) for i in chosen]
            for seed in range(_COMPLETIONS)
        ]
        figure = page.viz.image_rows_figure(
            [given, *drawn, originals],
            ["upper half", *["completed"] * _COMPLETIONS, "original"],
            "Completed test digits: the model is given the upper half",
        )
        page.save("completions.png", figure, "completions of half images")

    def _draw_bits(self, page):
        """Plot the bits for each pixel: strokes need many bits, the background almost none."""
        chosen = [int(np.flatnonzero(self.test[1] == digit)[1]) for digit in range(10)]
        ids = tensor(self.ids[1][chosen], device=self.options["device"])
        with no_grad():
            nats = to_host(self.model.next_pixel_loss(ids, "none").array)
        bits = (nats / math.log(2) / 6).clip(0, 1).reshape(-1, _SIDE, _SIDE)
        figure = page.viz.image_rows_figure(
            [self.test[0][chosen, 0], bits],
            ["digit", "bits (0 to 6)"],
            "Bits that the model needs for each pixel",
        )
        page.save("bits.png", figure, "the bits that each pixel needs")


def as_levels(images):
    """Round pixels between 0 and 1 to levels 0 to 15: int64 array of shape (image, pixel)."""
    return np.rint(images.reshape(len(images), -1) * (_LEVELS - 1)).astype(np.int64)
