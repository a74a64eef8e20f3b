"""Mixed precision against PyTorch: the lists of operations, dtypes on the CPU, and the scaler."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.amp.op_lists import FUNCTIONS, OPERATIONS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"

# Functions of PyTorch's lists that are one operation here, or several: (list, operations).
AS_OPERATIONS = {
    "linear": "Linear", "matmul": "MatMul", "mm": "MatMul", "mv": "MatMul", "bmm": "MatMul",
    "scaled_dot_product_attention": "Attention CausalAttention TiledAttention",
    "exp": "Exp", "expm1": "Expm1", "log": "Log", "log10": "LogToBase", "log2": "LogToBase",
    "log1p": "Log1p", "erfinv": "Erfinv", "reciprocal": "Reciprocal", "rsqrt": "Rsqrt",
    "tan": "Tan", "pow": "Power PowerOfNumber Square", "softplus": "Softplus", "sum": "Sum",
    "prod": "Prod", "softmax": "Softmax MaskedSoftmax", "log_softmax": "LogSoftmax",
    "cumsum": "Cumsum", "cumprod": "Cumprod", "logsumexp": "LogSumExp",
    "linalg_vector_norm": "EuclideanNorm PNorm", "linalg_matrix_norm": "SingularValues",
    "norm": "EuclideanNorm PNorm", "frobenius_norm": "EuclideanNorm",
    "index_put": "Assign AddAt", "scatter_add": "ScatterAdd",
}  # fmt: skip
OF_UPSAMPLE = re.compile(r"_?upsample_\w+")  # all are `interpolate`
PLUMBING = re.compile(
    r"_convolution|_thnn_\w+|_scaled_dot\w+|native_layer_norm|nll_loss2d|nuclear_norm"
)


def lists_of_pytorch():
    """The lists in PyTorch's own header, as {our name of the list: {function, ...}}."""
    text = HEADER.read_text()
    names = {}
    for macro, ours in {
        "LOWER_PRECISION_FP": "float16", "FP32": "float32", "FP32_SET_OPT_DTYPE": "float32",
        "PROMOTE": "widest",
    }.items():  # fmt: skip
        block = re.search(rf"#define AT_FORALL_{macro}\(_\)(.*?)\n\n", text, re.S)[1]
        names.setdefault(ours, set()).update(re.findall(r"_\((\w+)", block))
    return names


def test_the_lists_are_those_of_pytorch():
    operations = {n: which for which, names in OPERATIONS.items() for n in names.split()}
    functions = {n: which for which, names in FUNCTIONS.items() for n in names.split()}
    spaces = (mt, mt.linalg, mt.nn.functional)
    seen = 0
    for which, names in lists_of_pytorch().items():
        for name in names:
            if PLUMBING.fullmatch(name):
                continue
            if name in AS_OPERATIONS:
                found = {operations[n] for n in AS_OPERATIONS[name].split()}
            elif OF_UPSAMPLE.fullmatch(name):
                found = {functions["interpolate"]}
            elif any(hasattr(s, name) for s in spaces):
                found = {functions.get(name)}
            else:
                continue  # PyTorch has this function, and this library does not
            seen += 1
            assert found == {which}, name
    assert seen > 60


def test_no_function_is_listed_that_pytorch_does_not_list():
    theirs = lists_of_pytorch()
    composed = {  # of functions in PyTorch's lists
        "cross_entropy": "nll_loss", "interpolate": "upsample_bilinear2d", "inner": "tensordot",
        "gru_sequence": "gru_cell", "grid_sample": "grid_sampler", "lstm_sequence": "lstm_cell",
        "rnn_sequence": "rnn_tanh_cell",
    }  # fmt: skip
    for which, names in FUNCTIONS.items():
        if which in theirs:
            for name in names.split():
                assert composed.get(name, name) in theirs[which], name


def both(values, dtype="float32"):
    array = np.asarray(values, dtype)
    return mt.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)


# Functions in PyTorch's lists for the CPU as well as in those for CUDA.
ON_THE_CPU = {
    "linear": lambda lib, x, w: lib.nn.functional.linear(x, w),
    "matmul": lambda lib, x, w: x @ w.swapaxes(0, 1),
    "addmm": lambda lib, x, w: lib.addmm(w[:, 0], x, w.swapaxes(0, 1)),
    "conv1d": lambda lib, x, w: lib.nn.functional.conv1d(x[None], w[:, :3, None]),
    "attention": lambda lib, x, w: lib.nn.functional.scaled_dot_product_attention(
        x[None], w[None], w[None]
    ),
    "linear, gelu, linear": lambda lib, x, w: lib.nn.functional.linear(
        lib.nn.functional.gelu(lib.nn.functional.linear(x, w)), w
    ),
    "mse_loss": lambda lib, x, w: lib.nn.functional.mse_loss(x @ w.swapaxes(0, 1), x.sum() + x),
    "cross_entropy": lambda lib, x, w: lib.nn.functional.cross_entropy(
        x @ w.swapaxes(0, 1), lib.arange(3)
    ),
    "kl_div": lambda lib, x, w: lib.nn.functional.kl_div(
        x, w[:3].exp(), reduction="batchmean"
    ),
}  # fmt: skip
SHAPES = {"x": (3, 5), "w": (5, 5)}


