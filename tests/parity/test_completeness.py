"""Every name from PyTorch is tested by a table here, or listed with the reason why not."""

import importlib
from pathlib import Path

import pytest

import minitorch_attn as mt
from minitorch_attn import ops
from minitorch_attn.nn import functional

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

ELSEWHERE = {
    "without arguments to draw, or random": {
        "arange", "as_tensor", "bernoulli", "empty", "empty_like", "eye", "from_numpy", "full",
        "full_like", "gumbel_softmax", "linspace", "multinomial", "normal", "ones", "ones_like",
        "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "zeros",
        "zeros_like",
    },
    "test_spatial.py": {
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
        "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "avg_pool1d", "avg_pool2d",
        "avg_pool3d", "batch_norm", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
        "conv_transpose2d", "conv_transpose3d", "fold", "grid_sample", "group_norm",
        "instance_norm", "interpolate", "max_pool1d", "max_pool2d", "max_pool3d", "pixel_shuffle",
        "pixel_unshuffle", "unfold", "upsample",
    },
    "the name of another function": set(ops.OTHER_NAMES),
    "test_layers.py": {"embedding_bag", "multi_head_attention_forward"},
    "test_rnn.py": {"gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"},
}  # fmt: skip


def drawn():
    """The last parts of the names in all tables."""
    names = set()
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if "parity.comparing" in path.read_text(encoding="utf-8"):
            module = importlib.import_module(f"parity.{path.stem}")
            tables = [getattr(value, "operations", ()) for value in vars(module).values()]
            names |= {op.name.split(".")[-1] for table in tables for op in table}
    return names


def test_every_name_is_drawn():
    names = set()
    for ours, theirs in ((ops, torch), (functional, torch.nn.functional)):
        public = {name for name in vars(ours) if not name.startswith("_")}
        names |= {n for n in public if callable(getattr(ours, n)) and hasattr(theirs, n)}
    names -= {name for group in ELSEWHERE.values() for name in group}
    names = {name for name in names if not isinstance(getattr(torch, name, None), type(torch))}
    assert sorted(names - drawn()) == []


def test_functions_are_methods_where_pytorch_has_them():
    names = [n for n in vars(ops) if callable(getattr(ops, n)) and not n.startswith("_")]
    missing = [n for n in names if hasattr(torch.Tensor, n) and not hasattr(mt.Tensor, n)]
    assert missing == []
