"""Toy models of superposition: models that store more sparse features than they have dimensions.

Elhage et al. 2022, "Toy Models of Superposition", arXiv:2209.10652v1. A linear map compresses many
features into few dimensions. The transpose of this map, followed by a ReLU, reconstructs the
features. If the features are dense, the model stores only the most important features. If the
features are sparse, it stores more features than it has dimensions, because the ReLU removes the
interference between features that rarely occur together. The stored features point to the corners
of regular polygons and polytopes. The equations of the paper are not numbered, so this file cites
sections.
"""

import math

from .. import nn, ops
from ..errors import ShapeError
from ..nn.checks import check_sizes
from ..tensor import tensor

__all__ = [
    "ToyModel",
    "ToyModels",
    "dimensions_per_feature",
    "feature_dimensionality",
    "importance_loss",
    "interference",
    "phase",
    "phase_losses",
    "polygon",
    "sample_features",
]


class ToyModel(nn.Module):
    """Toy model that compresses features to a few dimensions and reconstructs them.

    Parameters
    ----------
    num_features : int
        Number n of features.
    hidden_dim : int
        Number m of dimensions. In the paper, m is less than n.
    relu : bool, default True
        Whether to apply a ReLU to the output. Without it, the model is linear and never uses
        superposition.

    Attributes
    ----------
    W : Parameter of shape (hidden, feature)
        Column i is the direction of feature i.
    b : Parameter of shape (feature,)

    Notes
    -----
    Section 2: h = W x and x' = ReLU(W' h + b), where W' is the transpose of W.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ToyModel(num_features=5, hidden_dim=2)
    >>> model(mt.zeros(7, 5)).shape, model.hidden(mt.zeros(7, 5)).shape
    ((7, 5), (7, 2))
    """

    def __init__(self, num_features, hidden_dim, relu=True):
        super().__init__()
        check_sizes("ToyModel", num_features=num_features, hidden_dim=hidden_dim)
        self.num_features, self.hidden_dim, self.relu = num_features, hidden_dim, relu
        self.W = nn.Parameter(ops.empty(hidden_dim, num_features))
        self.b = nn.Parameter(ops.zeros(num_features))
        nn.init.xavier_normal_(self.W)

    def hidden(self, x):
        """Return h = W x, of shape (..., hidden), for features x of shape (..., feature)."""
        if x.shape[-1:] != (self.num_features,):
            raise ShapeError(
                "ToyModel: x has the wrong number of features",
                got=f"{x.shape}",
                expected=f"(..., {self.num_features})",
            )
        return x @ self.W.T

    def forward(self, x):
        """Return the reconstruction x' of x, with the same shape (..., feature) as x."""
        output = self.hidden(x) @ self.W + self.b
        return ops.relu(output) if self.relu else output

    def extra_repr(self):
        return f"{self.num_features}, {self.hidden_dim}, relu={self.relu}"


class ToyModels(nn.Module):
    """Several toy models of the same size, computed at once with batched products.

    The models do not share parameters. The paper's experiments train one model for each sparsity.
    This class trains all of these models together.

    Parameters
    ----------
    num_models : int
    num_features, hidden_dim, relu
        See `ToyModel`.

    Attributes
    ----------
    W : Parameter of shape (model, hidden, feature)
    b : Parameter of shape (model, feature)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> models = ToyModels(3, num_features=5, hidden_dim=2)
    >>> models(mt.zeros(7, 3, 5)).shape
    (7, 3, 5)
    """

    def __init__(self, num_models, num_features, hidden_dim, relu=True):
        super().__init__()
        sizes = dict(num_models=num_models, num_features=num_features, hidden_dim=hidden_dim)
        check_sizes("ToyModels", **sizes)
        self.num_models, self.num_features, self.relu = num_models, num_features, relu
        self.W = nn.Parameter(ops.empty(num_models, hidden_dim, num_features))
        self.b = nn.Parameter(ops.zeros(num_models, num_features))
        std = math.sqrt(2 / max(hidden_dim + num_features, 1))  # xavier_normal_ for each model
        nn.init.normal_(self.W, std=std)

    def forward(self, x):
        """Return the reconstructions x' (batch, model, feature) of x (batch, model, feature)."""
        if x.ndim != 3 or x.shape[1:] != self.b.shape:
            raise ShapeError(
                "ToyModels: x has the wrong shape",
                got=f"{x.shape}",
                expected=f"(batch, {self.num_models}, {self.num_features})",
            )
        hidden = x.transpose(0, 1) @ self.W.transpose(1, 2)  # (model, batch, hidden)
        output = (hidden @ self.W).transpose(0, 1) + self.b  # (batch, model, feature)
        return ops.relu(output) if self.relu else output

    def extra_repr(self):
        hidden = self.W.shape[1]
        return f"{self.num_models}, {self.num_features}, {hidden}, relu={self.relu}"


