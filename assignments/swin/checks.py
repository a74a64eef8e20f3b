"""Checks of the Swin assignment. The expected values come from the library or NumPy."""

import numpy as np

from minitorch_attn.grader.build.checking import call_check, check, gradient_check, layer_check

WINDOWS = "minitorch_attn.ops.windows:"
ATTENTION = "minitorch_attn.models.window_attention:WindowAttention"
BIAS = "minitorch_attn.models.window_attention:RelativePositionBias"
BLOCK = "minitorch_attn.models.swin:Block"


def plain_windows(x, size):
    """Return the windows of a map, cut out one by one."""
    batch, height, width, embed = x.shape
    found = [
        x[:, r : r + size[0], c : c + size[1]].reshape(batch, -1, embed)
        for r in range(0, height, size[0])
        for c in range(0, width, size[1])
    ]
    return np.stack(found, 1)


def partition(rng):
    made = []
    for size in ([2, 3], [3, 2], [6, 6]):
        x = rng.normal(size=(2, 6, 12, 5))
        expected = {"output": plain_windows(x, size)}
        keywords = {"window_size": size}
        name = f"windows of {size}"
        made.append(
            call_check(name, WINDOWS + "window_partition", {"x": x}, keywords, expected=expected)
        )
    return made


def merge(rng):
    made = []
    for size in ([2, 3], [3, 2], [6, 6]):
        x = rng.normal(size=(2, 6, 12, 5))
        arguments = {"windows": plain_windows(x, size)}
        keywords = {"window_size": size, "height": 6, "width": 12}
        name = f"windows of {size}"
        made.append(
            call_check(name, WINDOWS + "window_merge", arguments, keywords, expected={"output": x})
        )
    return made


def merge_gradients(rng):
    size = rng.integers(2, 4, 2).tolist()
    x = rng.normal(size=(2, 2 * size[0], 3 * size[1], 5))
    windows = {"windows": plain_windows(x, size)}
    keywords = {"window_size": size, "height": x.shape[1], "width": x.shape[2]}
    there = call_check("there", WINDOWS + "window_partition", {"x": x}, {"window_size": size})
    back = call_check("back", WINDOWS + "window_merge", windows, keywords)
    return [gradient_check(there, rng), gradient_check(back, rng)]


def _numbers(function, cases):
    return [call_check(f"{keywords}", WINDOWS + function, {}, keywords) for keywords in cases]


def relative_index(rng):
    sizes = rng.integers(2, 6, (3, 2)).tolist()
    return _numbers("relative_position_index", [{"window_size": s} for s in [*sizes, [2, 5]]])


def relative_index_any(rng):
    sizes = [[1, 5], [4, 1], [1, 1], [3, 7]]
    return _numbers("relative_position_index", [{"window_size": size} for size in sizes])


def _shifted(function, cases):
    keys = ("height", "width", "window_size", "shift_size")
    return _numbers(function, [dict(zip(keys, case, strict=True)) for case in cases])


def regions(rng):
    return _shifted(
        "window_regions", [(8, 12, [4, 4], [2, 2]), (6, 10, [3, 5], [1, 2]), (8, 8, [4, 2], [3, 1])]
    )


def regions_one_axis(rng):
    return _shifted(
        "window_regions", [(8, 8, [4, 4], [0, 2]), (8, 8, [4, 4], [2, 0]), (4, 4, [4, 4], [2, 2])]
    )


def mask(rng):
    return _shifted(
        "shifted_window_mask",
        [(8, 12, [4, 4], [2, 2]), (6, 10, [3, 5], [1, 2]), (8, 8, [4, 2], [3, 1])],
    )


def position_bias(rng):
    return [
        layer_check(f"windows of {size}", BIAS, {"window_size": size, "num_heads": 3}, {}, rng)
        for size in ([2, 3], [4, 4])
    ]


MAKE = {"embed_dim": 8, "num_heads": 2, "window_size": [2, 3]}


def _attended(name, rng, windows, tensors=None):
    return layer_check(name, ATTENTION, MAKE, {"windows": windows}, rng, tensors=tensors)


def window_attention(rng):
    windows = rng.normal(size=(2, 4, 6, 8))
    attend = rng.random((4, 6, 6)) < 0.6
    attend |= np.eye(6, dtype=bool)
    return [
        _attended("no mask", rng, windows),
        _attended("a mask", rng, windows, {"mask": attend}),
    ]


def window_attention_gradients(rng):
    attend = rng.random((3, 6, 6)) < 0.6
    attend |= np.eye(6, dtype=bool)
    windows = rng.normal(size=(int(rng.integers(2, 4)), 3, 6, 8))
    return [gradient_check(_attended("a mask", rng, windows, {"mask": attend}), rng)]


