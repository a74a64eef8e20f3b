"""Swin and Swin V2 with the timm interface, based on `models/swin.py` and `models/swinv2.py`."""

from ...errors import ShapeError
from ..swin import Swin
from ..swinv2 import SwinV2
from .names import Ignored, NameTable, Same, Stacked
from .timm_interface import ClassifierHead, TimmModel, class_among, timm_activation

__all__ = ["SwinTransformer", "SwinTransformerV2", "class_for"]

_TINY = dict(embed_dim=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24))
_SMALL = _TINY | dict(depths=(2, 2, 18, 2))
_BASE = dict(embed_dim=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32))
_LARGE = dict(embed_dim=192, depths=(2, 2, 18, 2), num_heads=(6, 12, 24, 48))
_FROM_12 = dict(pretrained_window_sizes=(12, 12, 12, 6))

_SWIN = {
    "swin_tiny_patch4_window7_224": _TINY,
    "swin_small_patch4_window7_224": _SMALL,
    "swin_base_patch4_window7_224": _BASE,
    "swin_base_patch4_window12_384": _BASE | dict(window_size=12, img_size=384),
    "swin_large_patch4_window7_224": _LARGE,
    "swin_large_patch4_window12_384": _LARGE | dict(window_size=12, img_size=384),
    # Chen et al. 2021, arXiv:2111.14725: window sizes found by architecture search.
    "swin_s3_tiny_224": _TINY | dict(window_size=(7, 7, 14, 7)),
    "swin_s3_small_224": _SMALL | dict(window_size=(14, 14, 14, 7)),
    "swin_s3_base_224": _SMALL | dict(depths=(2, 2, 30, 2), window_size=(7, 7, 14, 7)),
}
_SWINV2 = {
    "swinv2_tiny_window8_256": _TINY | dict(window_size=8, img_size=256),
    "swinv2_tiny_window16_256": _TINY | dict(window_size=16, img_size=256),
    "swinv2_small_window8_256": _SMALL | dict(window_size=8, img_size=256),
    "swinv2_small_window16_256": _SMALL | dict(window_size=16, img_size=256),
    "swinv2_base_window8_256": _BASE | dict(window_size=8, img_size=256),
    "swinv2_base_window16_256": _BASE | dict(window_size=16, img_size=256),
    "swinv2_base_window12_192": _BASE | dict(window_size=12, img_size=192),
    "swinv2_base_window12to16_192to256": _BASE | _FROM_12 | dict(window_size=16, img_size=256),
    "swinv2_base_window12to24_192to384": _BASE | _FROM_12 | dict(window_size=24, img_size=384),
    "swinv2_large_window12_192": _LARGE | dict(window_size=12, img_size=192),
    "swinv2_large_window12to16_192to256": _LARGE | _FROM_12 | dict(window_size=16, img_size=256),
    "swinv2_large_window12to24_192to384": _LARGE | _FROM_12 | dict(window_size=24, img_size=384),
}
_SHARED = dict(
    img_size=224, patch_size=4, in_chans=3, num_classes=1000, global_pool="avg", embed_dim=96,
    depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), window_size=7, always_partition=False,
    strict_img_size=True, dynamic_img_size=False, mlp_ratio=4.0, qkv_bias=True, drop_rate=0.0,
    proj_drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.1,
)  # fmt: skip


def class_for(architecture):
    """Return the class for a timm architecture name, which may end in a tag or a data set name."""
    return class_among(
        (SwinTransformer, SwinTransformerV2), architecture, _without_suffix(architecture)
    )


def _without_suffix(architecture):
    name = architecture.partition(".")[0]
    for suffix in ("_in22k", "_22k", "_22kft1k"):
        name = name.removesuffix(suffix)
    return name


def _windows(window_size, count):
    """Return one window size for each stage. A single pair (height, width) applies to all."""
    if not isinstance(window_size, (list, tuple)):
        return [(window_size, window_size)] * count
    if len(window_size) == 2 and not isinstance(window_size[0], (list, tuple)):
        return [tuple(window_size)] * count
    return [tuple(w) if isinstance(w, (list, tuple)) else (w, w) for w in window_size]


