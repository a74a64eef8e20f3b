"""Time every kernel and the composed version of its operation, forward and backward."""

from contextlib import contextmanager

from .timing import summary, turns

__all__ = ["CASES", "compare", "without_case", "without_kernels"]

ROWS, WIDTH = 4096, 1024
HEADS, TOKENS, DIM = 8, 512, 64


def _numbers(*shape):
    import minitorch_attn as mt

    return mt.randn(*shape, device="cuda", requires_grad=True)


def _of_rows(call):
    """Return a case for `CASES` that applies `call` to a random matrix (rows, width)."""

    def make(rows, width):
        x = _numbers(rows, width)
        return lambda: call(x), [x]

    return make


def _softmax(name):
    import minitorch_attn as mt

    return _of_rows(lambda x: getattr(mt, name)(x, -1))


def _masked_softmax(rows, width):
    import minitorch_attn as mt
    from minitorch_attn.ops.softmax import masked_softmax

    x, mask = _numbers(rows, width), mt.rand(width, device="cuda") < 0.5
    return lambda: masked_softmax(x, mask, -1), [x]


def _norm(name):
    from minitorch_attn.nn import functional as F

    def make(rows, width):
        x, *parameters = [_numbers(rows, width)] + [
            _numbers(width) for _ in range(2 if name == "layer_norm" else 1)
        ]
        return lambda: getattr(F, name)(x, (width,), *parameters), [x, *parameters]

    return make


def _cross_entropy(rows, width):
    import minitorch_attn as mt
    from minitorch_attn.nn import functional as F

    x, labels = _numbers(rows, width), mt.randint(0, width, (rows,), device="cuda")
    return lambda: F.cross_entropy(x, labels), [x]


def _activation(name, **settings):
    from minitorch_attn.nn import functional as F

    return _of_rows(lambda x: getattr(F, name)(x, **settings))


def _dropout(rows, width):
    from minitorch_attn.nn import functional as F

    x = _numbers(rows, width)
    return lambda: F.dropout(x, 0.1, training=True), [x]


def _embedding(rows, width):
    import minitorch_attn as mt
    from minitorch_attn.nn import functional as F

    table, ids = _numbers(rows, width), mt.randint(0, rows, (rows,), device="cuda")
    return lambda: F.embedding(ids, table), [table]


def _feed_forward(rows, width):
    from minitorch_attn.ops.feed_forward import feed_forward

    inputs = [
        _numbers(*shape)
        for shape in ((rows, width), (4 * width, width), (4 * width,), (width, 4 * width), (width,))
    ]
    return lambda: feed_forward(*inputs), inputs


def _linear(rows, width):
    from minitorch_attn.nn import functional as F

    inputs = [_numbers(rows, width), _numbers(width, width), _numbers(width)]
    return lambda: F.linear(*inputs), inputs


def _roll(rows, width):
    import minitorch_attn as mt

    x = _numbers(rows, width)
    return lambda: mt.roll(x, (3, 5), (0, 1)), [x]


def _largest_at(rows, width):
    import minitorch_attn as mt

    x, source = _numbers(rows, width).detach(), _numbers(rows, width).detach()
    index = mt.randint(0, rows, (rows, width), device="cuda")
    return lambda: x.scatter_reduce(0, index, source, "amax"), []


def _attention(**settings):
    from minitorch_attn.nn import functional as F

    def make(rows, width):
        tokens, dim = min(TOKENS, rows), min(DIM, width)
        inputs = [_numbers(1, HEADS, tokens, dim) for _ in range(3)]
        return lambda: F.scaled_dot_product_attention(*inputs, **settings), inputs

    return make


def _adamw(rows, width):
    import minitorch_attn as mt

    parameters = [mt.nn.Parameter(_numbers(rows, width)) for _ in range(4)]
    for parameter in parameters:
        parameter.grad = mt.ones_like(parameter)
    optimizer = mt.optim.AdamW(parameters, lr=1e-3)

    def step():
        mt.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step, []


# name -> (function of (rows, width) that returns a call and its leaves, names of the operations)
CASES = {
    "softmax": (lambda *size: _softmax("softmax")(*size), "Softmax"),
    "log-softmax": (lambda *size: _softmax("log_softmax")(*size), "LogSoftmax"),
    "masked softmax": (_masked_softmax, "MaskedSoftmax"),
    "LayerNorm": (lambda *size: _norm("layer_norm")(*size), "LayerNorm"),
    "RMSNorm": (lambda *size: _norm("rms_norm")(*size), "RMSNorm"),
    "cross-entropy": (_cross_entropy, "CrossEntropy"),
    "GELU": (lambda *size: _activation("gelu")(*size), "Gelu"),
    "GELU by tanh": (lambda *size: _activation("gelu", approximate="tanh")(*size), "GeluTanh"),
    "SiLU": (lambda *size: _activation("silu")(*size), "Silu"),
    "ReLU": (lambda *size: _activation("relu")(*size), "Relu"),
    "dropout": (_dropout, "Dropout draw_mask"),
    "embedding": (_embedding, "RowSum store_largest"),
    "feed-forward": (_feed_forward, "FeedForward FeedForwardInBlocks"),
    "linear": (_linear, "Linear"),
    "roll": (_roll, "Roll"),
    "scatter with maximum": (_largest_at, "extreme_at"),
    "attention": (lambda *size: _attention()(*size), "Attention TiledAttention"),
    "causal attention": (lambda *size: _attention(is_causal=True)(*size), "CausalAttention"),
    "clipping and AdamW": (
        _adamw, "AdamW Adam join scale_all square_root_of_sum_of_squares",
    ),
}  # fmt: skip


@contextmanager
def without_kernels():
    """Context manager in which every operation runs its composed version."""
    from minitorch_attn.backend.kernel_table import kernels

    saved = dict(kernels)
    kernels.clear()
    try:
        yield
    finally:
        kernels.update(saved)


def compare(name, rows=ROWS, width=WIDTH, rounds=7, seconds=0.1):
    """Time an operation, forward and backward, with its kernels and in its composed version.

    Parameters
    ----------
    name : str
        A key of `CASES`.
    rows, width : int
        Size of the operation's input.
    rounds : int
    seconds : float

    Returns
    -------
    dict
        Milliseconds of both versions, and the time of the composed version divided by the kernel's.
    """
    call, leaves = CASES[name][0](rows, width)

    def kernel():
        for leaf in leaves:
            leaf.grad = None
        y = call()
        if leaves:
            y.sum().backward()

    def composed():
        with without_kernels():
            kernel()

    times = turns({"kernel": kernel, "composed": composed}, rounds, seconds)
    ratios = [b / a for a, b in zip(times["kernel"], times["composed"], strict=True)]
    return {
        "kernel_ms": summary(times["kernel"])["ms"],
        "composed_ms": summary(times["composed"])["ms"],
        "ratio": summary(ratios)["ms"], "ratio_range": [min(ratios), max(ratios)],
    }  # fmt: skip


def without_case():
    """Return the names of the operations that have a kernel, but not a case in `CASES`."""
    import minitorch_attn as mt
    from minitorch_attn.backend.kernel_table import kernels

    mt.zeros(1, device="cuda")  # the first use of the GPU fills the table
    covered = {name for _, names in CASES.values() for name in names.split()}
    return sorted({function.__name__ for function in kernels} - covered)
