"""Multi-head attention: against NumPy, both code paths against each other, and masks."""

import itertools
import math

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import masks, nn
from minitorch_attn.autograd import gradcheck_module, gradgradcheck
from minitorch_attn.errors import ArgumentError, DTypeError, ShapeError

BATCH, HEADS, HEAD_DIM, QUERY, KEY, KDIM, VDIM = 2, 3, 2, 5, 7, 11, 13
EMBED = HEADS * HEAD_DIM


def layer(device, **options):
    mt.manual_seed(9)
    module = nn.MultiheadAttention(EMBED, HEADS, batch_first=True, **options)
    module = module.double().to(device)
    for p in module.parameters():  # biases away from their zeros
        nn.init.uniform_(p, -0.7, 0.7)
    return module


def host(tensor):
    return tensor.detach().numpy()


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def numpy_attention(module, query, key, value, additive=0.0):
    """Head by head, with plain products. Returns the output and all weights."""
    if module.in_proj_weight is None:
        w = [host(getattr(module, f"{x}_proj_weight")) for x in "qkv"]
    else:
        w = np.split(host(module.in_proj_weight), 3)
    b = [0.0] * 3 if module.in_proj_bias is None else np.split(host(module.in_proj_bias), 3)
    q, k, v = (host(x) @ w_i.T + b_i for x, w_i, b_i in zip((query, key, value), w, b, strict=True))
    additive = np.broadcast_to(additive, (len(q), HEADS, q.shape[1], k.shape[1]))
    contexts, weights = [], []
    for h in range(HEADS):
        part = slice(h * HEAD_DIM, (h + 1) * HEAD_DIM)
        scores = q[..., part] @ k[..., part].swapaxes(1, 2) / math.sqrt(HEAD_DIM)
        weights.append(softmax(scores + additive[:, h]))
        contexts.append(weights[-1] @ v[..., part])
    out = np.concatenate(contexts, -1) @ host(module.out_proj.weight).T
    if module.out_proj.bias is not None:
        out = out + host(module.out_proj.bias)
    return out, np.stack(weights, 1)


@pytest.fixture
def inputs(make):
    return make(BATCH, QUERY, EMBED), make(BATCH, KEY, EMBED), make(BATCH, KEY, EMBED)


def test_against_numpy(device, inputs):
    module = layer(device)
    output, weights = module(*inputs, average_attn_weights=False)
    expected, expected_weights = numpy_attention(module, *inputs)
    np.testing.assert_allclose(host(output), expected, atol=1e-12)
    np.testing.assert_allclose(host(weights), expected_weights, atol=1e-12)
    averaged = module(*inputs)[1]
    np.testing.assert_allclose(host(averaged), expected_weights.mean(1), atol=1e-12)
    assert module(*inputs, need_weights=False)[1] is None


def test_sizes_of_key_and_value(device, make):
    module = layer(device, kdim=KDIM, vdim=VDIM, bias=False)
    query, key, value = make(BATCH, QUERY, EMBED), make(BATCH, KEY, KDIM), make(BATCH, KEY, VDIM)
    expected, _ = numpy_attention(module, query, key, value)
    for need_weights in (True, False):
        output = module(query, key, value, need_weights=need_weights)[0]
        np.testing.assert_allclose(host(output), expected, atol=1e-12)
    names = ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"]
    assert list(module.state_dict()) == names


def test_one_projection_equals_three(device, make):
    module, x = layer(device), make(BATCH, QUERY, EMBED)
    copies = (x, x.clone(), x.clone())
    np.testing.assert_allclose(host(module(x, x, x)[0]), host(module(*copies)[0]), atol=1e-12)


def test_layouts(device, inputs):
    module = layer(device)
    expected, weights = module(*inputs)
    turned = [x.transpose(0, 1) for x in inputs]
    module.batch_first = False
    for need_weights in (True, False):
        output = module(*turned, need_weights=need_weights)[0]
        np.testing.assert_allclose(host(output.transpose(0, 1)), host(expected), atol=1e-12)
        output, alone = module(*[x[1] for x in inputs], need_weights=need_weights)
        np.testing.assert_allclose(host(output), host(expected[1]), atol=1e-12)
    assert module(*[x[1] for x in inputs])[1].shape == (QUERY, KEY)
    heads = module(*[x[1] for x in inputs], average_attn_weights=False)[1]
    assert heads.shape == (HEADS, QUERY, KEY)
    np.testing.assert_allclose(host(heads.mean(0)), host(weights[1]), atol=1e-12)


