"""`nn.functional`: activations, norms, dropout without randomness, attention, padding."""

from parity.comparing import Op, checks

F = "nn.functional."


def one(**options):
    """One operand, and some of the settings, by name; most draws keep the defaults."""

    def draw(d):
        ties = "threshold" not in options  # where softplus jumps, only PyTorch has two derivatives
        chosen = {name: d.choice(*values) for name, values in options.items() if d.flag()}
        return d.tensor(low=-4, high=4, ties=ties), chosen

    return draw


def gated(d):
    x = d.tensor()
    return x, d.axis(x)


def sloped(d):
    """An input and one slope, or one for each channel; now and then for too many."""
    x = d.tensor(d.filled(), ties=False)  # PyTorch's second derivative at the kink is another
    channels = x.shape[1] if x.ndim > 1 else 1
    return x, d.tensor((d.choice(1, channels) + d.rarely(),), dtype=x.dtype)


def rows(d):
    """An input, the shape of its last axes, and parameters of that shape."""
    # grad: for the bias alone PyTorch's second derivative is 0.
    x = d.tensor(d.shape(1), dtype=d.dtype(), grad=True)
    shape = x.shape[-d.integer(1, x.ndim) :]
    if d.rarely():
        shape = (*shape[:-1], shape[-1] + 1)
    make = [d.choice(None, d.tensor(shape, dtype=x.dtype)) for _ in range(2)]
    return x, shape, make


def layer_norm(d):
    x, shape, (weight, bias) = rows(d)
    return x, shape, weight, bias, d.some(eps=0.1)


def rms_norm(d):
    x, shape, (weight, _) = rows(d)
    return x, shape, weight, d.some(eps=0.1)


def padded(d):
    x = d.tensor(d.shape(1, 4), layout=None)
    count = d.integer(1, x.ndim)
    sizes = tuple([d.choice(0, 1, 2, -1) for _ in range(2 * count)])
    return x, sizes, d.choice({}, {"value": d.choice(0.5, -1, float("-inf"))})


def padded_by_contents(d):
    """The modes that continue the image: of the last 1, 2 or 3 axes."""
    axes = d.integer(1, 3)
    x = d.tensor((*d.filled(d.choice(1, 2), 2)[-2:], *[d.integer(2, 5) for _ in range(axes)]))
    mode = d.choice("reflect", "replicate", "circular")
    high = 2 if mode == "reflect" and d.rarely() else 1
    sizes = tuple([d.integer(0, high + (mode != "reflect")) for _ in range(2 * axes)])
    return x, sizes, {"mode": mode}


def attention(d):
    batch, heads, dtype = d.choice((), (2,), (1, 3)), d.choice((), (2,)), d.dtype()
    queries, keys, size, values = (d.choice(3, 1, 4, 2) for _ in range(4))
    query = d.tensor((*batch, *heads, queries, size), dtype=dtype)
    key = d.tensor((*batch, *heads, keys + 0, size + d.rarely()), dtype=dtype)
    value = d.tensor((*batch, *heads, keys, values), dtype=dtype)
    mask_shape = (queries, keys)
    mask = d.choice(None, d.tensor(mask_shape, dtype=dtype), seen(d, mask_shape))
    options = d.some(scale=d.choice(0.3, 2.0))
    if mask is None:
        return query, key, value, options | d.some(is_causal=d.flag())
    return query, key, value, mask, options


def seen(d, shape):
    """A boolean mask in which every query sees something: a blind one is another test's."""
    mask = d.mask(shape)
    host = mask.host.copy()
    host[..., 0] = True
    mask.host = host
    return mask


def still(d):
    """Dropout that drops nothing, or everything."""
    x = d.tensor()
    return x, d.choice({"training": False}, {"p": 0.0}, {"p": 1.0}, {"p": 1.5})


def still_channels(space):
    """The same for whole channels, with and without a batch."""

    def draw(d):
        x = d.tensor(d.shape(space + 1, space + 2))
        return x, d.choice({"training": False}, {"p": 0.0}, {"p": 1.0}, {"p": 1.5})

    return draw


NEGATIVE = {"elu": {"alpha": (0.5, 2.0, 1)}, "celu": {"alpha": (0.5, 2.0)}, "selu": {},
            "leaky_relu": {"negative_slope": (0.2, 0.0, 1.5)}, "relu": {}, "relu6": {},
            "silu": {}, "mish": {}, "hardswish": {}, "hardsigmoid": {},
            "hardtanh": {"min_val": (-2.0, -0.5), "max_val": (2.0, 0.5)}, "logsigmoid": {},
            "gelu": {"approximate": ("tanh", "none", "other")},
            "softplus": {"beta": (2, 0.5), "threshold": (1, 5.0)}, "tanh": {},
            "sigmoid": {}}  # fmt: skip
test_activations = checks(
    # hardsigmoid: PyTorch's own 1/6 is a float32.
    *[Op(F + name, one(**settings), wild=True, coarse=name == "hardsigmoid")
      for name, settings in NEGATIVE.items()],
    Op("relu", lambda d: (d.tensor(kinds="fi"),)),
    Op("nn.functional.prelu", sloped),
    Op(F + "glu", gated),
)  # fmt: skip
test_norms = checks(Op(F + "layer_norm", layer_norm), Op(F + "rms_norm", rms_norm))
test_padding = checks(Op(F + "pad", padded), Op(F + "pad", padded_by_contents, label=" modes"))
test_attention = checks(Op(F + "scaled_dot_product_attention", attention))
test_dropout = checks(
    Op(F + "dropout", still),
    *[Op(F + f"dropout{n}d", still_channels(n)) for n in (1, 2, 3)],
)
