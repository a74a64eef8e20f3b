"""Checks of the ViT assignment: the library computes the expected values in float64."""

from minitorch_attn.grader.build.checking import call_check, check, gradient_check, layer_check

PATCHES = "minitorch_attn.models.vit:PatchEmbedding"
BLOCK = "minitorch_attn.models.vit:Block"
MODEL = "minitorch_attn.models.vit:VisionTransformer"
POSITIONS = "minitorch_attn.models.vit_positions:"


def images(rng, size=(6, 8), batch=2, channels=3):
    return {"images": rng.normal(size=(batch, channels, *size))}


def patches(rng):
    made = []
    for patch in ([2, 4], [3, 2], [6, 8]):
        make = {"patch_size": patch, "in_channels": 3, "embed_dim": 5}
        made.append(layer_check(f"patches of {patch}", PATCHES, make, images(rng), rng))
    return made


def patches_left_over(rng):
    make = {"patch_size": [4, 3], "in_channels": 3, "embed_dim": 5}
    one = {"patch_size": [3, 3], "in_channels": 1, "embed_dim": 4, "bias": False}
    return [
        layer_check("7 by 8", PATCHES, make, images(rng, (7, 8)), rng),
        layer_check("one channel", PATCHES, one, images(rng, channels=1), rng),
    ]


def patches_gradients(rng):
    size, patch = rng.integers(2, 4, 2).tolist(), rng.integers(2, 5, 2).tolist()
    make = {"patch_size": patch, "in_channels": 2, "embed_dim": 5}
    x = images(rng, [n * p for n, p in zip(size, patch, strict=True)], channels=2)
    return [gradient_check(layer_check(f"patches of {patch}", PATCHES, make, x, rng), rng)]


def the_grid(inputs, settings):
    """Return the number of rows and columns of patches in an image."""
    import numpy as np

    from minitorch_attn.models.vit import PatchEmbedding

    made = PatchEmbedding(tuple(settings["patch"]), in_channels=1, embed_dim=2)
    return {"output": np.array(made.grid(*settings["image"]))}


def grid(rng):
    return [
        check(f"{image}", the_grid, {}, {"patch": patch, "image": image})
        for image, patch in (([12, 20], [3, 4]), ([13, 9], [4, 2]))
    ]


SMALL = {
    "image_size": [4, 6], "patch_size": [2, 2], "num_classes": 5, "embed_dim": 8, "num_layers": 2,
    "num_heads": 2, "mlp_dim": 12,
}  # fmt: skip


def model_check(name, method, arguments, rng, **more):
    return layer_check(name, MODEL, {**SMALL, **more}, arguments, rng, method=method)


def class_token(rng):
    tokens = {"patches": rng.normal(size=(3, 6, 8))}
    return [
        model_check("a class token", "with_prefix", tokens, rng),
        model_check("none", "with_prefix", tokens, rng, pooling="mean"),
    ]


def embedding(rng):
    made = []
    for positions in ("1d", "2d", "none"):
        for pooling in ("class", "mean"):
            name = f"{positions}, {pooling}"
            more = {"positions": positions, "pooling": pooling}
            made.append(model_check(name, "embed", images(rng, (4, 6)), rng, **more))
    return made


def embedding_gradients(rng):
    batch, made = int(rng.integers(2, 5)), []
    for positions in ("1d", "2d"):
        x = images(rng, (4, 6), batch)
        one = model_check(f"{positions}, class", "embed", x, rng, positions=positions)
        made.append(gradient_check(one, rng))
    return made


def refused(inputs, settings):
    """Return, for each of four image sizes, whether the model rejects it."""
    import numpy as np

    import minitorch_attn as mt

    model = mt.models.VisionTransformer(**settings["make"])
    found = []
    for size in ((4, 6), (6, 4), (8, 6), (4, 8)):
        try:
            model.embed(mt.zeros(1, 3, *size))
            found.append(False)
        except mt.errors.ShapeError:
            found.append(True)
    return {"output": np.array(found)}


def embedding_refusals(rng):
    return [check("four sizes", refused, {}, {"make": {**SMALL, "positions": "none"}})]


def block_alone(inputs, settings):
    """Run the block with simple functions as its submodules, to check only the block's own code."""
    import minitorch_attn as mt
    from minitorch_attn.models.vit import Block

    class Map(mt.nn.Module):
        def __init__(self, factor, term):
            super().__init__()
            self.factor, self.term = factor, term

        def forward(self, x, mask=None):
            y = x * x * self.factor + self.term
            return y if mask is None else y * mask

    block = Block(4, 2, 6).double().eval()
    names = ("norm1", "attention", "norm2", "feed_forward", "dropout", "drop_path")
    for name, pair in zip(names, settings["maps"], strict=True):
        setattr(block, name, Map(*pair))
    mask = mt.tensor(inputs["mask"]) if "mask" in inputs else None
    return {"output": block(mt.tensor(inputs["x"]), mask).numpy()}