def two_windows(inputs, settings):
    """Return the outputs of all windows.

    `no_leak` calls this function twice, the second time with all windows but the first changed.
    """
    import minitorch_attn as mt
    from minitorch_attn.models.window_attention import WindowAttention

    layer = WindowAttention(8, 2, (2, 3)).double().eval()
    with mt.no_grad():
        for path, parameter in layer.named_parameters():
            parameter.data = mt.tensor(inputs[path])
        found = layer(mt.tensor(inputs["windows"])).numpy()
    return {"output": found}


def no_leak(rng):
    base = _attended("", rng, rng.normal(size=(2, 4, 6, 8)))
    arrays = {key.removeprefix("parameter "): array for key, array in base.inputs.items()}
    truth = two_windows(arrays, {})["output"]
    changed = {**arrays, "windows": arrays["windows"].copy()}
    changed["windows"][:, 1:] += 5.0
    found = two_windows(changed, {})["output"]
    found[:, 0] = truth[:, 0]
    return [
        check("original windows", two_windows, arrays, {}, expected={"output": truth}),
        check("other windows changed", two_windows, changed, {}, expected={"output": found}),
    ]


def merged(name, rng, shape):
    function = "minitorch_attn.models.swin:merge_neighbours"
    return call_check(name, function, {"x": rng.normal(size=shape)})


def merging(rng):
    return [merged("6 by 4", rng, (2, 6, 4, 5)), merged("2 by 8", rng, (1, 2, 8, 3))]


def merging_gradients(rng):
    height, width = (2 * rng.integers(1, 4, 2) + 1).tolist()
    return [gradient_check(merged("odd", rng, (2, height, width, 3)), rng)]


def merging_odd(rng):
    return [
        merged("5 by 4", rng, (2, 5, 4, 3)),
        merged("4 by 5", rng, (2, 4, 5, 3)),
        merged("3 by 7", rng, (2, 3, 7, 3)),
    ]


def block_method(inputs, settings):
    """Run a method of a block whose attention is replaced by a function of windows and mask."""
    import minitorch_attn as mt
    from minitorch_attn.models.swin import Block

    class Plain(mt.nn.Module):
        def forward(self, windows, mask=None):
            y = windows * windows + windows.sum(2, keepdim=True) * 0.3
            return y if mask is None else y + mask.double() @ windows

    block = Block(4, 2, settings["window"], settings["shift"], 8).double().eval()
    block.attention, block.pad_first = Plain(), settings.get("pad_first", True)
    x = mt.tensor(inputs["x"])
    result = getattr(block, settings["method"])(x, **settings.get("keywords", {}))
    return {"output": result.contiguous().numpy()}


def _method(name, method, rng, shape, window=(2, 3), shift=(1, 1), **more):
    settings = {"method": method, "window": list(window), "shift": list(shift), **more}
    return check(name, block_method, {"x": rng.normal(size=shape)}, settings)


def padding(rng):
    return [
        _method("5 by 7", "_pad", rng, (2, 5, 7, 4)),
        _method("4 by 6", "_pad", rng, (2, 4, 6, 4)),
    ]


def shift(rng):
    there = _method("there", "_shift", rng, (2, 5, 7, 4), shift=(1, 2))
    back = _method("back", "_shift", rng, (2, 5, 7, 4), shift=(1, 2), keywords={"back": True})
    return [there, back, _method("none", "_shift", rng, (2, 5, 7, 4), shift=(0, 0))]


def block(rng):
    return [
        _method("shifted", "attend", rng, (2, 4, 6, 4)),
        _method("another window", "attend", rng, (2, 8, 8, 4), window=(4, 2), shift=(2, 1)),
    ]


def block_any(rng):
    return [
        _method("5 by 7", "attend", rng, (2, 5, 7, 4)),
        _method("padded after the shift", "attend", rng, (2, 5, 7, 4), pad_first=False),
        _method("no shift", "attend", rng, (2, 4, 6, 4), shift=(0, 0)),
        _method("one axis", "attend", rng, (2, 4, 6, 4), shift=(0, 1)),
    ]


def block_gradients(rng):
    make = {
        "embed_dim": 8, "num_heads": 2, "window_size": [2, 3], "shift_size": [1, 1],
        "hidden_dim": 12,
    }  # fmt: skip
    made = []
    for height, width in ((4, 6), (5, int(rng.integers(7, 9)))):
        x = {"x": rng.normal(size=(2, height, width, 8))}
        one = layer_check(f"{height} by {width}", BLOCK, make, x, rng, method="attend")
        made.append(gradient_check(one, rng))
    return made
