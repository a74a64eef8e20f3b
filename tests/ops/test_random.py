"""Random numbers: their distribution, the seed, and what is refused."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import MiniTorchError

DRAWS = {
    "rand": lambda: mt.rand(5, 3),
    "randn": lambda: mt.randn(5, 3),
    "randint": lambda: mt.randint(0, 9, (5, 3)),
    "randperm": lambda: mt.randperm(11),
    "normal": lambda: mt.normal(0.0, 1.0, (5, 3)),
    "bernoulli": lambda: mt.bernoulli(mt.full((17,), 0.5)),
    "multinomial": lambda: mt.multinomial(mt.ones(13), 7),
    "rand_like": lambda: mt.rand_like(mt.ones(5, 3)),
    "randn_like": lambda: mt.randn_like(mt.ones(5, 3)),
    "randint_like": lambda: mt.randint_like(mt.ones(5, 3), 9),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_repeats_the_numbers(name):
    mt.manual_seed(5)
    first, second = DRAWS[name](), DRAWS[name]()
    mt.manual_seed(5)
    again = DRAWS[name]()
    assert first.tolist() == again.tolist() != second.tolist()


def test_normal_has_the_mean_and_deviation_of_each_element(device):
    mean = mt.tensor([[1.0], [-2.0]], device=device)
    std = mt.tensor([0.0, 0.5, 3.0], device=device)
    x = mt.stack([mt.normal(mean, std) for _ in range(4000)])
    assert x.shape == (4000, 2, 3) and x.device == mean.device
    np.testing.assert_allclose(x.numpy().mean(0), np.broadcast_to(mean.numpy(), (2, 3)), atol=0.2)
    np.testing.assert_allclose(x.numpy().std(0), np.broadcast_to(std.numpy(), (2, 3)), atol=0.15)
    assert mt.normal(2.0, 0.0, size=(0, 3)).shape == (0, 3)
    assert mt.normal(mt.tensor([1.0, 2.0], dtype="float64")).dtype == np.float64


def test_bernoulli_draws_with_its_probabilities(device):
    p = mt.tensor([0.0, 0.2, 0.9, 1.0], dtype="float64", device=device)
    x = mt.stack([mt.bernoulli(p) for _ in range(4000)])
    assert x.dtype == np.float64 and set(np.unique(x.numpy())) == {0.0, 1.0}
    np.testing.assert_allclose(x.numpy().mean(0), p.numpy(), atol=0.03)
    assert mt.bernoulli(mt.zeros(3), 1.0).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_draws_in_proportion_to_the_weights(replacement, device):
    weights = mt.tensor([[1.0, 0.0, 3.0, 4.0], [2.0, 2.0, 0.0, 0.0]], device=device)
    first = mt.stack([mt.multinomial(weights, 2, replacement)[:, 0] for _ in range(6000)]).numpy()
    for row, w in enumerate(weights.numpy()):
        share = np.bincount(first[:, row], minlength=4) / len(first)
        np.testing.assert_allclose(share, w / w.sum(), atol=0.03)


def test_multinomial_without_replacement_draws_each_index_once():
    weights = mt.tensor([0.1, 5.0, 0.0, 2.0, 1e-30])
    for _ in range(50):
        assert sorted(mt.multinomial(weights, 4).tolist()) == [0, 1, 3, 4]
    second = [tuple(mt.multinomial(mt.tensor([1.0, 2.0, 3.0]), 2).tolist()) for _ in range(6000)]
    # P(1 then 2) = 2/6 * 3/4
    assert abs(sum(pair == (1, 2) for pair in second) / 6000 - 0.25) < 0.03
    assert mt.multinomial(mt.ones(2, 3), 0).shape == (2, 0)
    assert mt.multinomial(mt.ones(0, 3), 2).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mt.randint(5, 2, (2,)), "randint: low must be less than high"),
        (lambda: mt.randint(0, (2,)), "randint: low must be less than high"),
        (lambda: mt.randint(0, 5, (-2,)), "randint: size must not be negative"),
        (lambda: mt.randperm(-1), "randperm: n must not be negative"),
        (lambda: mt.rand(2, dtype="int64"), "rand: dtype must be a floating-point dtype"),
        (lambda: mt.normal(0.0, 1.0), "normal: size is missing"),
        (lambda: mt.normal(0.0, -1.0, (2,)), "normal: std must not be negative"),
        (lambda: mt.normal(mt.ones(2), mt.tensor([1.0, -1.0])), "normal: std must not be"),
        (lambda: mt.bernoulli(mt.tensor([0.5, 1.5])), r"bernoulli: input must lie in \[0, 1\]"),
        (lambda: mt.bernoulli(mt.tensor([float("nan")])), "bernoulli: input must lie"),
        (lambda: mt.bernoulli(mt.ones(2), 2.0), r"bernoulli: p must lie in \[0, 1\]"),
        (lambda: mt.multinomial(mt.tensor([1.0, -1.0]), 1), "multinomial: the weights of each row"),
        (lambda: mt.multinomial(mt.tensor([0.0, 0.0]), 1), "multinomial: the weights of each row"),
        (
            lambda: mt.multinomial(mt.tensor([1.0, float("inf")]), 1),
            "multinomial: the weights of each row",
        ),
        (lambda: mt.multinomial(mt.tensor([1, 2]), 1), "multinomial: input must be a floating"),
        (lambda: mt.multinomial(mt.tensor([1.0, 0.0]), 2), "multinomial: num_samples exceeds"),
        (lambda: mt.multinomial(mt.ones(2, 2, 2), 1), "multinomial: input must have one or two"),
        (lambda: mt.multinomial(mt.ones(2, 0), 1), "multinomial: input must have one or two"),
        (lambda: mt.multinomial(mt.ones(3), -1), "multinomial: num_samples must not be"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, words):
    with pytest.raises(MiniTorchError, match=words):
        call()


@pytest.mark.parametrize(
    ("fill", "mean", "std"),
    [
        (lambda x: x.uniform_(), 0.5, 12**-0.5), (lambda x: x.uniform_(-3, 1), -1.0, 4 * 12**-0.5),
        (lambda x: x.normal_(), 0.0, 1.0), (lambda x: x.normal_(2.0, 0.5), 2.0, 0.5),
        (lambda x: x.bernoulli_(0.25), 0.25, 0.75**0.5 * 0.5),
    ],
)  # fmt: skip
def test_filling_in_place(fill, mean, std, device):
    x = mt.zeros(100, 100, device=device, requires_grad=True)
    with mt.no_grad():
        assert fill(x) is x
    values = x.detach().numpy()
    assert abs(values.mean() - mean) < 0.05 and abs(values.std() - std) < 0.05
    first = values.copy()
    for _ in range(2):
        generator = mt.Generator().manual_seed(3)
        y = mt.zeros(2).uniform_(generator=generator)
        assert y.tolist() == mt.zeros(2).uniform_(generator=mt.Generator().manual_seed(3)).tolist()
    assert first.shape == (100, 100)


def test_filling_refuses_what_it_cannot_do():
    with pytest.raises(MiniTorchError, match="low must not be greater than high"):
        mt.zeros(2).uniform_(1.0, 0.0)
    with pytest.raises(MiniTorchError, match="floating-point dtype"):
        mt.zeros(2, dtype="int64").uniform_()
    with pytest.raises(MiniTorchError, match="std must not be negative"):
        mt.zeros(2).normal_(0.0, -1.0)
    with pytest.raises(MiniTorchError, match="leaf"):
        mt.zeros(2, requires_grad=True).uniform_()
