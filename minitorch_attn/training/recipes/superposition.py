"""Superposition recipe: toy models store more sparse features than they have dimensions."""

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...backend import to_host
from ...data.batch_stream import BatchStream
from ...models.superposition import (
    ToyModels,
    dimensions_per_feature,
    feature_dimensionality,
    interference,
)
from ...tensor import tensor
from .base import Recipe, Target, digest
from .options import Option, common_options

__all__ = ["Superposition"]

# Section 2 of the paper: 20 features in 5 dimensions, at seven sparsities.
_SPARSITIES = (0.0, 0.7, 0.9, 0.97, 0.99, 0.997, 0.999)
# Introduction of the paper: 5 features in 2 dimensions, at three sparsities.
_PLANE_SPARSITIES = (0.0, 0.8, 0.9)
# Section 4 of the paper: many features of the same importance, here 48 in 12 dimensions.
_DENSITIES = tuple(float(10 ** (-1.5 * i / 11)) for i in range(12))
# Number of the 20 features that a PyTorch model of the same size represents after the same
# training. Median of three seeds.
REFERENCE = {0.0: 5, 0.7: 7, 0.9: 9, 0.97: 11, 0.99: 11}

_UNUSED = ("layers", "heads", "dim", "dropout")


class SparseFeatures(BatchStream):
    """Batches of sparse features for several groups of toy models.

    In a model with density p, a feature is uniform in [0, 1) with probability p, and 0 otherwise.
    One uniform number u determines the feature, which is u / p if u < p, and 0 otherwise.

    Parameters
    ----------
    groups : sequence of (array of shape (model,), int)
        Densities of the models in each group, and their number of features.
    batch_size, seed, device
        Arguments of `BatchStream`.
    dtype : str, default "float32"
    """

    def __init__(self, groups, batch_size, seed=0, device=None, dtype="float32"):
        super().__init__(batch_size, seed, device)
        self.groups, self.dtype = groups, dtype

    def __next__(self):
        """Return one Tensor of shape (batch, model, feature) for each group."""
        generator = np.random.default_rng([self.seed, self.position])
        self.position += 1
        return tuple(tensor(x, device=self.device) for x in self.draw(generator))

    def draw(self, generator):
        """Sample features: yield one array of shape (batch, model, feature) for each group."""
        for density, features in self.groups:
            u = generator.random((self.batch_size, len(density), features), dtype=np.float32)
            density = density.astype(np.float32)[:, None]
            yield np.where(u < density, u / density, np.float32(0)).astype(self.dtype)


