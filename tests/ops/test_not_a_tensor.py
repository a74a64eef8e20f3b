"""Every public operation on tensors names an argument that is not a tensor."""

import inspect
import re

import pytest

import minitorch_attn as mt
from minitorch_attn import ops
from minitorch_attn.errors import MiniTorchError


def x(*shape):
    return mt.ones(*shape)


def ids(*shape):
    return mt.zeros(*shape).long()


LEFT_OUT = {
    "makes a tensor from sizes, numbers or data": (
        "arange", "as_tensor", "empty", "eye", "from_numpy", "full", "linspace", "normal", "ones",
        "rand", "randint", "randn", "randperm", "tensor_like", "tril_indices", "triu_indices",
        "zeros",
    ),
    "takes dtypes, or tensors and numbers in any mixture": ("promote_types", "result_type"),
    "takes several tensors in a row, as test_operands.py tries": (
        "atleast_1d", "atleast_2d", "broadcast_tensors", "cat", "concat", "concatenate", "einsum",
        "hstack", "meshgrid", "stack", "vstack",
    ),
}  # fmt: skip
TENSOR_FIRST = sorted(set(ops.__all__).difference(*LEFT_OUT.values()))
DOCUMENTED = re.compile(r"Parameters\n +-+\n.* : Tensor or number")
NUMBER_OR_TENSOR = {"bucketize"} | {
    name for name in TENSOR_FIRST if DOCUMENTED.search(getattr(ops, name).__doc__ or "")
}
ANOTHER = x(2, 3)  # stands for each argument without a default, unless it is listed here
FURTHER = {
    "adaptive_avg_pool1d": (2,),
    "adaptive_avg_pool2d": (2,),
    "adaptive_avg_pool3d": (2,),
    "adaptive_max_pool1d": (2,),
    "adaptive_max_pool2d": (2,),
    "addcdiv": (x(2), x(2)),
    "addcmul": (x(2), x(2)),
    "addmm": (x(2, 3), x(3, 5)),
    "addmv": (x(2, 3), x(3)),
    "apply_rotary": (x(3, 2), x(3, 2)),
    "attention_composed": (x(2, 5, 4), x(2, 5, 4)),
    "avg_pool1d": (2,),
    "avg_pool2d": (2,),
    "avg_pool3d": (2,),
    "baddbmm": (x(7, 2, 3), x(7, 3, 5)),
    "batch_norm": (x(4), x(4)),
    "bitwise_and": (ids(2),),
    "bitwise_or": (ids(2),),
    "bitwise_xor": (ids(2),),
    "broadcast_to": ((2, 3),),
    "bucketize": (x(3),),
    "cast": ("float64",),
    "chunk": (2,),
    "clamp": (0.0,),
    "clip": (0.0,),
    "conv1d": (x(3, 2, 3),),
    "conv2d": (x(3, 2, 3, 3),),
    "conv3d": (x(3, 2, 3, 3, 3),),
    "conv_transpose1d": (x(2, 3, 3),),
    "conv_transpose2d": (x(2, 3, 3, 3),),
    "conv_transpose3d": (x(2, 3, 3, 3, 3),),
    "copy_of": (x(2),),
    "cumprod": (0,),
    "cumsum": (0,),
    "embedding": (x(5, 7),),
    "expand": ((2, 3),),
    "feed_forward": (x(5, 3), x(5), x(7, 5), x(7)),
    "feed_forward_composed": (x(5, 3), x(5), x(7, 5), x(7)),
    "flip": (0,),
    "fold": ((4, 4), 2),
    "full_like": (1.0,),
    "gather": (1, ids(2, 2)),
    "getitem": (0,),
    "group_norm": (2,),
    "gru_cell": (x(2, 5), x(15, 3), x(15, 5)),
    "gru_sequence": (x(2, 5), x(15, 3), x(15, 5)),
    "hsplit": (2,),
    "index_add": (1, ids(2), x(2, 2)),
    "index_assign": (0, 1.0),
    "index_copy": (1, ids(2), x(2, 2)),
    "index_fill": (1, ids(2), 1.0),
    "index_put": ((ids(2),), 1.0),
    "index_select": (1, ids(2)),
    "interpolate": (2,),
    "layer_norm": (3,),
    "lerp": (x(2), 0.5),
    "logsumexp": (-1,),
    "lstm_cell": ((x(2, 5), x(2, 5)), x(20, 3), x(20, 5)),
    "lstm_sequence": (x(2, 5), x(2, 5), x(20, 3), x(20, 5)),
    "masked_fill": (x(2) > 0, 1.0),
    "masked_select": (x(2) > 0,),
    "max_pool1d": (2,),
    "max_pool2d": (2,),
    "max_pool3d": (2,),
    "moveaxis": (0, 1),
    "movedim": (0, 1),
    "multinomial": (1,),
    "narrow": (0, 0, 1),
    "nll_loss": (ids(2),),
    "pad": ((1, 1),),
    "permute": ((1, 0),),
    "pixel_shuffle": (2,),
    "pixel_unshuffle": (2,),
    "repeat": ((2, 2),),
    "repeat_interleave": (2,),
    "randint_like": (3,),
    "reshape": ((-1,),),
    "rms_norm": (3,),
    "rnn_relu_cell": (x(2, 5), x(5, 3), x(5, 5)),
    "rnn_sequence": (x(2, 5), x(5, 3), x(5, 5)),
    "rnn_tanh_cell": (x(2, 5), x(5, 3), x(5, 5)),
    "roll": (1,),
    "scaled_dot_product_attention": (x(2, 5, 4), x(2, 5, 4)),
    "scatter": (1, ids(2, 2), 1.0),
    "scatter_add": (1, ids(2, 2), x(2, 2)),
    "select": (0, 0),
    "setitem": (0, 1.0),
    "sliding_windows": (0, 2, 1),
    "split": (1,),
    "swapaxes": (0, 1),
    "swapdims": (0, 1),
    "take_along_dim": (ids(2, 2), 1),
    "tensor_split": (2,),
    "tile": ((2, 2),),
    "to": ("float64",),
    "topk": (1,),
    "transpose": (0, 1),
    "unflatten": (0, (1, 2)),
    "unfold": (2,),
    "unsqueeze": (0,),
    "view": (-1,),
    "vsplit": (2,),
    "where": (x(2), x(2)),
}  # fmt: skip
BATCH_SIZES = {"gru_sequence", "lstm_sequence", "rnn_sequence"}


def call(name, first):
    function = getattr(ops, name)
    further = FURTHER.get(name)
    if further is None:
        parameters = inspect.signature(function).parameters.values()
        needed = [p for p in parameters if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
        further = [ANOTHER] * (len(needed) - 1)
    settings = {"batch_sizes": [2]} if name in BATCH_SIZES else {}
    return function(first, *further, **settings)


@pytest.mark.parametrize("wrong", [3.0, None, "text", [1.0]], ids=str)
@pytest.mark.parametrize("name", TENSOR_FIRST)
def test_what_is_not_a_tensor_is_refused(name, wrong):
    if wrong == 3.0 and name in NUMBER_OR_TENSOR:
        assert isinstance(call(name, 3), mt.Tensor)
        return
    with pytest.raises(MiniTorchError, match="(not|neither) a tensor") as caught:
        call(name, wrong)
    assert type(wrong).__name__ in str(caught.value)


def test_the_tables_name_what_there_is():
    assert set().union(*LEFT_OUT.values()) < set(ops.__all__)
    assert NUMBER_OR_TENSOR | BATCH_SIZES | set(FURTHER) < set(TENSOR_FIRST)
