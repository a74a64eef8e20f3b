"""Decoding token by token with a CUDA graph: the tokens and the cache are those of the step."""

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.cuda import GraphedStep

pytestmark = pytest.mark.gpu

VOCABULARY, CONTEXT = 13, 11


@pytest.fixture
def model():
    mt.manual_seed(5)
    return mt.models.GPT(VOCABULARY, CONTEXT, 8, num_heads=2, num_layers=3).to("cuda").eval()


def decoding(model, cache):
    """Return a step that decodes one token greedily, and returns it with its logits."""

    def step(ids):
        with mt.no_grad():
            logits = model(ids, cache)[:, -1]
        return logits.argmax(-1, keepdim=True), logits

    return step


def decode(step, first, tokens):
    """Decode some tokens; return their ids and logits as NumPy arrays."""
    ids, found = mt.tensor(first, device="cuda"), []
    for _ in range(tokens):
        ids, logits = step(ids)
        found.append((ids.numpy(), logits.numpy()))
    return found


def assert_close(found, expected):
    for (ids, logits), (other_ids, other_logits) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ids, other_ids)
        np.testing.assert_allclose(logits, other_logits, atol=1e-6)


@pytest.mark.parametrize("first", [[[3]], [[3], [7]]])
def test_the_tokens_are_those_of_the_step(model, first):
    caches = [mt.nn.StaticKVCache(CONTEXT) for _ in range(2)]
    expected = decode(decoding(model, caches[0]), first, CONTEXT)
    graphed = GraphedStep(decoding(model, caches[1]), num_warmup_iters=2)
    assert_close(decode(graphed, first, CONTEXT), expected)
    assert graphed.reason is None and graphed.replays == CONTEXT - 2
    assert caches[1].length == CONTEXT
    for ours, theirs in zip(caches[1], caches[0], strict=True):
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), atol=1e-6)


def test_a_prompt_and_a_second_text_use_the_same_graph(model):
    cache = mt.nn.StaticKVCache(CONTEXT)
    step, prompts = decoding(model, cache), ([[1, 2, 3, 4]], [[5, 6]], [[9, 8, 7]])
    graphed, results = GraphedStep(step, num_warmup_iters=1), []
    for decoder in (step, graphed):
        found = []
        for prompt in prompts:
            cache.reset()
            ids, _ = step(mt.tensor(prompt, device="cuda"))
            found += decode(decoder, ids.numpy(), 4)
            found += decode(step, found[-1][0], 1)  # the step itself goes on
        results.append(found)
    assert_close(*reversed(results))
    assert graphed.replays == 11 and len(graphed._graphs) == 1


def test_a_full_cache_grows_without_the_graph(model):
    results = []
    for graph in (False, True):
        cache = mt.nn.StaticKVCache(4)
        step = decoding(model, cache)
        step = GraphedStep(step, num_warmup_iters=1) if graph else step
        results.append(decode(step, [[2]], 9))
    assert_close(*results)
    assert step.replays == 6 and step._made == 3  # a warm-up for each capacity: 4, 8, 16


def test_a_position_after_the_context_is_reported(model):
    cache = mt.nn.StaticKVCache(2 * CONTEXT)
    graphed = GraphedStep(decoding(model, cache), num_warmup_iters=1)
    decode(graphed, [[2]], CONTEXT)
    with pytest.raises(IndexError):
        decode(graphed, [[2]], 1)


def test_two_waits_are_one_for_each_token(model):
    cupysim = pytest.importorskip("cupysim")
    graphed = GraphedStep(decoding(model, mt.nn.StaticKVCache(CONTEXT)), num_warmup_iters=1)
    decode(graphed, [[2]], 3)
    ids = mt.tensor([[2]], device="cuda")
    cupysim.reset()
    graphed(ids)
    calls = {kind: count for kind, (count, _) in cupysim.summary().items()}
    assert calls["graph"] == 1 and not any(kind.startswith("sync") for kind in calls)


def test_caches_that_a_graph_cannot_use(model):
    cases = {
        "extends a KV cache": decoding(model, mt.nn.KVCache()),
        "adds several tokens": decoding(model, mt.nn.StaticKVCache(CONTEXT)),
        "reads the length": lambda ids: ids + cache.length,
        "reorders": lambda ids: cache.reorder(ids[0]),
        "reads the keys of an encoder": lambda ids: cache.cross(0) and ids,
    }
    cache = mt.nn.StaticKVCache(CONTEXT)
    for reason, step in cases.items():
        graphed = GraphedStep(step, num_warmup_iters=1)
        ids = mt.tensor([[1, 2]] if "several" in reason else [[1]], device="cuda")
        with pytest.warns(UserWarning, match=reason):
            graphed(ids)
        assert reason in graphed.reason


def test_a_capture_that_fails_does_not_count_a_token(model):
    cupy = pytest.importorskip("cupy")
    caches = [mt.nn.StaticKVCache(CONTEXT) for _ in range(2)]
    steps = [decoding(model, cache) for cache in caches]

    def breaking(ids):
        outputs = steps[1](ids)
        cupy.ones((2, 2)) @ cupy.ones((2, 2))  # CuPy refuses it during a capture
        return outputs

    expected = decode(steps[0], [[3]], 6)
    with pytest.warns(UserWarning, match="the capture failed"):
        found = decode(GraphedStep(breaking, num_warmup_iters=2), [[3]], 6)
    assert_close(found, expected)
    assert caches[1].length == 6


def test_a_model_that_computes_its_own_positions_says_so():
    mt.manual_seed(5)
    model = mt.models.Llama(VOCABULARY, 8, num_heads=2, num_layers=1, ff_dim=16).to("cuda").eval()
    graphed = GraphedStep(decoding(model, mt.nn.StaticKVCache(CONTEXT)), num_warmup_iters=1)
    with pytest.warns(UserWarning, match="GraphedStep runs without a graph"):
        decode(graphed, [[3]], 3)
