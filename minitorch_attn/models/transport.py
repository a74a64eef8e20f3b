"""Optimal transport between the words of a sentence and the regions of an image, by IPOT.

UNITER uses optimal transport to align words and regions (Chen et al. 2020, arXiv:1909.11740v3,
section 3.2). IPOT is the inexact proximal point method of Xie et al. 2018, arXiv:1802.04307v3,
Algorithm 1.
"""

from .. import ops
from ..autograd.modes import no_grad
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..nn.functional import normalize

__all__ = ["cosine_cost", "transport_plan", "word_region_alignment"]


def cosine_cost(words, regions):
    """Return 1 minus the cosine similarity of each word vector with each region vector.

    Parameters
    ----------
    words : Tensor of shape (batch, word, embed)
    regions : Tensor of shape (batch, region, embed)

    Returns
    -------
    Tensor of shape (batch, word, region)
        Values between 0 (same direction) and 2 (opposite directions); 1 for a zero vector.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cosine_cost(mt.tensor([[[2.0, 0.0]]]), mt.tensor([[[3.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]]))
    tensor([[[0., 1., 2.]]])
    """
    words, regions = normalize(words, dim=-1), normalize(regions, dim=-1)
    return 1 - words @ regions.transpose(1, 2)  # (batch, word, region)


@computes("optimal transport")
def transport_plan(
    cost, word_padding_mask=None, region_padding_mask=None, beta=0.5, iterations=50, inner=1
):
    r"""Return the transport plan that moves mass from words to regions at the smallest cost.

    Parameters
    ----------
    cost : Tensor of shape (batch, word, region)
        Cost of moving a unit of mass from a word to a region.
    word_padding_mask, region_padding_mask : bool Tensor of shape (batch, word) or (batch, region)
        True for padding. Default: no padding.
    beta : float, default 0.5
        Step size of the proximal point method. Smaller values converge faster. Below about 0.02,
        exp(-cost / beta) can underflow in float32.
    iterations : int, default 50
        Number of proximal steps.
    inner : int, default 1
        Number of times that the rows and columns are scaled in each step.

    Returns
    -------
    Tensor of shape (batch, word, region)
        The plan T, without a gradient. With m words and n regions that are not padding, each row
        sums to about 1/m, and each column to about 1/n. The plan is 0 at padding.

    Notes
    -----
    Algorithm 1 of Xie et al. 2018 [1]_. Each step minimizes the cost of the plan plus beta times
    its Kullback-Leibler divergence from the previous plan T (A * T is an elementwise product):
        A = exp(-cost / beta)
        Q = A * T
        delta = 1 / (n Q^T sigma)
        sigma = 1 / (m Q delta)
        T = diag(sigma) Q diag(delta)
    There are m words and n regions. In the first step, all entries of T are 1, and those of sigma
    are 1/m. The vectors sigma and delta scale the rows and columns of Q. At convergence, the plan
    no longer changes, so its divergence from the *previous* plan is 0. Only the cost remains, so
    the result is the exact optimum for any beta. In contrast, Sinkhorn's algorithm always rewards a
    high entropy, so its plan remains spread over many entries.

    References
    ----------
    .. [1] Xie et al. 2018, "A Fast Proximal Point Method for Computing Exact Wasserstein Distance",
       arXiv:1802.04307v3, section 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> plan = transport_plan(mt.tensor([[[0.0, 1.0], [1.0, 0.5]]]))
    >>> (plan * 100).round()
    tensor([[[50.,  0.],
             [ 0., 50.]]])
    """
    _check_settings(beta, iterations, inner)
    word = _real("word_padding_mask", word_padding_mask, cost, 1)
    region = _real("region_padding_mask", region_padding_mask, cost, 2)
    with no_grad():
        m, n = word.sum(1, keepdim=True), region.sum(2, keepdim=True)  # each (batch, 1, 1)
        word, region = word * (n > 0), region * (m > 0)  # no words or no regions: a plan of 0
        plan = (word * region).expand(cost.shape)  # T = 1
        kernel = ops.exp(-cost / beta) * plan  # A (batch, word, region)
        sigma = _divided(word, m)  # (batch, word, 1)
        for _ in range(iterations):
            q = kernel * plan
            for _ in range(inner):
                delta = _divided(region, n * (q * sigma).sum(1, keepdim=True))  # (batch, 1, region)
                sigma = _divided(word, m * (q * delta).sum(2, keepdim=True))  # (batch, word, 1)
            plan = sigma * q * delta
        return plan


