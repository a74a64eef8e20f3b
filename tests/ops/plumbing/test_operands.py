"""Operands: operations on several tensors name the argument that is not a tensor."""

import inspect

import pytest

import minitorch_attn as mt
from minitorch_attn import ops
from minitorch_attn.errors import ArgumentError, DTypeError, MiniTorchError
from minitorch_attn.ops.plumbing.tensor_arguments import not_tensors


def x(*shape):
    return mt.ones(*shape)


def ids(*shape):
    return mt.zeros(*shape).long()


CALLS = {
    "addmm": (x(5), x(2, 3), x(3, 5)),
    "addmv": (x(2), x(2, 3), x(3)),
    "apply_rotary": (x(2, 3, 4), x(3, 2), x(3, 2)),
    "baddbmm": (x(1), x(7, 2, 3), x(7, 3, 5)),
    "batch_norm": (x(5, 4), x(4), x(4), x(4), x(4)),
    "cdist": (x(2, 3), x(5, 3)),
    "conv2d": (x(1, 2, 5, 5), x(3, 2, 3, 3), x(3)),
    "conv_transpose1d": (x(1, 2, 5), x(2, 3, 3), x(3)),
    "cosine_similarity": (x(2, 3), x(2, 3)),
    "cross_entropy": (x(2, 3), ids(2), x(3)),
    "dropout": (x(2, 3),),
    "embedding": (ids(2, 3), x(5, 7)),
    "expand_as": (x(2), x(3, 2)),
    "gather": (x(2, 3), 1, ids(2, 2)),
    "group_norm": (x(2, 4, 3), 2, x(4), x(4)),
    "gru_cell": (x(2, 3), x(2, 5), x(15, 3), x(15, 5), x(15), x(15)),
    "index_add": (x(2, 3), 1, ids(2), x(2, 2)),
    "index_put": (x(3), (ids(2),), 1.0),
    "index_select": (x(2, 3), 1, ids(2)),
    "instance_norm": (x(2, 4, 3), x(4), x(4), x(4), x(4)),
    "kl_div": (x(2, 3), x(2, 3)),
    "layer_norm": (x(2, 3), (3,), x(3), x(3)),
    "linear": (x(2, 3), x(5, 3), x(5)),
    "log_softmax": (x(2, 3), -1),
    "logsumexp": (x(2, 3), -1),
    "masked_select": (x(2, 3), x(2, 3) > 0),
    "masked_softmax": (x(2, 3),),
    "matmul": (x(2, 3), x(3, 5)),
    "max_pool2d": (x(1, 2, 4, 4), 2),
    "mse_loss": (x(2, 3), x(2, 3)),
    "nll_loss": (x(2, 3), ids(2), x(3)),
    "nonzero": (x(3),),
    "one_hot": (ids(3),),
    "outer": (x(2), x(3)),
    "rms_norm": (x(2, 3), (3,), x(3)),
    "scaled_dot_product_attention": (x(2, 3, 4), x(2, 5, 4), x(2, 5, 4)),
    "scatter": (x(2, 3), 1, ids(2, 2), 1.0),
    "searchsorted": (x(2), 1.0),
    "softmax": (x(2, 3), -1),
    "softmin": (x(2, 3), -1),
    "take_along_dim": (x(2, 3), ids(2, 2), 1),
}
INSIDE = {"addmm", "addmv", "baddbmm", "gru_cell", "matmul"}  # other names than the signature's


@pytest.mark.parametrize("wrong", [3.0, None, "text", [1.0]], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_the_argument_that_is_not_a_tensor_is_named(name, wrong):
    function, arguments = getattr(ops, name), CALLS[name]
    function(*arguments)
    parameters = list(inspect.signature(function).parameters.values())
    for position, given in enumerate(arguments):
        parameter = parameters[position]
        optional = parameter.default is None or parameter.name.startswith("running")
        if not isinstance(given, mt.Tensor) or (wrong is None and optional):
            continue
        with pytest.raises(MiniTorchError) as caught:
            function(*arguments[:position], wrong, *arguments[position + 1 :])
        label = "" if name in INSIDE else parameter.name
        text = str(caught.value)
        assert f"{label} is not a tensor" in text and type(wrong).__name__ in text


def test_linear_says_what_to_try():
    with pytest.raises(DTypeError) as caught:
        mt.nn.functional.linear(3.0, mt.ones(2, 3))
    text = str(caught.value)
    assert "linear: input is not a tensor" in text and "3.0 of type float" in text
    assert "mt.tensor(...)" in text
    for position in (0, 1, 3):  # the biases of a feed-forward network may be left out
        arguments = [x(2, 3), x(5, 3), x(5), x(7, 5), x(7)]
        arguments[position] = None
        with pytest.raises(DTypeError, match="is not a tensor"):
            ops.feed_forward(*arguments)


@pytest.mark.parametrize("wrong", [3.0, None, "text", [1.0]], ids=str)
def test_sequences_with_what_is_not_a_tensor(wrong):
    for function in (ops.cat, ops.stack, ops.hstack, ops.vstack):
        with pytest.raises(DTypeError, match=r"tensors\[1\] is not a tensor"):
            function([x(2), wrong, x(2)])
    for function in (ops.broadcast_tensors, ops.atleast_1d, ops.atleast_2d, ops.meshgrid):
        with pytest.raises(DTypeError, match=r"tensors\[1\] is not a tensor"):
            function(x(2), wrong)
    with pytest.raises(DTypeError, match=r"operands\[1\] is not a tensor"):
        ops.einsum("i,i->", x(2), wrong)


@pytest.mark.parametrize("wrong", [3.0, None, mt.tensor(3.0)], ids=str)
def test_what_is_not_a_sequence(wrong):
    for function in (ops.cat, ops.stack, ops.hstack, ops.vstack):
        with pytest.raises(ArgumentError, match="must be a sequence"):
            function(wrong)


def test_a_mistake_in_here_is_not_blamed_on_the_arguments():
    error = AttributeError("a mistake")
    assert not_tensors(error, "linear", input=x(2), weight=x(2)) is error