def _block(name, rng, **more):
    maps = (0.3 * rng.normal(size=(6, 2))).tolist()
    return check(name, block_alone, {"x": rng.normal(size=(2, 3, 4)), **more}, {"maps": maps})


def block(rng):
    make = {"embed_dim": 8, "num_heads": 2, "mlp_dim": 12}
    x = {"x": rng.normal(size=(2, 5, 8))}
    return [_block("order of the parts", rng), layer_check("real parts", BLOCK, make, x, rng)]


def block_gradients(rng):
    make = {"embed_dim": 8, "num_heads": 2, "mlp_dim": 12}
    x = {"x": rng.normal(size=(int(rng.integers(2, 4)), int(rng.integers(4, 9)), 8))}
    return [gradient_check(layer_check("the block", BLOCK, make, x, rng), rng)]


def block_mask(rng):
    return [_block("a mask", rng, mask=rng.normal(size=(2, 3, 4)))]


def encode(inputs, settings):
    """Run the encoder with a different simple function for each block and for the norm."""
    import minitorch_attn as mt

    class Map(mt.nn.Module):
        def __init__(self, factor, term):
            super().__init__()
            self.factor, self.term = factor, term

        def forward(self, x, mask=None):
            y = x * x * self.factor + self.term
            return y if mask is None else y + mask

    model = mt.models.VisionTransformer(**settings["make"]).double().eval()
    maps = [Map(*pair) for pair in settings["maps"]]
    model.blocks, model.norm = mt.nn.ModuleList(maps[:-1]), maps[-1]
    mask = mt.tensor(inputs["mask"]) if "mask" in inputs else None
    return {"output": model.encode(mt.tensor(inputs["x"]), mask).numpy()}


def encoder(rng):
    settings = {"make": SMALL, "maps": (0.3 * rng.normal(size=(4, 2))).tolist()}
    x, mask = rng.normal(size=(2, 2, 5, 8))
    return [
        check("three blocks", encode, {"x": x}, settings),
        check("with a mask", encode, {"x": x, "mask": mask}, settings),
    ]


def pooling(rng):
    tokens = {"tokens": rng.normal(size=(3, 7, 8))}
    return [model_check(kind, "pool", tokens, rng, pooling=kind) for kind in ("class", "mean")]


def model(rng):
    made = []
    for more in ({}, {"pooling": "mean"}, {"representation_dim": 7}, {"positions": "relative"}):
        made.append(model_check(f"{more}", "forward", images(rng, (4, 6)), rng, **more))
    return made


def model_gradients(rng):
    batch, made = int(rng.integers(2, 5)), []
    for more in ({}, {"pooling": "mean"}):
        one = model_check(f"{more}", "forward", images(rng, (4, 6), batch), rng, **more)
        made.append(gradient_check(one, rng))
    return made


def _table(name, grid, embed_dim, **more):
    keywords = {"grid": grid, "embed_dim": embed_dim, "dtype": "float64", **more}
    return call_check(name, POSITIONS + "sincos_positions", {}, keywords)


def sines(rng):
    rows, columns = (int(n) for n in rng.integers(2, 6, 2))
    return [_table(f"{rows} by {columns}", [rows, columns + 1], 8), _table("3 by 3", [3, 3], 12)]


def sines_order(rng):
    return [
        _table("rows first", [3, 4], 8, rows_first=True),
        _table("one row", [1, 6], 4),
        _table("one column", [5, 1], 16),
    ]


def _interpolated(name, rng, old, new, **more):
    table = {"table": rng.normal(size=(old[0] * old[1], 5))}
    keywords = {"old_grid": old, "new_grid": new, **more}
    return call_check(name, POSITIONS + "interpolate_positions", table, keywords, rtol=1e-6)


def interpolation(rng):
    return [
        _interpolated("finer", rng, [2, 3], [4, 6]),
        _interpolated("coarser", rng, [5, 4], [3, 2]),
        _interpolated("bilinear", rng, [2, 3], [5, 4], mode="bilinear"),
    ]


def interpolation_gradients(rng):
    old, new = rng.integers(2, 5, 2).tolist(), rng.integers(5, 8, 2).tolist()
    return [gradient_check(_interpolated(f"{old} to {new}", rng, old, new), rng)]


def wrong_table(inputs, settings):
    """Return whether a table with the wrong number of rows raises an error."""
    import numpy as np

    import minitorch_attn as mt
    from minitorch_attn.models.vit_positions import interpolate_positions

    try:
        interpolate_positions(mt.zeros(7, 5), (2, 3), (2, 3))
    except mt.errors.ShapeError:
        return {"output": np.array(True)}
    return {"output": np.array(False)}


def interpolation_same(rng):
    return [
        _interpolated("same grid", rng, [3, 4], [3, 4]),
        _interpolated("transposed grid", rng, [3, 4], [4, 3]),
        check("another size", wrong_table, {}),
    ]
