"""timm's architecture names for ViT and DeiT, with the arguments for each.

An architecture name contains the model size, the patch size and the image size. `_FAMILIES` lists
the other parts of the names. Models with other block layouts (parallel, post-norm, differential)
are not included.
"""

__all__ = ["DISTILLED", "PLAIN"]

# name -> (embed_dim, depth, num_heads, mlp_ratio)
_SIZES = {
    "tiny": (192, 12, 3, 4.0), "xsmall": (256, 10, 4, 4.0), "wee": (256, 14, 4, 5),
    "little": (320, 14, 5, 5.6), "small": (384, 12, 6, 4.0), "medium": (512, 12, 8, 4.0),
    "mediumd": (512, 20, 8, 4.0), "betwixt": (640, 12, 10, 4.0), "base": (768, 12, 12, 4.0),
    "so150m2": (832, 21, 13, 34 / 13), "so150m": (896, 18, 14, 2.572), "large": (1024, 24, 16, 4.0),
    "intern300m": (1024, 24, 16, 4.0), "so400m": (1152, 27, 16, 3.7362),
    "huge": (1280, 32, 16, 4.0), "giant": (1408, 40, 16, 48 / 11), "giantopt": (1536, 40, 16, 4.0),
    "gigantic": (1664, 48, 16, 64 / 13),
}  # fmt: skip

_CLIP = dict(pre_norm=True, norm_layer=("layernorm", 1e-5))
_QUICK = _CLIP | dict(act_layer="quick_gelu")
_PLUS = dict(embed_dim=896, num_heads=14)
_AVERAGE = dict(class_token=False, global_pool="avg")
_GAP = _AVERAGE | dict(fc_norm=False)
_MAP = dict(class_token=False, global_pool="map")
_TANH = dict(act_layer="gelu_tanh")
_SMALL_START = dict(init_values=1e-6, qkv_bias=False)
_REG1, _REG4 = (dict(reg_tokens=n, no_embed_class=True) for n in (1, 4))
_SCALE = dict(init_values=1e-5)
_GIANT_1536 = dict(embed_dim=1536, num_heads=24)
_SWIGLU = _GIANT_1536 | dict(mlp_ratio=5.33334, mlp_layer="SwiGLUPacked", act_layer="silu")
_TIPS = _REG1 | dict(init_values=1.0, img_size=448)
_RADIO = dict(img_size=512, no_embed_class=True, final_norm=False)
_SO400M = dict(mlp_ratio=4304 / 1152)

