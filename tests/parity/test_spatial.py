"""Convolution, pooling, folding, interpolation and channel norms."""

import numpy as np
import pytest
from parity.comparing import Op, checks, torch

import minitorch_attn as mt
from minitorch_attn.nn import functional as F

BATCHES = ((), (1,), (2,), (3,), (2,), (0,))


def float_type(d):
    return d.choice("float64", "float64", "float64", "float32")


def numbers(d, axes, low, high):
    """One number for all axes of space, or one per axis."""
    if d.flag():
        return d.integer(low, high)
    return tuple([d.integer(low, high) for _ in range(axes)])


def convolved(axes):
    def draw(d):
        dtype, groups = float_type(d), d.choice(1, 1, 2, 3)
        ins, outs = groups * d.integer(1, 2), groups * d.integer(1, 2)
        x = d.tensor(
            (*d.choice(*BATCHES), ins, *[d.integer(1, 6) for _ in range(axes)]), dtype=dtype
        )
        kernel = [d.integer(1, 3) for _ in range(axes)]
        taken = ins // groups + d.rarely()
        args = [x, d.tensor((outs, taken, *kernel), dtype=dtype)]
        args.append(d.tensor((outs,), dtype=dtype) if d.flag() else None)
        named = {"padding": d.choice("same", "valid"), "stride": d.choice(1, 1, 2)}
        if d.integer(0, 3):
            named = {"padding": numbers(d, axes, 0, 2), "stride": numbers(d, axes, 1, 3)}
        return *args, {**named, "dilation": numbers(d, axes, 1, 3), "groups": groups}

    return Op(f"nn.functional.conv{axes}d", draw)


