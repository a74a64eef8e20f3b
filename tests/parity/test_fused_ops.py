"""Softmax, norms, losses and attention against PyTorch, forward and backward, on random cases."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

import minitorch_attn as mt
from minitorch_attn.nn import functional as F

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.parity
seeds = st.integers(0, 10**6)
dtypes = st.sampled_from(["float64", "float32"])
drawn = settings(deadline=None, max_examples=60)


class Both:
    """The same arrays for both libraries, and the comparison of what comes out."""

    def __init__(self, device, seed, dtype):
        self.device, self.dtype = device, dtype
        self.rng = np.random.default_rng(seed)
        self.leaves = []

    def leaf(self, *shape, size=2.0, low=None):
        """A floating-point tensor with a gradient, as (ours, theirs)."""
        low = -size if low is None else low
        host = self.rng.uniform(low, size, shape).astype(self.dtype)
        pair = self.pair(host)
        for x in pair:
            x.requires_grad_()
        self.leaves.append(pair)
        return pair

    def pair(self, host):
        """A constant, as (ours, theirs)."""
        return mt.tensor(host, device=self.device), torch.tensor(host)

    def check(self, ours, theirs):
        """Equal results, and after a random cotangent equal gradients."""
        tight = self.dtype == "float64"
        options = {"rtol": 1e-9, "atol": 1e-10} if tight else {"rtol": 2e-4, "atol": 2e-5}
        got, expected = ours.numpy(), theirs.detach().numpy()
        assert got.shape == expected.shape and got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, **options)
        cotangent = self.rng.standard_normal(got.shape).astype(self.dtype)
        ours.backward(mt.tensor(cotangent, device=self.device))
        theirs.backward(torch.tensor(cotangent))
        for x, y in self.leaves:
            expected = np.zeros(x.shape) if y.grad is None else y.grad.numpy()
            got = np.zeros(x.shape) if x.grad is None else x.grad.numpy()
            np.testing.assert_allclose(got, expected, **options)


@drawn
@given(
    shape=array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=5),
    axis=st.integers(0, 3),
    size=st.sampled_from([1.0, 30.0, 1e4]),
    function=st.sampled_from(["softmax", "log_softmax", "softmin", "logsumexp"]),
    dtype=dtypes,
    seed=seeds,
)
def test_softmax_family(device, shape, axis, size, function, dtype, seed):
    both = Both(device, seed, dtype)
    ours, theirs = both.leaf(*shape, size=size)
    axis %= max(len(shape), 1)
    if function == "logsumexp":
        both.check(mt.logsumexp(ours, axis), torch.logsumexp(theirs, axis))
    else:
        reference = getattr(torch.nn.functional, function)(theirs, dim=axis)
        both.check(getattr(F, function)(ours, dim=axis), reference)


@drawn
@given(
    lead=st.lists(st.integers(0, 4), max_size=2),
    row=st.lists(st.integers(1, 6), min_size=1, max_size=2),
    affine=st.sampled_from(["none", "weight", "both"]),
    eps=st.sampled_from([1e-5, 1e-2]),
    function=st.sampled_from(["layer_norm", "rms_norm"]),
    dtype=dtypes,
    seed=seeds,
)
def test_norms(device, lead, row, affine, eps, function, dtype, seed):
    # A row of one normalises to 0, one of two to -1 and 1 nearly whatever it holds: the gradient
    # is what rounding leaves of a difference, times up to 1/sqrt(eps).
    assume(dtype == "float64" or math.prod(row) > 2)
    both = Both(device, seed, dtype)
    count = {"none": 0, "weight": 1, "both": 2 if function == "layer_norm" else 1}[affine]
    ours, theirs = both.leaf(*lead, *row)
    more = [both.leaf(*row) for _ in range(count)]
    both.check(
        getattr(F, function)(ours, tuple(row), *(a for a, _ in more), eps=eps),
        getattr(torch.nn.functional, function)(theirs, tuple(row), *(b for _, b in more), eps=eps),
    )


@drawn
@given(
    batch=st.integers(1, 5),
    classes=st.integers(1, 6),
    more=st.lists(st.integers(1, 3), max_size=2),
    batched=st.booleans(),
    soft=st.booleans(),
    weighted=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1, 1.0]),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    size=st.sampled_from([1.0, 1e4]),
    dtype=dtypes,
    seed=seeds,
)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")  # all ignored
def test_cross_entropy(device, batch, classes, more, batched, soft, weighted, smoothing, reduction,
                       size, dtype, seed):  # fmt: skip
    both = Both(device, seed, dtype)
    shape = (batch, classes, *more) if batched else (classes,)
    ours, theirs = both.leaf(*shape, size=size)
    weight = (None, None)
    if weighted:
        weight = both.pair(both.rng.uniform(0.1, 2, classes).astype(dtype))
    options = {"reduction": reduction, "label_smoothing": smoothing}
    if soft:
        target = both.leaf(*shape, size=1.0, low=0.0)
    else:
        target = both.pair(both.rng.integers(0, classes, (batch, *more) if batched else ()))
        options["ignore_index"] = int(both.rng.integers(0, 6))
    both.check(
        F.cross_entropy(ours, target[0], weight[0], **options),
        torch.nn.functional.cross_entropy(theirs, target[1], weight[1], **options),
    )


@drawn
@given(
    shape=array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4),
    function=st.sampled_from(
        ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
         "binary_cross_entropy_with_logits", "kl_div"]
    ),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    width=st.sampled_from([0.1, 1.0, 3.0]),
    weighted=st.booleans(),
    dtype=dtypes,
    seed=seeds,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:reduction")
def test_losses_between_numbers(device, shape, function, reduction, width, weighted, dtype, seed):
    both = Both(device, seed, dtype)
    probability = {"size": 0.95, "low": 0.05}
    input = both.leaf(*shape, **(probability if function == "binary_cross_entropy" else {}))
    target = both.leaf(*shape, **probability)
    options = [{"reduction": reduction}, {"reduction": reduction}]
    if function == "huber_loss":
        options = [{**o, "delta": width} for o in options]
    if function == "smooth_l1_loss":
        options = [{**o, "beta": width} for o in options]
    if weighted and function not in ("smooth_l1_loss", "kl_div"):
        weight = both.pair(both.rng.uniform(0.1, 2, shape).astype(dtype))
        options = [{**o, "weight": w} for o, w in zip(options, weight, strict=True)]
    both.check(
        getattr(F, function)(input[0], target[0], **options[0]),
        getattr(torch.nn.functional, function)(input[1], target[1], **options[1]),
    )


def drawn_mask(both, kind, batch, heads, queries, keys):
    """A mask of one of the kinds, as (ours, theirs)."""
    rng = both.rng
    lead = {"full": (batch, heads), "per batch": (batch, 1), "plain": ()}[rng.choice(
        ["full", "per batch", "plain"])]  # fmt: skip
    shape = (*lead, rng.choice([1, queries]), rng.choice([1, keys]))
    if kind == "bool":
        return both.pair(rng.random(shape) < 0.6)
    if kind == "float":
        return both.leaf(*shape)
    return both.pair(np.where(rng.random(shape) < 0.6, 0, -np.inf).astype(both.dtype))


@settings(deadline=None, max_examples=150)
@given(
    batch=st.integers(1, 3),
    groups=st.integers(1, 3),
    per_group=st.integers(1, 3),
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    dim=st.integers(1, 5),
    value_dim=st.integers(1, 5),
    mask=st.sampled_from([None, "causal", "bool", "float", "-inf"]),
    scale=st.sampled_from([None, 0.3, 2.0]),
    size=st.sampled_from([1.0, 60.0]),
    dtype=dtypes,
    seed=seeds,
)
def test_attention(device, batch, groups, per_group, queries, keys, dim, value_dim, mask, scale,
                   size, dtype, seed):  # fmt: skip
    both = Both(device, seed, dtype)
    heads = groups * per_group
    if dtype == "float32":
        size = 1.0  # rounding of large scores is another one in each library
    inputs = [
        both.leaf(batch, heads, queries, dim, size=size),
        both.leaf(batch, groups, keys, dim, size=size),
        both.leaf(batch, groups, keys, value_dim),
    ]
    options = {"scale": scale, "enable_gqa": per_group > 1, "is_causal": mask == "causal"}
    masks = (None, None)
    if mask not in (None, "causal"):
        masks = drawn_mask(both, mask, batch, heads, queries, keys)
    both.check(
        F.scaled_dot_product_attention(*(a for a, _ in inputs), masks[0], **options),
        torch.nn.functional.scaled_dot_product_attention(
            *(b for _, b in inputs), masks[1], **options
        ),
    )