# (part of the name after the patch size, arguments, size/patch size/image sizes ...)
_FAMILIES = (
    ("", {}, "tiny/16/224,384 small/8/224 small/16/224,384 small/32/224,384 base/8/224 "
     "base/16/224,384 base/32/224,384 large/14/224 large/16/224,384 large/32/224,384 "
     "huge/14/224 giant/14/224 gigantic/14/224"),
    ("36x1", _SCALE | dict(depth=36), "small/16/224"),
    ("plus", _SCALE | _PLUS, "base/16/240 base/32/256"),
    ("plus_clip", _CLIP | _PLUS, "base/16/240"),
    ("clip", _CLIP, "xsmall/16/224 medium/16/224 medium/32/224 betwixt/32/224 base/16/224,384 "
     "base/32/224,256,384,448 large/14/224,336 huge/14/224,336,378 giant/14/224 "
     "gigantic/14/224,378"),
    ("clip_quickgelu", _QUICK, "base/16/224 base/32/224 large/14/224,336 huge/14/224,378 "
     "gigantic/14/224"),
    ("gap", _GAP, "huge/14/224 huge/16/448 giant/16/224"),
    ("gap", _GAP | dict(num_heads=16), "base/16/224"),
    ("gap", _GAP | _SMALL_START, "medium/16/240,256,384 betwixt/16/256"),
    ("reg1_gap", _AVERAGE | _REG1 | _SCALE, "wee/16/256 little/16/256 medium/16/256 "
     "betwixt/16/256"),
    ("reg4_gap", _AVERAGE | _REG4 | _SCALE, "little/16/256 medium/16/256 mediumd/16/256,384 "
     "betwixt/16/256,384"),
    ("reg4_gap", _AVERAGE | _REG4, "base/16/256"),
    ("reg1_gap", _AVERAGE | _SCALE | dict(reg_tokens=1, qkv_bias=False),
     "so150m2/16/256,384,448"),
    ("reg4_gap", _GAP | dict(reg_tokens=4), "so150m/16/256,384"),
    ("reg4_map", _MAP | dict(reg_tokens=4), "so150m/16/256"),
    ("siglip", _MAP, "base/16/224,256,384,512 large/16/256,384 so400m/14/224,378,384"),
    ("siglip", _MAP | _TANH, "base/32/256 large/16/512 so400m/16/256,384,512 "
     "giantopt/16/256,384"),
    ("siglip_gap", _GAP, "base/16/224,256,384,512 large/16/256,384 "
     "so400m/14/224,378,384,448,896"),
    ("siglip_gap", _GAP | _TANH, "base/32/256 large/16/512 so400m/16/256,384,512 "
     "giantopt/16/256,384"),
    ("", _SCALE | dict(init_values=0.1, final_norm=False, dynamic_img_size=True),
     "intern300m/14/448"),
    ("dinov2", _SCALE | dict(img_size=518), "small/14 base/14 large/14"),
    ("dinov2", _SCALE | _SWIGLU | dict(img_size=518), "giant/14"),
    ("reg4_dinov2", _SCALE | _REG4 | dict(img_size=518), "small/14 base/14 large/14"),
    ("reg4_dinov2", _SCALE | _REG4 | _SWIGLU | dict(img_size=518), "giant/14"),
    ("reg1_tipsv2", _TIPS, "base/14 large/14"),
    ("reg1_tipsv2", _TIPS | _SO400M, "so400m/14"),
    ("reg1_tipsv2", _TIPS | _SWIGLU, "giant/14"),
    ("radio_v3", _RADIO | _SCALE | dict(reg_tokens=7), "base/16 large/16"),
    ("radio_v3", _RADIO | dict(reg_tokens=7), "huge/16"),
    ("radio_v3", _RADIO | _GIANT_1536 | dict(reg_tokens=7, mlp_ratio=4.0), "giant/16"),
    ("radio_v4", _RADIO | dict(reg_tokens=9), "huge/16"),
    ("radio_v4", _RADIO | _SO400M | dict(reg_tokens=9), "so400m/16"),
)  # fmt: skip

_DEIT3 = dict(no_embed_class=True, init_values=1e-6)


def _arguments(size, patch, image_size=224, **others):
    names = ("embed_dim", "depth", "num_heads", "mlp_ratio")
    sizes = dict(zip(names, _SIZES[size], strict=True))
    return {**sizes, "patch_size": int(patch), "img_size": int(image_size), **others}


def _plain():
    table = {}
    for mark, others, sizes in _FAMILIES:
        for entry in sizes.split():
            size, patch, *images = entry.split("/")
            for image in images[0].split(",") if images else [""]:
                end = "".join(f"_{part}" for part in (mark, image) if part)
                table[f"vit_{size}_patch{patch}{end}"] = _arguments(
                    size, patch, **({"image_size": image} if image else {}), **others
                )
    for size in ("tiny", "small", "base"):
        table[f"deit_{size}_patch16_224"] = _arguments(size, 16)
    table["deit_base_patch16_384"] = _arguments("base", 16, 384)
    for size, patch, *images in (
        ("small", 16, 224, 384), ("medium", 16, 224), ("base", 16, 224, 384),
        ("large", 16, 224, 384), ("huge", 14, 224),
    ):  # fmt: skip
        for image in images:
            table[f"deit3_{size}_patch{patch}_{image}"] = _arguments(size, patch, image, **_DEIT3)
    for size in ("small", "base", "large"):
        table[f"flexivit_{size}"] = _arguments(size, 16, 240, no_embed_class=True)
    table["vit_base_patch16_224_miil"] = _arguments("base", 16, qkv_bias=False)
    return table


PLAIN = _plain()
DISTILLED = {
    f"deit_{size}_distilled_patch16_{image}": _arguments(size, 16, image)
    for size, image in (("tiny", 224), ("small", 224), ("base", 224), ("base", 384))
}
