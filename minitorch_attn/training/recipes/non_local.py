"""Recipe `nonlocal`: a non-local block compares two shapes that are far apart."""

import numpy as np

from ... import nn, ops
from ...autograd import no_grad
from ...backend import as_dtype, to_host
from ...data.shape_pairs import SHAPE, SIDE, draw_shape_pairs
from ...models.local_relation import LocalRelation
from ...models.non_local import NonLocalBlock
from ...nn.functional import cross_entropy
from ...tensor import tensor
from .base import Recipe, Target, digest
from .options import Option, common_options
from .phases import RecipeStream

__all__ = ["NonLocal"]

_NAMES = {
    "with": "convolutions and a non-local block",
    "without": "convolutions only",
    "relation": "local relation layer",
}


class LocalBlock(nn.Module):
    """Local block with the layers of a Gaussian non-local block: z = W_z relu(g(x)) + x.

    Parameters
    ----------
    channels : int
    """

    def __init__(self, channels):
        super().__init__()
        self.g = nn.Conv2d(channels, channels // 2, 1)
        self.W_z = nn.Conv2d(channels // 2, channels, 1)

    def forward(self, x):
        return self.W_z(ops.relu(self.g(x))) + x


def _convolution(in_channels, out_channels, size, stride=1):
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, size, stride=stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
    )


class ShapeNetwork(nn.Module):
    """Two layers with a joint receptive field of 7 x 7 pixels, then `block` and a classifier.

    A 1 x 1 convolution follows the block. The classifier is a linear layer after average pooling.

    Parameters
    ----------
    channels : int
    block : Module
        Module that maps (batch, channel, row, column) to the same shape.
    second : Module, optional
        Second layer. Default: a 3 x 3 convolution.
    """

    def __init__(self, channels, block, second=None):
        super().__init__()
        if second is None:
            second = _convolution(channels, channels, 3)
        self.features = nn.Sequential(_convolution(1, channels, 3, 2), second)
        self.block = block
        self.mixed = _convolution(channels, channels, 1)
        self.fc = nn.Linear(channels, 2)

    def forward(self, images):
        x = self.mixed(self.block(self.features(images)))
        return self.fc(x.mean((2, 3)))


class PairBatches(RecipeStream):
    """Batches of new images of two shapes. Batch n depends only on (seed, n).

    Parameters
    ----------
    recipe : NonLocal
    """

    def __next__(self):
        """Return the next batch: images (batch, 1, 24, 24) and labels (batch,)."""
        generator = np.random.default_rng([self.seed, self.position])
        pairs = draw_shape_pairs(self.batch_size, generator, self.recipe.options["noise"])
        self.position += 1
        images = tensor(pairs.images.astype(self.dtype), device=self.device)
        return images, tensor(pairs.same, device=self.device)


class NonLocal(Recipe):
    """Train three networks to decide whether two distant shapes are the same.

    No convolution of these networks sees both shapes, and the classifier sees only the mean of all
    positions. The network with a non-local block can compare positions. The network without this
    block has the same convolutions and the same number of parameters. In the third network, a local
    relation layer replaces a convolution. Its weights depend on pairs of positions, but only within
    a window. All three networks are trained at once on the same images, and do not share
    parameters.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Wang et al. 2018, arXiv:1711.07971v3.
    .. [2] Hu et al. 2019, arXiv:1904.11491v2.
    """

    name = "nonlocal"
    summary = "a non-local block tells whether two distant shapes are the same"
    headline = "A non-local block learns to compare two shapes that are far apart."
    target = Target("with", 0.95, "test accuracy with a non-local block")
    more_targets = (Target("without", 0.7, "test accuracy without the block, same size", False),)
    unit = "images"
    one_process = "its batch normalization needs the whole batch"
    OPTIONS = (
        *common_options(
            ("layers", "heads", "dropout"), steps=700, lr=1e-2, batch=64, dim=24, warmup=30,
            clip=0.0, eval_every=175,
        ),
        Option("noise", 0.1, "Standard deviation of the noise in the images.", "from_zero"),
        Option("scenes", 1000, "Number of test images."),
    )  # fmt: skip

    def prepare(self):
        """Generate the test images."""
        generator = np.random.default_rng(0)
        self.test = draw_shape_pairs(self.options["scenes"], generator, self.options["noise"])
        return {"name": "pairs of shapes, generated from a seed", "sha256": digest(*self.test)}

    def build(self):
        """Create the three networks."""
        dim = self.options["dim"]
        relation = nn.Sequential(
            LocalRelation(dim, 3, max(dim // 8, 1)), nn.BatchNorm2d(dim), nn.ReLU()
        )
        return nn.ModuleDict(
            {
                "with": ShapeNetwork(dim, NonLocalBlock(dim, mode="gaussian")),
                "without": ShapeNetwork(dim, LocalBlock(dim)),
                "relation": ShapeNetwork(dim, LocalBlock(dim), relation),
            }
        )

    def batches(self):
        """Return batches of new images."""
        return PairBatches(self)

    def loss(self, model, batch):
        """Return the sum of the networks' cross-entropies. The networks do not share parameters."""
        images, labels = batch
        return sum(cross_entropy(network(images), labels) for network in model.values())

    def evaluate(self, model):
        """Return the mean loss of the networks and the accuracy of each on the test images."""
        images, labels = self._test_images(), tensor(self.test.same, device=self.options["device"])
        losses, found = [], {}
        with no_grad():
            for name, network in model.items():
                parts = [network(images[i : i + 250]) for i in range(0, len(images), 250)]
                logits = ops.cat(parts)
                losses.append(cross_entropy(logits, labels).item())
                found[name] = (logits.argmax(1) == labels).float().mean().item()
        return {"validation_loss": float(np.mean(losses)), "accuracy": found["with"], **found}

    def _test_images(self, count=None):
        images = self.test.images[:count].astype(as_dtype(self.options["dtype"]))
        return tensor(images, device=self.options["device"])

    def attention(self, count):
        """Return the attention map of the query at the first shape's center in each test image.

        Parameters
        ----------
        count : int
            Number of images.

        Returns
        -------
        array of shape (image, row, column)
        """
        network = self.model["with"].eval()
        with no_grad():
            features = network.features(self._test_images(count))
            weights = to_host(network.block.attention(features).array)
        side = SIDE // 2  # positions per side; the first convolution has stride 2
        row, column = (self.test.corners[:count, 0] + SHAPE // 2).T // 2
        chosen = weights[np.arange(len(weights)), row * side + column]
        return chosen.reshape(-1, side, side)

    def other_share(self, count=200):
        """Return the attention from one shape to the other, relative to uniform attention.

        The query is at the center of the first shape. The result is the mean over images in which
        both shapes are the same.
        """
        maps = self.attention(count).repeat(2, 1).repeat(2, 2) / 4  # (image, pixel, pixel)
        found = []
        for one, same, (row, column) in zip(
            maps, self.test.same, self.test.corners[:, 1], strict=False
        ):
            if same:
                found.append(one[row : row + SHAPE, column : column + SHAPE].sum())
        return float(np.mean(found)) * SIDE**2 / SHAPE**2 if found else 0.0

    def measure(self, metrics):
        """Return the accuracies, the numbers of parameters, and the result of `other_share`."""
        found = self.evaluate(self.model.eval())
        counts = {f"parameters {name}": float(_count(self.model[name])) for name in _NAMES}
        accuracies = {name: found[name] for name in _NAMES}
        return {**accuracies, **counts, "attention on the other shape": self.other_share()}

    def model_text(self):
        """Describe the sizes of the networks."""
        return ", ".join(f"{text}: {_count(self.model[name]):,}" for name, text in _NAMES.items())

    def preface(self, page):
        """Print the targets."""
        super().preface(page)
        page.text("\n".join(f"Also: {target}." for target in self.more_targets))

    def show(self, page, measured):
        """Show the accuracies, the loss, and the attention of the query at one shape."""
        rows = [("network", "parameters", "test accuracy")]
        for name, text in _NAMES.items():
            count = f"{measured[f'parameters {name}']:,.0f}"
            rows.append((text, count, f"{100 * measured[name]:.1f} %"))
        page.table(rows)
        for target in (self.target, *self.more_targets):
            reached = "reached" if target.reached(measured[target.metric]) else "missed"
            page.text(f"{target.meaning}: {target.bound}: {reached}")
        share = measured["attention on the other shape"]
        page.text(f"Attention to an equal shape is {share:.1f} times as high as the average.\n")
        page.draw_loss("Same or different: three networks", unit="nats per image")
        self._draw_attention(page)
        return True

    def _draw_attention(self, page):
        """Plot test images, and the attention of the query at the first shape's center in each."""
        count = min(40, len(self.test.same))
        maps = self.attention(count)
        order = np.argsort(1 - self.test.same[:count], kind="stable")
        chosen = [*order[:4], *order[-3:]] if count > 7 else [*order]
        images = [np.clip(self.test.images[i, 0], 0, 1) for i in chosen]
        found = [np.sqrt(maps[i] / maps[i].max()) for i in chosen]
        captions = ["same" if self.test.same[i] else "different" for i in chosen]
        queries = [self.test.corners[i, 0] + SHAPE // 2 for i in chosen]
        figure = page.viz.image_rows_figure(
            [images, found], ["image\n(orange: query)", "attention\n(square root)"],
            "Where one shape attends in the non-local block", [captions, [""] * len(chosen)],
            queries,
        )  # fmt: skip
        page.save("attention.png", figure, "where one shape attends in the non-local block")

    def last_words(self, folder):
        """Suggest which files to look at and read next."""
        return (
            f"Look at {folder / 'attention.png'}, then read\n"
            "minitorch_attn/models/non_local.py and minitorch_attn/models/local_relation.py."
        )


def _count(network):
    return sum(parameter.array.size for parameter in network.parameters())
