"""word2vec: losses against loops and against word2vec.c's tree, gradients, tables."""

import heapq
import itertools
import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.autograd import gradcheck_module
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError
from minitorch_attn.models import CBOW, HierarchicalSoftmax, SkipGram
from minitorch_attn.models.word2vec import (
    discard_probability,
    huffman_codes,
    noise_distribution,
)

COUNTS = [3, 40, 11, 2, 11, 5, 1]


class Loss(nn.Module):
    """A model whose output is one of its losses."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *inputs):
        return getattr(self.model, self.loss)(*inputs)


def randomised(model, rng, device="cpu"):
    """The model in float64, with all vectors drawn anew: half of them start at 0."""
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.normal(size=parameter.shape))
    return model.double().to(device)


def words(rng, device, *shape, high=7):
    return mt.tensor(rng.integers(0, high, shape), device=device)


def log_sigmoid(x):
    return -math.log1p(math.exp(-x))


def plain_negative_sampling(vectors, output, positives, negatives):
    """Eq. 4 word by word."""
    total = 0.0
    for vector, positive, row in zip(vectors, positives, negatives, strict=True):
        total += log_sigmoid(output[positive] @ vector)
        total += sum(log_sigmoid(-(output[negative] @ vector)) for negative in row)
    return -total / len(vectors)


def create_binary_tree(counts):
    """`CreateBinaryTree` of word2vec.c, line by line, for counts that fall: [(code, point)]."""
    size = len(counts)
    count = [*counts, *[10**15] * size]
    binary, parent = [0] * (2 * size), [0] * (2 * size)
    pos1, pos2 = size - 1, size
    for a in range(size - 1):
        smallest = []
        for _ in range(2):
            if pos1 >= 0 and count[pos1] < count[pos2]:
                smallest.append(pos1)
                pos1 -= 1
            else:
                smallest.append(pos2)
                pos2 += 1
        count[size + a] = count[smallest[0]] + count[smallest[1]]
        parent[smallest[0]] = parent[smallest[1]] = size + a
        binary[smallest[1]] = 1
    paths = []
    for word in range(size):
        path, node = [], word
        while node != 2 * size - 2:
            path.append((binary[node], parent[node] - size))
            node = parent[node]
        paths.append(path[::-1])
    return paths


def paths_of(counts):
    codes, points, lengths = (table.numpy() for table in huffman_codes(counts))
    for table, length in itertools.product((codes, points), range(len(lengths))):
        assert not table[length, lengths[length] :].any()  # padded with 0
    return [
        list(zip(codes[w, :n].tolist(), points[w, :n].tolist(), strict=True))
        for w, n in enumerate(lengths)
    ]


@pytest.mark.parametrize(("batch", "negative"), [(5, 3), (2, 1), (1, 2), (3, 0)])
def test_skip_gram_equals_the_loop(batch, negative, rng, device):
    model = randomised(SkipGram(7, 3), rng, device)
    center, context = words(rng, device, batch), words(rng, device, batch)
    negatives = words(rng, device, batch, negative)
    got = model.negative_sampling_loss(center, context, negatives)
    table, output = model.input.weight.detach().numpy(), model.output.weight.detach().numpy()
    expected = plain_negative_sampling(
        table[center.numpy()], output, context.numpy(), negatives.numpy()
    )
    np.testing.assert_allclose(got.item(), expected, rtol=1e-12)
    assert model(center).shape == (batch, 3)
    assert gradcheck_module(Loss(model, "negative_sampling_loss"), center, context, negatives)


def test_cbow_equals_the_loop(rng, device):
    """The second window has no word, and the third one repeats a word."""
    model = randomised(CBOW(7, 3), rng, device)
    context = mt.tensor([[4, 1, 6, 2], [3, 3, 3, 3], [5, 5, 0, 1]], device=device)
    blocked = mt.tensor([[0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0]], device=device).bool()
    center, negatives = words(rng, device, 3), words(rng, device, 3, 2)
    table, output = model.input.weight.detach().numpy(), model.output.weight.detach().numpy()
    vectors = np.stack(
        [(table[4] + table[6] + table[2]) / 3, np.zeros(3), (2 * table[5] + table[1]) / 3]
    )
    np.testing.assert_allclose(model(context, blocked).detach().numpy(), vectors, rtol=1e-12)
    got = model.negative_sampling_loss(context, center, negatives, blocked)
    expected = plain_negative_sampling(vectors, output, center.numpy(), negatives.numpy())
    np.testing.assert_allclose(got.item(), expected, rtol=1e-12)
    means = table[context.numpy()].mean(1)
    np.testing.assert_allclose(model(context).detach().numpy(), means, rtol=1e-12)
    loss = Loss(model, "negative_sampling_loss")
    assert gradcheck_module(loss, context, center, negatives, blocked)


@pytest.mark.parametrize("counts", [COUNTS, [2, 1], [1, 1, 1, 1, 1]])
def test_hierarchical_softmax_is_a_distribution(counts, rng, device):
    size = len(counts)
    model = randomised(HierarchicalSoftmax(counts, 3), rng, device)
    center, context = words(rng, device, 5, high=size), words(rng, device, 5, high=size)
    log_p = model(center).detach().numpy()
    np.testing.assert_allclose(np.exp(log_p).sum(1), 1.0, rtol=1e-12)
    expected = -np.mean([log_p[i, word] for i, word in enumerate(context.numpy())])
    np.testing.assert_allclose(model.loss(center, context).item(), expected, rtol=1e-12)
    assert gradcheck_module(Loss(model, "loss"), center, context)
    assert gradcheck_module(model, center)


def test_hierarchical_softmax_equals_the_loop(rng, device):
    model = randomised(HierarchicalSoftmax(COUNTS, 3), rng, device)
    table, nodes = model.input.weight.detach().numpy(), model.nodes.weight.detach().numpy()
    log_p = model(mt.arange(7, device=device)).detach().numpy()
    for center, (word, path) in itertools.product(range(7), enumerate(paths_of(COUNTS))):
        turns = [log_sigmoid((1 - 2 * code) * (nodes[n] @ table[center])) for code, n in path]
        np.testing.assert_allclose(log_p[center, word], sum(turns), rtol=1e-12)


def test_hierarchical_softmax_of_one_word_costs_nothing(device):
    model = HierarchicalSoftmax([5], 3).to(device)
    ids = mt.tensor([0, 0], device=device)
    assert model.loss(ids, ids).item() == 0.0
    assert model.nodes.weight.shape == (0, 3)


def test_tables_of_the_tree_are_not_in_the_state_dict():
    model = HierarchicalSoftmax(COUNTS, 3)
    assert sorted(model.state_dict()) == ["input.weight", "nodes.weight"]


@pytest.mark.parametrize(
    "counts",
    [[9], [5, 3], [4, 4], [40, 21, 11, 6, 2, 1], [8, 4, 2, 1, 1], [1] * 11, [3, 2, 2, 1, 1, 1, 0]],
)
def test_tree_equals_create_binary_tree(counts):
    assert paths_of(counts) == create_binary_tree(counts)


def test_tree_of_drawn_counts(rng):
    """Unsorted counts with ties: the tree of the sorted ones, and the smallest possible cost."""
    for size in (2, 3, 7, 13, 31):
        counts = rng.integers(0, 9, size).tolist()
        order = sorted(range(size), key=lambda word: -counts[word])
        expected = create_binary_tree([counts[word] for word in order])
        found = paths_of(counts)
        assert [found[word] for word in order] == expected
        heap, cost = list(counts), 0
        heapq.heapify(heap)
        while len(heap) > 1:
            joined = heapq.heappop(heap) + heapq.heappop(heap)
            heapq.heappush(heap, joined)
            cost += joined
        assert sum(c * len(path) for c, path in zip(counts, found, strict=True)) == cost


def test_tables_accept_arrays_and_tensors():
    for counts in (np.array(COUNTS), mt.tensor(COUNTS), tuple(COUNTS)):
        for table, expected in zip(huffman_codes(counts), huffman_codes(COUNTS), strict=True):
            assert table.dtype == mt.int64
            np.testing.assert_array_equal(table.numpy(), expected.numpy())
        got = noise_distribution(counts).numpy()
        np.testing.assert_array_equal(got, noise_distribution(COUNTS).numpy())


def test_discard_probability():
    """A share of 4 t is discarded half of the time; rare and absent words never are."""
    got = discard_probability([400, 100, 50, 0, 9450], threshold=0.01)
    assert got.dtype == mt.float64
    expected = [0.5, 0.0, 0.0, 0.0, 1 - math.sqrt(0.01 / 0.945)]
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-13)
    assert discard_probability([0, 0]).numpy().tolist() == [0.0, 0.0]


def test_noise_distribution():
    got = noise_distribution([16, 81, 1, 0])
    np.testing.assert_allclose(got.numpy(), np.array([8, 27, 1, 0]) / 36, rtol=1e-14)
    got = noise_distribution([3, 1], power=1)
    np.testing.assert_allclose(got.numpy(), [0.75, 0.25], rtol=1e-15)


def test_initial_vectors_are_those_of_word2vec_c():
    mt.manual_seed(2)
    for model in (SkipGram(101, 5), CBOW(101, 5), HierarchicalSoftmax([1] * 101, 5)):
        first, second = (parameter.detach().numpy() for parameter in model.parameters())
        assert 0.095 < abs(first).max() <= 0.1
        assert not second.any()


def test_errors():
    ids = mt.tensor([0, 1])
    model = SkipGram(7, 3)
    with pytest.raises(ShapeError, match="one entry for each vector"):
        model.negative_sampling_loss(ids, mt.tensor([[0], [1]]), mt.tensor([[0], [1]]))
    with pytest.raises(ShapeError, match="one row for each example"):
        model.negative_sampling_loss(ids, ids, mt.tensor([[0, 1]]))
    for table in (huffman_codes, discard_probability, noise_distribution):
        for counts in ([], [3, -1], [float("nan")]):
            with pytest.raises(ArgumentError, match="counts must not be empty"):
                table(counts)
        with pytest.raises(DTypeError, match="sequence of numbers"):
            table(3)


def test_the_vector_of_a_word(rng, device):
    model = randomised(SkipGram(7, 3), rng, device)
    center = words(rng, device, 2, 5)
    expected = model.input.weight.detach().numpy()[center.numpy()]
    assert (model(center).detach().numpy() == expected).all()


def test_vectors_start_uniform_around_zero():
    """In [-1/2, 1/2] / embed_dim, as in word2vec.c; also for a single dimension."""
    for size in (1, 4):
        weight = SkipGram(500, size).input.weight.detach().numpy() * size
        assert -0.5 <= weight.min() < -0.45 and 0.45 < weight.max() <= 0.5
        assert abs(weight.mean()) < 0.06


def test_the_mean_of_one_word_is_its_vector(rng, device):
    model = randomised(CBOW(7, 3), rng, device)
    context = words(rng, device, 1, 2)
    mask = mt.tensor([[False, True]], device=device)
    expected = model.input.weight.detach().numpy()[context.numpy()[:, 0]]
    np.testing.assert_allclose(model(context, mask).detach().numpy(), expected, rtol=1e-12)


def test_hierarchical_softmax_wants_one_word_for_each_vector():
    model = HierarchicalSoftmax(COUNTS, 3)
    with pytest.raises(ShapeError, match="HierarchicalSoftmax.loss: the words"):
        model.loss(mt.tensor([1, 2, 3]), mt.tensor([1]))