OPTIONS = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": KDIM, "vdim": VDIM},
]


def some_mask(kind, device):
    rng = np.random.default_rng(1)
    blocked = rng.random((QUERY, KEY)) < 0.3
    blocked[:, 0] = False
    padding = np.zeros((BATCH, KEY), bool)
    padding[1, 4:] = True
    floats = rng.normal(size=(BATCH * HEADS, QUERY, KEY))
    tensors = {
        "none": {},
        "bool": {"attn_mask": blocked},
        "float 3-D": {"attn_mask": floats},
        "padding": {"key_padding_mask": padding},
        "bool and padding": {"attn_mask": blocked, "key_padding_mask": padding},
        "float and padding": {"attn_mask": floats, "key_padding_mask": padding},
        "float padding": {"key_padding_mask": rng.normal(size=(BATCH, KEY))},
    }[kind]
    return {name: mt.tensor(value, device=device) for name, value in tensors.items()}


MASKS = [
    "none", "bool", "float 3-D", "padding", "bool and padding", "float and padding",
    "float padding",
]  # fmt: skip


@pytest.mark.parametrize("options, mask", list(itertools.product(OPTIONS, MASKS)), ids=str)
def test_both_paths_agree_in_value_and_gradient(device, make, options, mask):
    module, given = layer(device, **options), some_mask(mask, device)
    inputs = make(BATCH, QUERY, EMBED), make(BATCH, KEY, module.kdim), make(BATCH, KEY, module.vdim)
    cotangent = make(BATCH, QUERY, EMBED, requires_grad=False)
    results = []
    for need_weights in (True, False):
        module.zero_grad()
        for x in inputs:
            x.grad = None
        output = module(*inputs, need_weights=need_weights, **given)[0]
        (output * cotangent).sum().backward()
        results.append([output, *(t.grad for t in (*inputs, *module.parameters()))])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(host(a), host(b), atol=1e-11)


@pytest.mark.parametrize("options", OPTIONS[:1] + OPTIONS[4:], ids=str)
@pytest.mark.parametrize("need_weights", [True, False])
def test_gradients(device, make, options, need_weights):
    module = layer(device, **options)
    inputs = make(BATCH, 3, EMBED), make(BATCH, 5, module.kdim), make(BATCH, 5, module.vdim)
    blocked = mt.tensor(np.arange(15).reshape(3, 5) % 4 == 1, device=device)

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *inputs):
            return module(*inputs, attn_mask=blocked, need_weights=need_weights)

    assert gradcheck_module(Attend(), *inputs, fast=True)
    if not options:
        assert gradcheck_module(Attend(), *inputs)
        assert gradgradcheck(lambda *x: Attend()(*x)[0], inputs, fast=True)


def test_a_float_mask_can_be_learned(device, inputs, make):
    module = layer(device)
    bias = make(BATCH * HEADS, QUERY, KEY)
    grads = []
    for need_weights in (True, False):
        bias.grad = None
        module(*inputs, attn_mask=bias, need_weights=need_weights)[0].square().sum().backward()
        grads.append(host(bias.grad))
    assert abs(grads[0]).max() > 1e-3
    np.testing.assert_allclose(*grads, atol=1e-12)


# Every argument that takes a mask, with every form of a mask. `attend` is what is meant.