def transposed(axes):
    """PyTorch lets an empty batch have any output padding, and in float32 an output be empty."""

    def draw(d):
        dtype, groups = "float64", d.choice(1, 1, 2, 3)
        ins, outs = groups * d.integer(1, 2), groups * d.integer(1, 2)
        x = d.tensor(
            (*d.choice(*BATCHES[:5]), ins, *[d.integer(1, 5) for _ in range(axes)]), dtype=dtype
        )
        kernel = [d.integer(1, 3) for _ in range(axes)]
        args = [x, d.tensor((ins, outs // groups, *kernel), dtype=dtype)]
        args.append(d.tensor((outs,), dtype=dtype) if d.flag() else None)
        named = {"padding": numbers(d, axes, 0, 2), "stride": numbers(d, axes, 1, 3)}
        named["output_padding"] = numbers(d, axes, 0, d.choice(0, 1, 2))
        return *args, {**named, "dilation": numbers(d, axes, 1, 3), "groups": groups}

    return Op(f"nn.functional.conv_transpose{axes}d", draw)


test_conv = checks(*[convolved(n) for n in (1, 2, 3)])
test_conv_transpose = checks(*[transposed(n) for n in (1, 2, 3)])


def image(d, axes, low, high, batches=BATCHES[:5]):
    space = [d.integer(low, high) for _ in range(axes)]
    return d.tensor((*d.choice(*batches), d.integer(1, 3), *space), dtype=float_type(d))


def pooled(kind, axes):
    def draw(d):
        x = image(d, axes, 4 if (kind, axes) == ("avg", 3) else 2, 8)
        named = {"kernel_size": numbers(d, axes, 1, 4), "ceil_mode": d.flag()}
        named |= d.some(stride=numbers(d, axes, 1, 3), padding=numbers(d, axes, 0, 2))
        if kind == "max":
            named |= d.some(dilation=numbers(d, axes, 1, 2), return_indices=True)
        else:
            named |= d.some(count_include_pad=d.flag())
            if axes > 1:
                named |= d.some(divisor_override=d.choice(1, 3, -2))
        return x, named

    return Op(f"nn.functional.{kind}_pool{axes}d", draw, wild=kind == "max")


def shared_out(kind, axes):
    def draw(d):
        x = image(d, axes, 1, 8)
        size = d.integer(1, 9)
        if axes > 1 and d.flag():
            size = tuple([d.choice(None, 1, 2, 3, 5, 9) for _ in range(axes)])
        return x, size, *([d.flag()] if kind == "max" else [])

    return Op(f"nn.functional.adaptive_{kind}_pool{axes}d", draw, wild=kind == "max")


test_max_pool = checks(*[pooled("max", n) for n in (1, 2, 3)])
test_avg_pool = checks(*[pooled("avg", n) for n in (1, 2, 3)])
test_adaptive_pool = checks(
    *[shared_out("avg", n) for n in (1, 2, 3)], *[shared_out("max", n) for n in (1, 2)]
)


def patches(d):
    return {
        "kernel_size": numbers(d, 2, 1, 3),
        **d.some(
            dilation=numbers(d, 2, 1, 2), padding=numbers(d, 2, 0, 2), stride=numbers(d, 2, 1, 3)
        ),
    }


def unfolded(d):
    return image(d, 2, 1, 7, BATCHES), patches(d)


def folded(d):
    how, size = patches(d), (d.integer(1, 7), d.integer(1, 7))

    def pair(name, default):
        value = how.get(name, default)
        return (value, value) if isinstance(value, int) else value

    kernel, places = pair("kernel_size", 1), 1
    for axis in range(2):
        reach = pair("dilation", 1)[axis] * (kernel[axis] - 1) + 1
        room = size[axis] + 2 * pair("padding", 0)[axis] - reach
        places *= max(room // pair("stride", 1)[axis] + 1, 1)
    rows = d.integer(1, 2) * kernel[0] * kernel[1] + d.rarely()
    return d.tensor((*d.choice(*BATCHES[:5]), rows, places), dtype=float_type(d)), size, how


test_unfold_and_fold = checks(
    Op("nn.functional.unfold", unfolded), Op("nn.functional.fold", folded)
)


def resized(mode, axes):
    """Where PyTorch agrees with itself.

    With `antialias` and an output of width 1 it gives other columns than for the transposed image.
    In the nearest modes over one or three axes its own gradient belongs to other positions for
    some `scale_factor`.
    """
    smooth = mode in ("bilinear", "bicubic", "lanczos")

    def draw(d):
        least = 4 if smooth else 1
        x = image(d, axes, least, 7, ((1,), (2,), (0,) if mode != "area" else (1,)))
        named = {"mode": mode, "size": numbers(d, axes, 2 if smooth else 1, 9)}
        if d.flag():
            factors = [d.choice(0.5, 0.7, 1.0, 1.3, 1.5, 2, 2.6, 3.0) for _ in range(axes)]
            named = {"mode": mode, "scale_factor": tuple(factors) if d.flag() else factors[0]}
            sizes_alone = mode.startswith("nearest") and axes != 2
            named["recompute_scale_factor"] = sizes_alone or d.choice(None, False, True)
        if mode in ("linear", "trilinear") or smooth or d.rarely():
            named["align_corners"] = d.choice(None, False, mode != "lanczos" or d.rarely())
        if smooth or d.rarely():
            named["antialias"] = d.choice(True, False, mode == "lanczos")
        return x, named

    return Op("nn.functional.interpolate", draw, label=f" {mode} over {axes}")


test_interpolate = checks(
    *[resized(mode, n) for mode in ("nearest", "nearest-exact", "area") for n in (1, 2, 3)],
    *[resized("linear", 1), resized("trilinear", 3)],
    *[resized(mode, 2) for mode in ("bilinear", "bicubic", "lanczos")],
)


def sampled(mode, padding, axes):
    """Positions inside and outside, none on an edge, where derivatives jump."""

    def draw(d):
        batch, dtype = d.integer(1, 2), "float64"
        space = [d.integer(1, 4) for _ in range(axes)]
        x = d.tensor((batch, d.integer(1, 3), *space), dtype=dtype)
        out = [d.integer(0 if i else 1, 3) for i in range(axes)]
        reach = d.choice(0.9, 2.9)
        grid = d.tensor((batch, *out, axes), dtype=dtype, low=-reach, high=reach, ties=False)
        named = {"mode": mode, "padding_mode": padding, "align_corners": d.flag()}
        return x, grid, named

    return Op("nn.functional.grid_sample", draw, label=f" {mode} over {axes}, {padding}")


def mapped(d):
    axes, batch = d.integer(2, 3), d.integer(1, 3)
    size = (batch, d.integer(1, 3), *[d.integer(1, 4) for _ in range(axes)])
    theta = d.tensor((batch, axes, axes + 1 + d.rarely()), dtype=float_type(d))
    return theta, size, {"align_corners": d.flag()}


PADDINGS = ("zeros", "border", "reflection")
test_grid_sample = checks(
    *[sampled(mode, p, n) for mode in ("bilinear", "nearest") for p in PADDINGS for n in (2, 3)],
    *[sampled("bicubic", p, 2) for p in PADDINGS],
    Op("nn.functional.affine_grid", mapped),
)


def shuffled(sign):
    def draw(d):
        # An empty image comes back from PyTorch's pixel_unshuffle as it was.
        r, lead = d.integer(1, 3), d.filled(0, 2)
        tail = (d.integer(1, 2) * r * r + d.rarely(), 2, 3) if sign > 0 else (2, 3 * r, r)
        return d.tensor((*lead, *tail)), r

    return draw


test_pixel_shuffle = checks(
    Op("pixel_shuffle", shuffled(1), method=False),
    Op("pixel_unshuffle", shuffled(-1), method=False),
)


def normed(name):
    def draw(d):
        groups, dtype = d.integer(1, 3), float_type(d)
        channels = groups * d.integer(1, 3)
        space = [d.integer(1, 4) for _ in range(d.integer(0, 3))]
        # PyTorch's gradients of batch_norm err for some strides of the input and of the weight.
        layout = "plain" if name == "batch_norm" else None
        x = d.tensor((d.integer(1, 3), channels, *space), dtype=dtype, ties=False, layout=layout)
        both, parameters = d.integer(0, 2), [None, None]
        if both:  # PyTorch has no second derivative with a bias alone
            parameters = [d.tensor((channels,), dtype=dtype, layout=layout) for _ in range(both)]
        weight, bias = (*parameters, None)[:2]
        named = {"weight": weight, "bias": bias, "eps": d.choice(0.1, 0.5)}
        if name == "group_norm":
            return x, groups + d.rarely(), named
        own = d.flag()
        flag = "training" if name == "batch_norm" else "use_input_stats"
        running = None, None
        if not own or (name == "batch_norm" and d.flag()):
            mean = d.tensor((channels,), dtype=dtype, grad=False, layout="plain")
            running = (
                mean,
                d.tensor((channels,), "f", 0.5, 2, dtype=dtype, grad=False, layout="plain"),
            )
        # Nothing moves the running statistics: both libraries share their memory.
        return x, *running, {**named, flag: own, "momentum": 0.0}

    return Op(f"nn.functional.{name}", draw)


test_channel_norms = checks(*[normed(n) for n in ("batch_norm", "instance_norm", "group_norm")])


@pytest.mark.parity
@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
@pytest.mark.parametrize("draw", range(10))
def test_running_statistics(device, name, draw):
    rng = np.random.default_rng(draw)
    x = rng.normal(size=(int(rng.integers(1, 4)), 3, int(rng.integers(2, 6)))) * 3 + 1
    running = rng.normal(size=3), rng.uniform(0.5, 2, 3)
    momentum = float(rng.uniform(0, 1))
    own = [mt.tensor(a, device=device) for a in running]
    theirs = [torch.tensor(a) for a in running]
    getattr(F, name)(mt.tensor(x, device=device), *own, None, None, True, momentum)
    getattr(torch.nn.functional, name)(torch.tensor(x), *theirs, None, None, True, momentum)
    for a, b in zip(own, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11)