@computes("optimal transport")
@names_arguments
def word_region_alignment(
    words, regions, word_padding_mask=None, region_padding_mask=None, beta=0.5, iterations=50,
    inner=1,
):  # fmt: skip
    r"""Compute UNITER's alignment loss: the optimal transport distance from words to regions.

    Parameters
    ----------
    words : Tensor of shape (batch, word, embed)
        Vectors of the words, usually from the last layer.
    regions : Tensor of shape (batch, region, embed)
    word_padding_mask, region_padding_mask, beta, iterations, inner
        See `transport_plan`.

    Returns
    -------
    distance : Tensor of shape (batch,)
        0 for a sentence without words or an image without regions.
    plan : Tensor of shape (batch, word, region)
        See `transport_plan`.

    Notes
    -----
    Eq. 3 of Chen et al. 2020 [1]_: the distance is min_T sum_ij T_ij c(w_i, v_j), with the cost c
    of `cosine_cost`.

    The gradient treats the plan as a constant: d distance / d cost_ij = T_ij. At the optimum,
    this is the exact derivative (envelope theorem). The plan minimizes sum_ij T_ij c(w_i, v_j), so
    a small change of the plan does not change this sum to first order. Differentiating through the
    iterations would require keeping all their intermediate results in memory.

    References
    ----------
    .. [1] Chen et al. 2020, "UNITER: UNiversal Image-TExt Representation Learning",
       arXiv:1909.11740v3, section 3.2, "Word-Region Alignment".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> words = mt.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    >>> distance, plan = word_region_alignment(words, words.flip(1))
    >>> round(distance.item(), 4), (plan * 100).round().tolist()
    (0.0, [[[0.0, 50.0], [50.0, 0.0]]])
    """
    if words.ndim != 3 or regions.ndim != 3 or words.shape[::2] != regions.shape[::2]:
        raise ShapeError(
            "word_region_alignment: the shapes of words and regions do not match",
            got=f"words {words.shape}, regions {regions.shape}",
            expected="(batch, word, embed) and (batch, region, embed)",
        )
    cost = cosine_cost(words, regions)
    plan = transport_plan(cost, word_padding_mask, region_padding_mask, beta, iterations, inner)
    return (plan * cost).sum((1, 2)), plan


def _divided(numerator, denominator):
    """Return numerator / denominator, or 0 where the numerator is 0, as it is for padding."""
    real = numerator != 0
    return ops.where(real, numerator / ops.where(real, denominator, 1.0), 0.0)


def _real(name, padding_mask, cost, axis):
    """Return a mask that broadcasts to the cost: 1 for words or regions, 0 for padding."""
    shape = (cost.shape[0], cost.shape[axis])
    if padding_mask is None:
        real = ops.ones(shape, dtype=cost.dtype, device=cost.device)
    elif padding_mask.shape == shape and padding_mask.dtype.kind == "b":
        real = (~padding_mask).to(cost.dtype)
    else:
        raise ShapeError(
            f"{name} must be bool, with one entry for each {name.split('_')[0]}",
            got=f"{padding_mask.dtype} {padding_mask.shape}", expected=f"bool {shape}",
        )  # fmt: skip
    return real.unsqueeze(3 - axis)


def _check_settings(beta, iterations, inner):
    if not (beta > 0 and iterations >= 1 and inner >= 1):
        raise ArgumentError(
            "transport_plan: beta, iterations and inner must be positive",
            got=f"beta={beta}, iterations={iterations}, inner={inner}",
        )