def sample_features(batch, num_features, density, dtype=None, device=None, generator=None):
    """Sample sparse features. Each is 0 with probability 1 - density, else uniform in [0, 1).

    Parameters
    ----------
    batch, num_features : int
    density : float
        Probability 1 - S that a feature is present. See section 2.
    dtype, device, generator : optional
        See `rand`.

    Returns
    -------
    Tensor of shape (batch, feature)

    Examples
    --------
    >>> sample_features(3, 2, density=0.0)
    tensor([[0., 0.],
            [0., 0.],
            [0., 0.]])
    """
    options = dict(dtype=dtype, device=device, generator=generator)
    values = ops.rand(batch, num_features, **options)
    present = ops.rand(batch, num_features, **options) < density
    return ops.where(present, values, 0.0)


def importance_loss(output, x, importance):
    """Return the squared error of the reconstruction, weighted by each feature's importance.

    Parameters
    ----------
    output, x : Tensor of shape (..., feature)
        Reconstruction x' and features x.
    importance : Tensor of shape (feature,)
        Weight I_i of each feature.

    Returns
    -------
    Tensor of shape ()
        Mean over the examples of sum_i I_i (x_i - x'_i)^2 (section 2).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> importance_loss(mt.zeros(2, 2), mt.tensor([[1.0, 2.0], [0.0, 0.0]]), mt.tensor([1.0, 0.5]))
    tensor(1.5)
    """
    if output.shape != x.shape:
        raise ShapeError(
            "importance_loss: output and x must have the same shape",
            got=f"output {output.shape} and x {x.shape}",
        )
    return (importance * (x - output).square()).sum(-1).mean()


def dimensions_per_feature(W):
    """Return the number of dimensions per learned feature, `m / norm(W)^2` (Frobenius norm).

    Parameters
    ----------
    W : Tensor of shape (hidden, feature)

    Returns
    -------
    Tensor of shape ()

    Notes
    -----
    Section 4 of the paper calls this number D*. The norm of a column is about 1 if its feature is
    learned and about 0 otherwise, so norm(W)^2 is about the number of learned features.

    Examples
    --------
    >>> dimensions_per_feature(polygon(4))
    tensor(0.5)
    """
    return W.shape[-2] / W.square().sum()


def feature_dimensionality(W):
    """Return the dimensionality of each feature: the fraction of a dimension that it uses.

    Parameters
    ----------
    W : Tensor of shape (hidden, feature)

    Returns
    -------
    Tensor of shape (feature,)
        D_i = norm(W_i)^2 / sum_j (u_i . W_j)^2, where W_i is column i of W, and
        u_i = W_i / norm(W_i). D_i is 1 for a feature that is orthogonal to all others, 1/2 for each
        of two opposite features, and 0 for a feature that is not learned (a column of zeros).

    Notes
    -----
    Section 4 of the paper defines D_i. The sum of all D_i is at most the number of dimensions.

    Examples
    --------
    >>> feature_dimensionality(polygon(5))
    tensor([0.4, 0.4, 0.4, 0.4, 0.4])
    """
    squared_norm = W.square().sum(-2)  # (feature,)
    learned = squared_norm > 0
    shared = ops.where(learned, _squared_overlaps(W).sum(-1), 1.0)
    return ops.where(learned, squared_norm / shared, 0.0)