def forms_of_mask(attend, device):
    """name, keyword arguments: all of these mean the same 2-D pattern (query, key)."""
    blocked = mt.tensor(~attend, device=device)
    additive = mt.tensor(np.where(attend, 0.0, -np.inf), device=device)
    repeated = mt.tensor(np.broadcast_to(~attend, (BATCH * HEADS, *attend.shape)), device=device)
    return {
        "bool, True = blocked": blocked,
        "bool 3-D": repeated,
        "float, added": additive,
        "Mask from attend": masks.from_attend(mt.tensor(attend, device=device)),
        "Mask from blocked": masks.from_blocked(blocked),
        "Mask on the host": masks.from_attend(attend),
        "Mask of four axes": masks.from_attend(attend[None, None]).to(device),
    }


PATTERN = np.random.default_rng(2).random((QUERY, KEY)) < 0.6
PATTERN[:, 2] = True


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("form", list(forms_of_mask(PATTERN, "cpu")))
def test_polarity_of_attn_mask(device, inputs, form, need_weights):
    module = layer(device)
    expected, _ = numpy_attention(module, *inputs, np.where(PATTERN, 0.0, -np.inf))
    mask = forms_of_mask(PATTERN, device)[form]
    output = module(*inputs, attn_mask=mask, need_weights=need_weights)[0]
    np.testing.assert_allclose(host(output), expected, atol=1e-12)


LENGTHS = [3, 7]
ATTEND = np.arange(KEY) < np.array(LENGTHS)[:, None]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    ("argument", "mask"),
    [
        ("key_padding_mask", lambda d: mt.tensor(~ATTEND, device=d)),
        ("key_padding_mask", lambda d: mt.tensor(np.where(ATTEND, 0, -np.inf), device=d)),
        ("key_padding_mask", lambda d: masks.padding(LENGTHS, device=d)),
        ("attn_mask", lambda d: masks.padding(LENGTHS)),
        ("key_padding_mask", lambda d: masks.from_key_padding(~ATTEND).to(d)),
        ("attn_mask", lambda d: masks.from_attend(ATTEND[:, None, None]).to(d)),
    ],
)
def test_polarity_of_key_padding_mask(device, inputs, argument, mask, need_weights):
    module = layer(device)
    additive = np.where(ATTEND, 0.0, -np.inf)[:, None, None]
    expected, _ = numpy_attention(module, *inputs, additive)
    output = module(*inputs, need_weights=need_weights, **{argument: mask(device)})[0]
    np.testing.assert_allclose(host(output), expected, atol=1e-12)


CAUSAL = np.tril(np.ones((QUERY, KEY), bool))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "how",
    [
        lambda d: {"is_causal": True},
        lambda d: {"attn_mask": masks.causal(QUERY, KEY)},
        lambda d: {"attn_mask": mt.tensor(~CAUSAL, device=d), "is_causal": True},
        lambda d: {"attn_mask": mt.tensor(~CAUSAL, device=d)},
        lambda d: {
            "is_causal": True,
            "key_padding_mask": mt.zeros(BATCH, KEY, dtype=mt.bool, device=d),
        },
        lambda d: {"attn_mask": masks.causal(QUERY, KEY), "key_padding_mask": masks.padding([KEY])},
    ],
)
def test_causal_in_all_its_forms(device, inputs, how, need_weights):
    module = layer(device)
    expected, _ = numpy_attention(module, *inputs, np.where(CAUSAL, 0.0, -np.inf))
    output = module(*inputs, need_weights=need_weights, **how(device))[0]
    np.testing.assert_allclose(host(output), expected, atol=1e-12)