@pytest.mark.parametrize("name", ON_THE_CPU)
def test_forward_and_backward(rng, name):
    x, w = (rng.uniform(-1, 1, shape) for shape in SHAPES.values())
    results = []
    for lib, x1, w1, region in (
        (mt, mt.tensor(x.astype("f4")), mt.tensor(w.astype("f4")), mt.autocast("cpu")),
        (torch, torch.tensor(x.astype("f4")), torch.tensor(w.astype("f4")),
         torch.autocast("cpu", torch.float16)),
    ):  # fmt: skip
        x1.requires_grad_(), w1.requires_grad_()
        with region:
            y = ON_THE_CPU[name](lib, x1, w1)
        y.float().square().sum().backward()
        grads = [p.grad for p in (x1, w1)]
        results.append([y.detach(), *[g for g in grads if g is not None]])
    for ours, theirs in zip(*results, strict=True):
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
        ours, theirs = ours.numpy().astype("f8"), theirs.numpy().astype("f8")
        np.testing.assert_allclose(ours, theirs, rtol=4e-3, atol=4e-3 * np.abs(theirs).max())


HALF_FUNCTIONS = {
    "sum": lambda lib, x: x.sum(-1),
    "mean": lambda lib, x: x.mean(),
    "softmax": lambda lib, x: x.softmax(-1),
    "log_softmax": lambda lib, x: x.log_softmax(-1),
    "logsumexp": lambda lib, x: x.logsumexp(-1),
    "exp": lambda lib, x: x.exp(),
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (257,)),
    "rms_norm": lambda lib, x: lib.nn.functional.rms_norm(x, (257,)),
    "gelu": lambda lib, x: lib.nn.functional.gelu(x),
    "gelu tanh": lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"),
    "masked attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(
        x[None, :, :64], x[None, :, 64:128], x[None, :, 128:192], x[None, :, :31]
    ),
    "long causal attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(
        *x[None, :, :96].reshape(3, 1, 62, 16).unbind(0), is_causal=True
    ),
    "silu": lambda lib, x: lib.nn.functional.silu(x),
    "matmul": lambda lib, x: x @ x.swapaxes(0, 1),
    "var": lambda lib, x: x.var(-1),
    "norm": lambda lib, x: lib.linalg.vector_norm(x, dim=-1),
    "cross_entropy": lambda lib, x: lib.nn.functional.cross_entropy(x, lib.arange(31)),
    "attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(
        x[None, :, :64], x[None, :, 64:128], x[None, :, 128:192], is_causal=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HALF_FUNCTIONS)
def test_float16_is_as_accurate_as_pytorchs(rng, name):
    """Against float64: our error is at most PyTorch's, or three roundings to float16."""
    array = rng.standard_normal((31, 257)).astype("float16") * np.float16(2)
    exact = HALF_FUNCTIONS[name](torch, torch.tensor(array.astype("f8"))).numpy()
    ours = HALF_FUNCTIONS[name](mt, mt.tensor(array))
    theirs = HALF_FUNCTIONS[name](torch, torch.tensor(array))
    assert ours.dtype == "float16" and theirs.dtype == torch.float16
    rounding = np.spacing(np.abs(exact).astype("float16")).astype("f8")
    error = np.abs(ours.numpy().astype("f8") - exact) / rounding
    theirs_error = np.abs(theirs.numpy().astype("f8") - exact) / rounding
    assert error.max() <= max(theirs_error.max(), 3.0)


GRADIENTS = [1.0, 2e4, math.inf, 1e-3, math.nan, 0.5, 3.0, 3.0, 1e38, 7.0, 7.0, 7.0, -math.inf, 1.0]


@pytest.mark.parametrize("clips", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"init_scale": 8.0, "growth_interval": 2},
        {"init_scale": 65536.0, "growth_factor": 1.1, "backoff_factor": 0.3, "growth_interval": 1},
        {"init_scale": 3e38, "growth_interval": 1},
        {"enabled": False},
    ],
)
def test_the_scaler_step_by_step(options, clips):
    """The same scales, skipped steps and parameters, step by step."""
    traces = []
    for lib in (mt, torch):
        scaler = lib.amp.GradScaler("cpu", **options)
        p, q = (lib.nn.Parameter(lib.ones(3)) for _ in range(2))
        optimizers = [lib.optim.SGD([p], lr=0.01), lib.optim.AdamW([q], lr=0.01)]
        trace = []
        for g in GRADIENTS:
            for optimizer in optimizers:
                optimizer.zero_grad()
            scaler.scale((p * g).sum() + (q * 2.0).sum()).backward()
            for optimizer, parameter in zip(optimizers, (p, q), strict=True):
                if clips:
                    scaler.unscale_(optimizer)
                    lib.nn.utils.clip_grad_norm_([parameter], 1.0)
                scaler.step(optimizer)
            scaler.update()
            trace.append([scaler.get_scale(), *p.tolist(), *q.tolist()])
        state = scaler.state_dict()
        traces.append((trace, state))
    (ours, state), (theirs, their_state) = traces
    assert [row[0] for row in ours] == [row[0] for row in theirs]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert state == their_state


def test_a_state_of_pytorch_is_loaded():
    theirs = torch.amp.GradScaler("cpu", init_scale=32.0)
    theirs.scale(torch.ones(()))
    ours = mt.amp.GradScaler("cpu")
    ours.load_state_dict(theirs.state_dict())
    assert ours.get_scale() == 32.0


@pytest.mark.parametrize("kind", ["GradScaler", "autocast"])
def test_arguments_are_those_of_pytorch(kind):
    import inspect

    ours, theirs = (
        [(p.name, p.default) for p in inspect.signature(getattr(lib.amp, kind)).parameters.values()]
        for lib in (mt, torch)
    )
    if kind == "autocast":  # device_type has a default here
        ours[0] = theirs[0]
    assert ours == theirs