def interference(W):
    """Return the interference of each feature i: the sum over j != i of (u_i . W_j)^2.

    Here W_i is column i of W, and u_i = W_i / norm(W_i). The interference is 0 for a feature that
    is orthogonal to all others, and 1 for each of two opposite features of norm 1 that are
    orthogonal to all others. The paper colors features by their interference (section 2).

    Parameters
    ----------
    W : Tensor of shape (hidden, feature)

    Returns
    -------
    Tensor of shape (feature,)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> interference(mt.tensor([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]))
    tensor([1., 1., 0.])
    """
    others = ops.eye(W.shape[-1], dtype=W.dtype, device=W.device) == 0
    return ops.where(others, _squared_overlaps(W), 0.0).sum(-1)


def _squared_overlaps(W):
    """Return the matrix of all (u_i . W_j)^2, where W_i is column i of W and u_i = W_i / norm(W_i).

    Row i is 0 if column i of W is 0.
    """
    squared_norm = W.square().sum(-2)
    norm = ops.where(squared_norm > 0, squared_norm, 1.0).sqrt()
    return ((W / norm).T @ W).square()  # (feature, feature)


def polygon(num_features):
    """Return feature directions W that form a regular polygon.

    Toy models with two dimensions learn such directions.

    Parameters
    ----------
    num_features : int
        Number of features, which point to the corners of the polygon. Two features are opposite;
        five form the pentagon in the paper's introduction.

    Returns
    -------
    Tensor of shape (2, num_features)

    Examples
    --------
    >>> feature_dimensionality(polygon(3))
    tensor([0.6667, 0.6667, 0.6667])
    """
    check_sizes("polygon", num_features=num_features)
    angles = [2 * math.pi * i / max(num_features, 1) for i in range(num_features)]
    return tensor([[math.cos(a) for a in angles], [math.sin(a) for a in angles]])


def phase_losses(density, importance):
    """Return the expected losses of three ways to store two features in one dimension: the phases.

    Parameters
    ----------
    density : Tensor
        Probability p = 1 - S that a feature is present.
    importance : Tensor that broadcasts with `density`
        Importance r of the second feature. The importance of the first feature is 1.

    Returns
    -------
    Tensor of shape (*broadcast, 3)
        The losses of three solutions, along the last axis: the second feature is dropped, both
        features are stored in superposition, or the first feature is dropped. The other axes have
        the broadcast shape of `density` and `importance`.

    Notes
    -----
    This is the case n = 2, m = 1 of section 3, "Superposition as a Phase Change". With density p,
    the features that `sample_features` draws have the moments E[x] = p/2 and E[x^2] = p/3. The
    error of the second feature counts r times.

    * W = [1, 0] reconstructs the first feature without error. The best constant output for the
      second feature is its mean. The error is then its variance, and the loss is
      r (p/3 - p^2/4). For W = [0, 1], the loss is p/3 - p^2/4.
    * W = [1, -1] with b = 0 outputs relu(x_1 - x_2) and relu(x_2 - x_1). Both outputs are exact
      unless both features are present (probability p^2). In that case, both errors are
      min(x_1, x_2), whose mean square is 1/6. The loss is (1 + r) p^2/6.

    Each loss is quadratic in p. Where a different solution becomes the best one, the smallest of
    the three losses has a kink: a first-order phase change.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> phase_losses(mt.tensor(1.0), mt.tensor(0.5))
    tensor([0.0417, 0.25  , 0.0833])
    """
    variance = density / 3 - density.square() / 4
    antipodal = (1 + importance) * density.square() / 6
    drop_second, antipodal, drop_first = ops.broadcast_tensors(
        importance * variance, antipodal, variance
    )
    return ops.stack([drop_second, antipodal, drop_first], -1)


def phase(density, importance):
    """Return the phase: which of the three solutions of `phase_losses` has the smallest loss.

    Parameters
    ----------
    density, importance : Tensor
        See `phase_losses`.

    Returns
    -------
    int64 Tensor with the broadcast shape of `density` and `importance`
        0: the second feature is dropped; 1: superposition; 2: the first feature is dropped.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> phase(mt.tensor([1.0, 0.1]).unsqueeze(1), mt.tensor([0.5, 1.0, 2.0]))
    tensor([[0, 0, 2],
            [1, 1, 1]])
    """
    return phase_losses(density, importance).argmin(-1)