def test_appended_keys_are_never_blocked(device, inputs):
    module = layer(device, add_bias_kv=True, add_zero_attn=True)
    everything = masks.from_attend(np.zeros((QUERY, KEY), bool))
    for mask in (everything, mt.tensor(np.ones((QUERY, KEY), bool), device=device)):
        output, weights = module(*inputs, attn_mask=mask)
        assert weights.shape == (BATCH, QUERY, KEY + 2)
        assert not host(weights)[..., :KEY].any()
        np.testing.assert_allclose(host(weights).sum(-1), 1, atol=1e-12)
        fused = module(*inputs, attn_mask=mask, need_weights=False)[0]
        np.testing.assert_allclose(host(fused), host(output), atol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_query_that_may_attend_to_nothing(device, inputs):
    module = layer(device)
    attend = np.ones((QUERY, KEY), bool)
    attend[3] = False
    mask = masks.from_attend(attend)
    output, weights = module(*inputs, attn_mask=mask)
    nan = np.isnan(host(output)).all(-1)
    assert nan[:, 3].all() and not nan[:, [0, 1, 2, 4]].any()
    assert np.isnan(host(weights)[:, 3]).all()
    fused = module(*inputs, attn_mask=mask, need_weights=False)[0]
    zero_context = np.broadcast_to(host(module.out_proj.bias), (BATCH, EMBED))
    np.testing.assert_allclose(host(fused)[:, 3], zero_context, atol=1e-12)
    fused.sum().backward()
    assert np.isfinite(host(inputs[0].grad)).all() and not host(inputs[0].grad)[:, 3].any()


def test_dropout_acts_in_training_only(device, inputs):
    module = layer(device, dropout=0.5)
    expected, all_weights = numpy_attention(module, *inputs)
    mt.manual_seed(1)
    output, weights = module(*inputs, average_attn_weights=False)
    kept = host(weights) != 0
    assert 0.2 < kept.mean() < 0.8
    np.testing.assert_allclose(host(weights)[kept], 2 * all_weights[kept], atol=1e-12)
    mt.manual_seed(1)
    fused = module(*inputs, need_weights=False)[0]
    np.testing.assert_allclose(host(fused), host(output), atol=1e-12)  # one mask for both paths
    module.eval()
    np.testing.assert_allclose(host(module(*inputs)[0]), expected, atol=1e-12)


def test_no_heads_axis_is_repeated_by_accident(device, inputs):
    """A (batch * heads) mask is read batch first, heads second."""
    module = layer(device)
    additive = np.random.default_rng(5).normal(size=(BATCH, HEADS, QUERY, KEY))
    flat = mt.tensor(additive.reshape(-1, QUERY, KEY), device=device)
    expected, weights = numpy_attention(module, *inputs, additive)
    output, got = module(*inputs, attn_mask=flat, average_attn_weights=False)
    np.testing.assert_allclose(host(output), expected, atol=1e-12)
    np.testing.assert_allclose(host(got), weights, atol=1e-12)


def test_zero_sizes(device, make):
    module = layer(device)
    nothing, some = make(0, QUERY, EMBED), make(0, KEY, EMBED)
    assert module(nothing, some, some, need_weights=False)[0].shape == (0, QUERY, EMBED)
    assert module(nothing, some, some)[1].shape == (0, QUERY, KEY)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [((5, 2), "num_heads to one of"), ((6, 0), "both positive"), ((0, 1), "divisible")],
)
def test_heads_that_do_not_fit(sizes, text):
    with pytest.raises(ArgumentError, match=text):
        nn.MultiheadAttention(*sizes)


def wrong(**changes):
    sizes = {
        "query": (BATCH, QUERY, EMBED),
        "key": (BATCH, KEY, EMBED),
        "value": (BATCH, KEY, EMBED),
    }
    return [mt.zeros(*changes.get(name, size), dtype=mt.float64) for name, size in sizes.items()]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (wrong(query=(BATCH, QUERY, 5)), "shape of query does not match"),
        (wrong(key=(BATCH, KEY, 5)), "last axis has size kdim"),
        (wrong(value=(KEY, EMBED)), "shape of value does not match"),
        (wrong(query=(EMBED,)), "shape of query does not match"),
        (wrong(value=(BATCH, 3, EMBED)), "same number of tokens"),
        (wrong(query=(3, QUERY, EMBED)), "same batch size"),
    ],
)
def test_inputs_that_do_not_fit(arguments, text):
    with pytest.raises(ShapeError, match=text):
        layer("cpu")(*arguments)