class SwinTransformer(TimmModel):
    """timm's Swin: returns class logits. See also `forward_features` and `forward_head`.

    Feature maps have channels last. If the feature map is smaller than the window along an axis,
    the window shrinks to the map's size along this axis and is not shifted along it. A feature map
    whose size is not divisible by the window size is padded after the shift.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> sizes = {"img_size": 8, "patch_size": 1, "embed_dim": 6, "window_size": 4}
    >>> sizes |= {"depths": [2, 2], "num_heads": [1, 2], "num_classes": 5}
    >>> model = SwinTransformer(
    ...     {"architecture": "swin_tiny_patch4_window7_224", "model_args": sizes})
    >>> model.forward_features(mt.zeros(1, 3, 8, 8)).shape, model(mt.zeros(1, 3, 8, 8)).shape
    ((1, 4, 4, 12), (1, 5))
    """

    entry_points = _SWIN
    arguments = _SHARED | dict(head_dim=None, weight_init="")
    block_names = {
        "norm1": "norm1",
        "norm2": "norm2",
        "attn.relative_position_bias_table": "attention.position_bias.table",
        "attn.proj": "attention.out_proj",
        "mlp.fc1": "feed_forward.linear1",
        "mlp.fc2": "feed_forward.linear2",
    }
    stacked = {"attn.qkv": ""}  # stored name -> ending of our names

    def read_arguments(self, config):
        fields = config.to_dict()
        fields["architecture"] = _without_suffix(fields.get("architecture", ""))
        return super().read_arguments(type(config)(fields))

    def make(self, args):
        self.image_size = _pair(args.img_size)
        self.strict = args.strict_img_size and not args.dynamic_img_size
        self.model = self.make_model(args)
        for stage in self.model.stages:
            for block in stage.blocks:
                block.pad_first = False
        self.model.dropout.p = 0.0  # timm does not apply dropout after the embedding
        self.head = ClassifierHead(
            self.model.norm.weight.shape[0], args.num_classes, args.global_pool, args.drop_rate
        )

    def make_model(self, args):
        return Swin(**_settings(args), head_dim=args.head_dim)

    def names(self):
        blocks, ours = "layers.{}.blocks.{}.", "model.stages.{}.blocks.{}."
        parts = ("q_proj", "k_proj", "v_proj")
        return NameTable(
            Same("patch_embed.proj", "model.patch_embedding.projection"),
            Same("patch_embed.norm", "model.patch_embedding.norm"),
            Same("layers.{}.downsample", "model.stages.{}.merging"),
            *(Same(blocks + name, ours + own) for name, own in self.block_names.items()),
            *(
                Stacked(blocks + name, [f"{ours}attention.{part}{end}" for part in parts])
                for name, end in self.stacked.items()
            ),
            Same("norm", "model.norm"),
            Same("head.fc", "head.linear"),
            Ignored("*.relative_position_index", "*.relative_coords_table"),
            Ignored("*.attn_mask", "*.attn.k_bias"),
        )

    def _with_expected_names(self, arrays, expected, table):
        if "layers.0.downsample.reduction.weight" in arrays:
            arrays = {_from_authors(name): array for name, array in arrays.items()}
        return super()._with_expected_names(arrays, expected, table)

    def forward_features(self, x):
        """Return the last stage's feature map after the final norm.

        Parameters
        ----------
        x : Tensor of shape (batch, channel, height, width)

        Returns
        -------
        Tensor of shape (batch, height, width, embed)
        """
        return self.model.features(self._checked(x))

    def forward_head(self, x, pre_logits=False):
        """Compute logits or, with `pre_logits`, pooled features from the last feature map."""
        return self.head(x, pre_logits)

    def _checked(self, x):
        """Check the image size as timm does. Return the image, cropped to whole patches."""
        patch, size = self.model.patch_embedding.projection.kernel_size, x.shape[-2:]
        if self.strict and size != self.image_size:
            raise ShapeError(
                f"{type(self).__name__}: the image size does not match the model's img_size",
                got=f"{size[0]} x {size[1]}",
                expected=f"{self.image_size[0]} x {self.image_size[1]}",
                hint='set "strict_img_size": false in the model_args of config.json',
            )
        if not self.strict and any(n % p for n, p in zip(size, patch, strict=True)):
            raise ShapeError(
                f"{type(self).__name__}: the image size is not divisible by the patch size",
                got=f"image {size[0]} x {size[1]} and patch {patch[0]} x {patch[1]}",
                hint="resize the images to a multiple of the patch size",
            )
        height, width = (n - n % p for n, p in zip(size, patch, strict=True))
        return x[:, :, :height, :width]


class SwinTransformerV2(SwinTransformer):
    """timm's Swin V2: returns class logits. For the arguments, see `SwinTransformer`."""

    entry_points = _SWINV2
    arguments = _SHARED | dict(act_layer="gelu", pretrained_window_sizes=(0, 0, 0, 0))
    block_names = {
        "norm1": "norm1",
        "norm2": "norm2",
        "attn.logit_scale": "attention.logit_scale",
        "attn.cpb_mlp.0": "attention.position_bias.linear1",
        "attn.cpb_mlp.2": "attention.position_bias.linear2",
        "attn.q_bias": "attention.q_proj.bias",
        "attn.v_bias": "attention.v_proj.bias",
        "attn.proj": "attention.out_proj",
        "mlp.fc1": "feed_forward.linear1",
        "mlp.fc2": "feed_forward.linear2",
    }
    stacked = {"attn.qkv.weight": ".weight"}

    def make_model(self, args):
        return SwinV2(
            **_settings(args),
            activation=timm_activation(args.act_layer),
            pretrained_window_size=list(args.pretrained_window_sizes)[: len(args.depths)],
        )


def _settings(args):
    """Convert timm's arguments to arguments of `Swin` or `SwinV2`."""
    return dict(
        image_size=_pair(args.img_size), patch_size=args.patch_size, in_channels=args.in_chans,
        num_classes=0, embed_dim=args.embed_dim, depths=args.depths, num_heads=args.num_heads,
        window_size=_windows(args.window_size, len(args.depths)), mlp_ratio=args.mlp_ratio,
        qkv_bias=args.qkv_bias, dropout=args.proj_drop_rate,
        attention_dropout=args.attn_drop_rate, drop_path=args.drop_path_rate,
        fit_windows=not args.always_partition,
    )  # fmt: skip


def _from_authors(name):
    """Convert a tensor name in a checkpoint of Swin's authors to timm's name.

    In the authors' checkpoints, patch merging ends a stage. In timm, it begins the next stage.
    """
    start, merging, rest = name.partition(".downsample")
    if merging:
        name = f"layers.{int(start.removeprefix('layers.')) + 1}{merging}{rest}"
    return name.replace("head.", "head.fc.", 1) if name.startswith("head.") else name


def _pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)