class Superposition(Recipe):
    """Train toy models of superposition at several sparsities, all at once.

    Each model multiplies sparse features by a matrix W to compress them into a few dimensions,
    and reconstructs them with W^T, a bias and a ReLU. Four groups of models repeat experiments of
    the paper: 20 features in 5 dimensions with and without the ReLU, 5 features in 2 dimensions,
    and 48 features of the same importance in 12 dimensions. A feature counts as represented if
    the squared norm of its column of W is above 1/2.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Elhage et al. 2022, arXiv:2209.10652v1.
    """

    name = "superposition"
    summary = "toy models store more sparse features than dimensions"
    headline = "Toy models learn to store more sparse features than they have dimensions."
    target = Target(
        "largest difference",
        1.0,
        "features represented, difference from PyTorch",
        higher_is_better=False,
        percent=False,
    )
    unit = "examples"
    OPTIONS = (
        *common_options(
            _UNUSED, steps=4000, lr=3e-3, batch=512, weight_decay=0.0, clip=0.0, eval_every=500
        ),
        Option("restarts", 2, "Number of models per sparsity; the best model is shown."),
    )

    def prepare(self):
        """Choose the densities and importances of all models, and create the test features."""
        restarts = self.options["restarts"]
        self.densities = (
            np.repeat(1 - np.array(_SPARSITIES), restarts),
            1 - np.array(_SPARSITIES),
            np.repeat(1 - np.array(_PLANE_SPARSITIES), 2 * restarts),
            np.array(_DENSITIES),
        )
        self.features = (20, 20, 5, 48)
        self.importances = (
            0.7 ** np.arange(20), 0.7 ** np.arange(20), 0.9 ** np.arange(5), np.ones(48),
        )  # fmt: skip
        groups = list(zip(self.densities, self.features, strict=True))
        self.test = SparseFeatures(groups, 2048, dtype=self.options["dtype"])
        return {
            "name": "sparse features, generated from a seed",
            "sha256": digest(*self.densities, *self.importances),
        }

    def build(self):
        """Create the four groups of models. The second group does not have a ReLU."""
        hidden, relu = (5, 5, 2, 12), (True, False, True, True)
        sizes = zip(self.densities, self.features, hidden, relu, strict=True)
        return nn.ModuleList(ToyModels(len(density), *size) for density, *size in sizes)

    def batches(self):
        """Return batches of new features; no example occurs twice."""
        options = self.options
        return SparseFeatures(
            self.test.groups, options["batch"], options["seed"], options["device"],
            options["dtype"],
        )  # fmt: skip

    def losses(self, model, batch):
        """Return the loss of every model, one Tensor of shape (model,) for each group."""
        found = []
        for group, x, importance in zip(model, batch, self.importances, strict=True):
            weight = tensor(importance.astype(self.options["dtype"]), device=x.device)
            found.append((weight * (x - group(x)).square()).sum(-1).mean(0))  # section 2
        return found

    def loss(self, model, batch):
        """Return the sum of the losses of all models. The models do not share parameters."""
        return sum(losses.sum() for losses in self.losses(model, batch))

    def test_losses(self, model):
        """Return the losses of every model on new features, one array for each group."""
        rounds, totals = 4, [0.0] * len(model)
        with no_grad():
            for number in range(rounds):
                generator = np.random.default_rng([0, 1, number])
                drawn = self.test.draw(generator)
                batch = [tensor(x, device=self.options["device"]) for x in drawn]
                for place, losses in enumerate(self.losses(model, batch)):
                    totals[place] = totals[place] + to_host(losses.array) / rounds
        return totals

    def evaluate(self, model):
        """Return the sum of the losses of all models on features that do not occur in training."""
        return float(sum(losses.sum() for losses in self.test_losses(model)))

    # Results

    def best(self):
        """For each sparsity, keep the model with the smallest test loss among the random restarts.

        Returns
        -------
        list of array
            For each group, the matrices W of its best models, one model per sparsity. An array has
            the shape (model, hidden, feature).
        """
        losses = self.test_losses(self.model.eval())
        counts = (len(_SPARSITIES), len(_SPARSITIES), len(_PLANE_SPARSITIES), len(_DENSITIES))
        chosen = []
        for group, loss, count in zip(self.model, losses, counts, strict=True):
            W = to_host(group.W.array)
            W = W.reshape(count, -1, *W.shape[1:])  # (sparsity, restart, hidden, feature)
            chosen.append(W[np.arange(count), loss.reshape(count, -1).argmin(1)])
        return chosen

    def measure(self, metrics):
        """Return the numbers of represented features, and their largest difference from PyTorch's.

        PyTorch's numbers are in `REFERENCE`.
        """
        self.matrices = self.best()
        with_relu, linear, plane, equal = (represented(W) for W in self.matrices)
        found = dict(zip(_SPARSITIES, with_relu.tolist(), strict=True))
        groups = (
            ("features at sparsity", _SPARSITIES, with_relu),
            ("linear: features at sparsity", _SPARSITIES, linear),
            ("plane: features at sparsity", _PLANE_SPARSITIES, plane),
        )
        measured = {
            f"{label} {sparsity:g}": float(count)
            for label, sparsities, counts in groups
            for sparsity, count in zip(sparsities, counts, strict=True)
        }
        for density, W in zip(_DENSITIES, self.matrices[3], strict=True):
            per_feature = dimensions_per_feature(tensor(W)).item()
            measured[f"dimensions per feature at density {density:.3f}"] = per_feature
        differences = [abs(found[sparsity] - count) for sparsity, count in REFERENCE.items()]
        return {"largest difference": float(max(differences)), **measured}

    def show(self, page, measured):
        """Show the numbers of represented features, and three figures.

        The figures show W^T W of the models with 5 dimensions, the columns of W of the models with
        2 dimensions, and the dimensions per feature of the models with 12 dimensions.
        """
        rows = [("sparsity", "this model", "PyTorch", "without ReLU")]
        for sparsity in _SPARSITIES:
            counts = [measured[f"{kind}features at sparsity {sparsity:g}"] for kind in _KINDS]
            reference = str(REFERENCE.get(sparsity, ""))
            rows.append((f"{sparsity:g}", f"{counts[0]:.0f}", reference, f"{counts[1]:.0f}"))
        page.text("Number of features, of 20, that 5 dimensions represent:\n")
        page.table(rows)
        page.draw_loss("Toy models of superposition", what="sum of all losses", unit="")
        with_relu, linear, plane, equal = self.matrices
        self._draw_matrices(page, with_relu, linear)
        figure = page.viz.feature_directions_figure(
            list(plane),
            [f"sparsity {sparsity:g}" for sparsity in _PLANE_SPARSITIES],
            "Five features in two dimensions: the columns of W",
        )
        page.save("polygons.png", figure, "five features in two dimensions")
        figure = page.viz.dimensionality_figure(
            1 / np.array(_DENSITIES),
            [dimensions_per_feature(tensor(W)).item() for W in equal],
            [feature_dimensionality(tensor(W)).numpy() for W in equal],
            "48 features of the same importance in 12 dimensions",
        )
        page.save("dimensions.png", figure, "dimensions per feature, by sparsity")
        return True

    def _draw_matrices(self, page, with_relu, linear):
        """Plot W^T W and the feature norms of the linear model and of the models with a ReLU."""
        matrices = [linear[0], *with_relu]
        counts = map(represented, matrices)
        captions = ["linear model", *(f"sparsity {sparsity:g}" for sparsity in _SPARSITIES)]
        figure = page.viz.superposition_figure(
            matrices,
            [interference(tensor(W)).numpy() for W in matrices],
            [f"{name}\n{n} of 20" for name, n in zip(captions, counts, strict=True)],
            "20 features in 5 dimensions: sparser features, more of them represented",
        )
        page.save("superposition.png", figure, "W^T W and the norms of the features, by sparsity")

    def model_text(self):
        """Describe the toy models."""
        parameters = sum(parameter.array.size for parameter in self.model.parameters())
        return f"{sum(map(len, self.densities))} toy models: {parameters:,} parameters"

    def last_words(self, folder):
        """Suggest which files to look at and read next."""
        return (
            f"Look at {folder / 'superposition.png'}, then read\n"
            "minitorch_attn/models/superposition.py and lesson 37."
        )


_KINDS = ("", "linear: ")


def represented(W):
    """Count the represented features: those whose column has a squared norm above 1/2.

    Parameters
    ----------
    W : array of shape (..., hidden, feature)

    Returns
    -------
    int64 array of shape (...)

    Examples
    --------
    >>> int(represented(np.array([[1.0, 0.0, 0.6], [0.0, 0.9, 0.0]])))
    2
    """
    return ((W**2).sum(-2) > 0.5).sum(-1)