def test_inputs_that_are_not_tensors():
    query, key, value = wrong()
    with pytest.raises(DTypeError, match="key is not a tensor"):
        layer("cpu")(query, key.numpy(), value)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"attn_mask": mt.zeros(KEY, QUERY)}, ShapeError, r"shape of attn_mask does not match"),
        ({"attn_mask": mt.zeros(3, QUERY, KEY)}, ShapeError, r"\(6, 5, 7\)"),
        ({"attn_mask": mt.zeros(QUERY, KEY).long()}, DTypeError, "mask == 0"),
        ({"key_padding_mask": mt.zeros(KEY)}, ShapeError, r"\(2, 7\)"),
        ({"key_padding_mask": mt.ones(BATCH, KEY).long()}, DTypeError, "True = blocked"),
        (
            {"attn_mask": np.zeros((QUERY, KEY), bool)},
            DTypeError,
            "boolean or floating-point tensor",
        ),
        ({"attn_mask": masks.causal(QUERY)}, ShapeError, "the Mask in attn_mask"),
        ({"key_padding_mask": masks.padding([1, 2, 3], KEY)}, ShapeError, "key_padding_mask"),
    ],
)
def test_masks_that_do_not_fit(given, error, text):
    for need_weights in (True, False):
        with pytest.raises(error, match=text):
            layer("cpu")(*wrong(), need_weights=need_weights, **given)


@pytest.mark.parametrize("options", [{}, {"add_zero_attn": True}])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_the_weights_are_collected(device, make, options, batch_first, need_weights):
    module = layer(device, **options)
    x = make(BATCH, QUERY, EMBED)
    expected, weights = module(x, x, x, average_attn_weights=False)
    module.batch_first = batch_first
    x = x if batch_first else x.transpose(0, 1)
    with nn.collect_attention(module) as found:
        output, _ = module(x, x, x, need_weights=need_weights)
    ((collected, seen),) = found
    assert collected is module and module.weight_hooks == []
    np.testing.assert_allclose(host(seen), host(weights), atol=1e-14)
    output = output if batch_first else output.transpose(0, 1)
    np.testing.assert_allclose(host(output), host(expected), atol=1e-12)


def test_the_weights_of_a_transformer_are_collected(device, make):
    mt.manual_seed(3)
    model = nn.Transformer(EMBED, HEADS, 2, 1, dim_feedforward=8, batch_first=True)
    model = model.double().to(device).eval()
    with nn.collect_attention(model) as found:
        model(make(BATCH, KEY, EMBED), make(BATCH, QUERY, EMBED), tgt_is_causal=True)
    shapes = [weights.shape[2:] for _, weights in found]
    assert shapes == [(KEY, KEY), (KEY, KEY), (QUERY, QUERY), (QUERY, KEY)]
    for _, weights in found:
        np.testing.assert_allclose(host(weights.sum(-1)), 1, atol=1e-12)
    assert not np.triu(host(found[2][1]), 1).any()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("need_weights", [True, False])
def test_collecting_changes_nothing_for_a_query_that_may_attend_to_nothing(
    device, inputs, need_weights
):
    module = layer(device)
    mask = masks.from_attend(np.arange(QUERY)[:, None] != np.arange(KEY) * 0 + 3)
    expected = module(*inputs, attn_mask=mask, need_weights=need_weights)[0]
    with nn.collect_attention(module):
        output = module(*inputs, attn_mask=mask, need_weights=need_weights)[0]
    np.testing.assert_allclose(host(output), host(expected), atol=1e-12)
    assert np.isnan(host(output)[:, 3]).all() == need_weights


def test_static_keys_are_refused_with_a_bias_or_another_shape(make):
    x, eye = make(3, 5, 4), make(4, 4)
    given = dict(
        query=x, key=x, value=x, embed_dim_to_check=4, num_heads=2, add_zero_attn=False,
        in_proj_weight=make(12, 4), in_proj_bias=None, dropout_p=0.0, out_proj_weight=eye,
        out_proj_bias=None, bias_v=None,
    )  # fmt: skip
    function = mt.nn.functional.multi_head_attention_forward
    with pytest.raises(ArgumentError, match="bias_k cannot be appended"):
        function(**given, bias_k=make(1, 1, 4), static_v=make(10, 3, 2))
    for shape in ((5, 3, 4), (10, 3, 4), (10, 2)):
        with pytest.raises(ShapeError, match="the shape of static_k does not match"):
            function(**given, bias_k=None, static_k=make(*shape))
