"""DINO recipe: a ViT learns to find handwritten digits among clutter, without labels."""

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...backend import as_dtype, to_host
from ...data.batch_stream import BatchStream
from ...data.cluttered_digits import draw_cluttered
from ...data.digits import digits_split
from ...data.examples import in_batches
from ...data.multi_crop import random_views
from ...data.nearest_neighbors import nearest_accuracy
from ...models.dino import DINO, DINOHead, cosine_schedule
from ...models.dino_transformer import DINOTransformer
from ...tensor import tensor
from .base import Recipe, Target, digest
from .dino_collapse import collapse_runs, entropies
from .options import Option, common_options

__all__ = ["DINODigits"]

_SIDE, _PATCH = 32, 4
# Sides of the crops in pixels, and the size to which they are resized.
_LARGE, _SMALL = ((24, 32), 24), ((12, 22), 12)
_BATCH = 240


class Views(BatchStream):
    """Batches of views of new scenes. Batch n depends only on (seed, n).

    Parameters
    ----------
    images, labels : array
        Handwritten digits; the labels are not used.
    small : int
        Number of small views, in addition to two large ones.
    batch_size, seed, device
        Arguments of `BatchStream`.
    dtype : str, default "float32"
    """

    def __init__(self, images, labels, small, batch_size, seed=0, device=None, dtype="float32"):
        super().__init__(batch_size, seed, device)
        self.digits, self.small, self.dtype = (images, labels), small, dtype

    def __next__(self):
        """Return the views, Tensors of shape (batch, 1, size, size), standardized."""
        generator = np.random.default_rng([self.seed, self.position])
        self.position += 1
        scenes = draw_cluttered(self.batch_size, *self.digits, generator).images
        sizes = [_LARGE] * 2 + [_SMALL] * self.small
        return tuple(
            tensor(standardized(random_views(scenes, *size, generator, 0.3, 0.02), self.dtype),
                   device=self.device)
            for size in sizes
        )  # fmt: skip


class DINODigits(Recipe):
    """Train a ViT with DINO on images of a handwritten digit among fragments of other digits.

    Student and teacher see different crops of the same image. Training does not use labels. The
    features are evaluated by nearest-neighbor classification. The class token's attention is
    evaluated by the fraction that falls on the digit. A small network shows how training collapses
    without centering or without sharpening.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Caron et al. 2021, arXiv:2104.14294v2.
    """

    name = "dino"
    summary = "a ViT learns to find digits among clutter, without labels"
    headline = "A ViT teaches itself to look at digits among clutter."
    target = Target("gain", 0.05, "gain in nearest-neighbor accuracy from training")
    more_targets = (
        Target(
            "focus", 1.8,
            "best head's attention on the digit, relative to uniform attention", percent=False,
        ),
    )  # fmt: skip
    unit = "images"
    noun = "data set"
    data_hint = "use the same version of scikit-learn as before"
    betas = (0.9, 0.999)
    log_every = 20
    one_process = "its teacher is centered by the mean of the whole batch"
    OPTIONS = (
        *common_options(
            ("dropout",), steps=700, lr=1.5e-3, batch=64, layers=3, heads=8, dim=64,
            weight_decay=0.04, clip=3.0, warmup=70, eval_every=175,
        ),
        Option("outputs", 64, "Number K of outputs of the head."),
        Option("small", 3, "Number of small views of an image."),
        Option("momentum", 0.98, "Momentum of the teacher in the first step.", "share"),
        Option("temperature", 0.01, "Temperature of the teacher.", "positive"),
        Option("scenes", 4, "Number of images of each digit that evaluate the features."),
        Option("collapse_steps", 300, "Number of steps of each run that shows the collapse."),
    )  # fmt: skip

    def prepare(self):
        """Split the digits, and generate the images on which the features are evaluated."""
        *self.training, images, labels = digits_split()
        self.test_digits = images, labels
        generator, copies = np.random.default_rng(0), self.options["scenes"]
        self.known = draw_cluttered(copies * len(self.training[1]), *self.training, generator)
        self.test = draw_cluttered(copies * len(labels), images, labels, generator)
        return {
            "name": f"scikit-learn's digits among clutter, {_SIDE} x {_SIDE} pixels",
            "sha256": digest(*self.training, self.test.images),
        }

    def build(self):
        """Create the student and the teacher, and measure the untrained network's accuracy."""
        model = DINO(self._network, self.options["outputs"])
        self.untrained = self._accuracy(model.teacher[0])
        return model

    def _network(self):
        options = self.options
        backbone = DINOTransformer(
            _SIDE, _PATCH, options["dim"], options["layers"], options["heads"],
            2 * options["dim"], in_channels=1,
        )  # fmt: skip
        head = DINOHead(
            options["dim"], options["outputs"], 4 * options["dim"], options["dim"], batch_norm=True
        )
        return nn.Sequential(backbone, head)

    def parameter_groups(self):
        """Return the parameter groups of the student alone."""
        groups = super().parameter_groups()
        for group in groups:
            group["params"] = [p for p in group["params"] if p.requires_grad]
        return groups

    def batches(self):
        """Return batches of views of new images."""
        options = self.options
        return Views(
            *self.training, options["small"], options["batch"], options["seed"],
            options["device"], options["dtype"],
        )  # fmt: skip

    def after_step(self, step):
        """Update the teacher."""
        options = self.options
        self.model.update(cosine_schedule(step - 1, options["steps"], options["momentum"], 1.0))

    def loss(self, model, batch):
        """Return the loss of the views. The teacher sees only the first two, which are large."""
        return model(batch[:2], batch[2:], self.options["temperature"])

    def evaluate(self, model):
        """Return the loss on test views, the best head's `focus`, and the teacher's `entropies`."""
        views = Views(*self.test_digits, self.options["small"], _BATCH, 1,
                      self.options["device"], self.options["dtype"])  # fmt: skip
        kept = model.outputs
        with no_grad():
            loss = self.loss(model, next(views)).item()
            targets = (model.outputs - model.center) / self.options["temperature"]
        model.outputs = kept
        each, mean = entropies(targets)
        return {
            "validation_loss": loss, "focus": float(self.focus().max()), "target entropy": each,
            "mean target entropy": mean,
        }  # fmt: skip

    def features(self, backbone, images):
        """Return the class token's features, an array of shape (image, dim)."""
        with no_grad():
            parts = [to_host(backbone(x).array) for (x,) in self._in_batches(images)]
        return np.concatenate(parts)

    def _in_batches(self, images, size=_BATCH):
        options = self.options
        return in_batches([standardized(images)], size, options["device"], options["dtype"])

    def _accuracy(self, backbone):
        backbone.to(as_dtype(self.options["dtype"])).to(self.options["device"]).eval()
        known, test = (self.features(backbone, x.images) for x in (self.known, self.test))
        backbone.train()
        return nearest_accuracy(known, self.known.labels, test, self.test.labels)

    def attention(self, count=_BATCH):
        """Return the class token's attention to the patches, (image, heads, patch), summing to 1.

        Parameters
        ----------
        count : int, default 240
            Number of test images.
        """
        backbone = self.model.teacher[0].eval()
        batches = self._in_batches(self.test.images[:count])
        parts = [to_host(backbone.last_attention(x).array) for (x,) in batches]
        weights = np.concatenate(parts)[:, :, 0, 1:]
        return weights / weights.sum(-1, keepdims=True)

    def focus(self):
        """Return each head's attention on the digit, relative to uniform attention."""
        weights = self.attention()
        side = _SIDE // _PATCH
        masks = self.test.masks()[: len(weights)].reshape(-1, side, _PATCH, side, _PATCH)
        inside = masks.mean((2, 4)).reshape(len(weights), 1, -1)  # share of each patch
        return (weights * inside).sum(-1).mean(0) / inside.mean()

    def measure(self, metrics):
        """Return the accuracies, the heads' `focus`, and the final `entropies` of `collapse_runs`.

        "accuracy" is the accuracy of nearest-neighbor classification with the teacher's features.
        "gain" is this accuracy minus "untrained", the accuracy of the untrained network.
        """
        accuracy = self._accuracy(self.model.teacher[0])
        raw = [x.images.reshape(len(x.images), -1) for x in (self.known, self.test)]
        pixels = nearest_accuracy(raw[0], self.known.labels, raw[1], self.test.labels)
        focus = self.focus()
        self.collapses = collapse_runs(self.training[0], self.options["collapse_steps"])
        ends = {
            f"{kind}, {name}": run[-1, i]
            for name, run in self.collapses.items()
            for i, kind in enumerate(("target entropy", "mean target entropy"))
        }
        return {
            "gain": accuracy - self.untrained, "accuracy": accuracy, "untrained": self.untrained,
            "raw pixels": pixels, "focus": float(focus.max()), "mean focus": float(focus.mean()),
            **{name: float(value) for name, value in ends.items()},
        }  # fmt: skip

    def show(self, page, measured):
        """Show the accuracies, the maps of the best head, and the two kinds of collapse."""
        page.text("Accuracy of nearest-neighbor classification:\n")
        rows = [("this model", "accuracy"), ("an untrained network", "untrained"),
                ("raw pixels", "raw pixels")]  # fmt: skip
        page.table([(self.target.show(measured[key]), name) for name, key in rows])
        page.text(
            f"\nThe best head's attention on the digit is {measured['focus']:.2f} times as high as "
            f"uniform attention. The mean of all heads is {measured['mean focus']:.2f}.\n"
        )
        for name, run in self.collapses.items():
            page.text(f"{name}: entropy of a target {run[-1, 0]:.2f}, of the mean {run[-1, 1]:.2f}")
        page.draw_loss("DINO on digits among clutter", unit="nats per pair of views")
        self._draw_maps(page)
        page.save(
            "collapse.png", page.viz.collapse_figure(self.collapses, 10, np.log(32)),
            "how the training collapses without centering and without sharpening",
        )  # fmt: skip
        return True

    def _draw_maps(self, page):
        """Plot attention maps of the class token, and of the patch in the middle of the digit."""
        best, count, side = int(self.focus().argmax()), 8, _SIDE // _PATCH
        class_maps = self.attention(count)[:, best].reshape(count, side, side)
        backbone, half = self.model.teacher[0].eval(), self.test.size // 2
        images = self.test.images[:count]
        reference = []
        for (x,), corner in zip(self._in_batches(images, 1), self.test.corners, strict=False):
            point = tuple(int(place) + half for place in corner)
            reference.append(to_host(backbone.reference_maps(x, [point]).array)[0, 0, best])
        figure = page.viz.image_rows_figure(
            [images[:, 0], [m / m.max() for m in class_maps],
             [m / m.max() for m in reference]],
            ["test image", "class token", "point on the digit"],
            "Attention of the best head in the last block",
        )  # fmt: skip
        page.save("maps.png", figure, "where the class token and a point on the digit look")

    def last_words(self, folder):
        """Suggest which files to look at and read next."""
        return (
            f"Look at {folder / 'maps.png'} and {folder / 'collapse.png'}, then read\n"
            "minitorch_attn/models/dino.py and lesson 42."
        )


def standardized(images, dtype="float32"):
    """Shift and scale pixels so that their mean is near 0 and their standard deviation near 1."""
    return ((images - 0.1) / 0.25).astype(as_dtype(dtype))
