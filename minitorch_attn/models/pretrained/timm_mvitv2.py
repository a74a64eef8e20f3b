"""MViTv2 with the timm interface, based on `models/mvitv2.py`."""

from types import SimpleNamespace

from ... import nn
from ...errors import ArgumentError
from ...schema import (
    ANY,
    COUNT,
    FLAG,
    NON_NEGATIVE,
    SIZE,
    TEXT,
    check,
    either,
    list_of,
    optional,
    record,
)
from ..mvitv2 import MViTv2
from ..vit import pair
from .names import NameTable, Same
from .timm_interface import TimmModel, class_among
from .timm_vit_parts import norm_maker

__all__ = ["MultiScaleVit", "class_for"]

# Fields of timm's `MultiScaleVitCfg` and their defaults.
_CFG = dict(
    depths=(2, 3, 16, 3), embed_dim=96, num_heads=1, mlp_ratio=4.0, pool_first=False,
    expand_attn=True, qkv_bias=True, use_cls_token=False, use_abs_pos=False,
    residual_pooling=True, mode="conv", kernel_qkv=(3, 3),
    stride_q=((1, 1), (2, 2), (2, 2), (2, 2)), stride_kv=None, stride_kv_adaptive=(4, 4),
    patch_kernel=(7, 7), patch_stride=(4, 4), patch_padding=(3, 3), pool_type="max",
    rel_pos_type="spatial", act_layer="gelu", norm_layer="layernorm", norm_eps=1e-6,
)  # fmt: skip
_PAIR, _ZERO_PAIR = list_of(SIZE, 2), list_of(COUNT, 2)
_KINDS = dict.fromkeys(_CFG, ANY) | dict(
    depths=list_of(COUNT), embed_dim=either(SIZE, list_of(SIZE)),
    num_heads=either(SIZE, list_of(SIZE)), mlp_ratio=NON_NEGATIVE, kernel_qkv=_PAIR,
    stride_q=list_of(_PAIR), stride_kv=optional(list_of(_PAIR)),
    stride_kv_adaptive=optional(_PAIR), patch_kernel=_PAIR, patch_stride=_PAIR,
    patch_padding=_ZERO_PAIR, mode=TEXT, norm_layer=TEXT, norm_eps=NON_NEGATIVE,
    rel_pos_type=optional(TEXT), pool_first=FLAG, expand_attn=FLAG, qkv_bias=FLAG,
    use_cls_token=FLAG, use_abs_pos=FLAG, residual_pooling=FLAG,
)  # fmt: skip
_LARGE = dict(depths=(2, 6, 36, 4), embed_dim=144, num_heads=2)
_ENTRY_POINTS = {
    "mvitv2_tiny": dict(depths=(1, 2, 5, 2)),
    "mvitv2_small": dict(depths=(1, 2, 11, 2)),
    "mvitv2_base": dict(),
    "mvitv2_large": _LARGE | dict(expand_attn=False),
    "mvitv2_small_cls": dict(depths=(1, 2, 11, 2), use_cls_token=True),
    "mvitv2_base_cls": dict(use_cls_token=True),
    "mvitv2_large_cls": _LARGE | dict(use_cls_token=True),
    "mvitv2_huge_cls": dict(
        depths=(4, 8, 60, 8), embed_dim=192, num_heads=3, use_cls_token=True
    ),
}  # fmt: skip


def class_for(architecture):
    """Return the class for a timm architecture name, with or without a tag."""
    return class_among((MultiScaleVit,), architecture)


class MultiScaleVit(TimmModel):
    """timm's MViTv2: returns class logits. See also `forward_features` and `forward_head`.

    `model_args.cfg` in `config.json` can contain fields of timm's `MultiScaleVitCfg`. If it does,
    the sizes that belong to the architecture's name are not used, and missing fields get timm's
    defaults.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cfg = {"depths": [1, 1], "embed_dim": 4, "stride_q": [[1, 1], [2, 2]]}
    >>> model = MultiScaleVit(
    ...     {"architecture": "mvitv2_tiny", "model_args": {"cfg": cfg, "img_size": 16}})
    >>> model.forward_features(mt.zeros(1, 3, 16, 16)).shape, model(mt.zeros(1, 3, 16, 16)).shape
    ((1, 4, 8), (1, 1000))
    """

    entry_points = {name: {"cfg": fields} for name, fields in _ENTRY_POINTS.items()}
    arguments = dict(
        cfg={}, img_size=224, in_chans=3, global_pool=None, num_classes=1000, drop_path_rate=0.0,
        drop_rate=0.0,
    )  # fmt: skip

    @classmethod
    def checked_config(cls, fields, where, error):
        config = super().checked_config(fields, where, error)
        given = (config.get("model_args") or {}).get("cfg") or {}
        where = f"{where}: model_args.cfg"
        check(given, record({}, _KINDS, closed=True), where, error)
        return config

    def make(self, args):
        cfg = SimpleNamespace(**{**_CFG, **args.cfg})
        self.pool_type = _pool_type(args.global_pool, cfg)
        _check_cfg(cfg)
        stages = len(cfg.depths)
        positions = "joint" if cfg.use_abs_pos else None
        self.model = MViTv2(
            pair(args.img_size), 0, cfg.embed_dim, cfg.depths, cfg.num_heads,
            in_channels=args.in_chans, mlp_ratio=cfg.mlp_ratio, patch_kernel=cfg.patch_kernel,
            patch_stride=cfg.patch_stride, patch_padding=cfg.patch_padding, kernel=cfg.kernel_qkv,
            stride_q=list(cfg.stride_q)[:stages], stride_kv=_stride_kv(cfg), positions=positions,
            qkv_bias=cfg.qkv_bias, class_token=cfg.use_cls_token,
            pooling=cfg.mode.removesuffix("_unshared"), drop_path=args.drop_path_rate,
            make_norm=norm_maker((cfg.norm_layer, cfg.norm_eps)), widens_early=cfg.expand_attn,
            relative_positions=cfg.rel_pos_type == "spatial",
            residual_pooling=cfg.residual_pooling,
        )  # fmt: skip
        width = self.model.norm.weight.shape[0]
        self.dropout = nn.Dropout(args.drop_rate)
        self.head = nn.Linear(width, args.num_classes) if args.num_classes else nn.Identity()
        if args.num_classes:
            nn.init.trunc_normal_(self.head.weight, std=0.02)
            nn.init.zeros_(self.head.bias)
        self.widens_early = cfg.expand_attn

    def names(self):
        blocks, ours = "stages.{}.blocks.{}.", "model.stages.{}.blocks.{}."
        skip = "shortcut_proj_attn" if self.widens_early else "shortcut_proj_mlp"
        return NameTable(
            Same("cls_token", "model.class_token"),
            Same("pos_embed", "model.positions.table"),
            Same("patch_embed.proj", "model.patch_embedding"),
            Same(blocks + "attn", ours + "attention"),
            Same(blocks + skip, ours + "skip"),
            Same(blocks + "mlp.fc1", ours + "linear1"),
            Same(blocks + "mlp.fc2", ours + "linear2"),
            Same(blocks + "norm1", ours + "norm1"),
            Same(blocks + "norm2", ours + "norm2"),
            Same("norm", "model.norm"),
            Same("head.fc", "head"),
        )

    def forward_features(self, x):
        """Return the tokens after the last block and the final norm: (batch, token, embed).

        Parameters
        ----------
        x : Tensor of shape (batch, channel, height, width)
        """
        return self.model.features(x)

    def forward_head(self, x, pre_logits=False):
        """Compute logits or, with `pre_logits`, pooled features from the tokens."""
        if self.pool_type == "avg":
            x = x[:, self.model.num_prefix :].mean(1)
        elif self.pool_type == "token":
            x = x[:, 0]
        return x if pre_logits else self.head(self.dropout(x))


def _pool_type(global_pool, cfg):
    """Return the type of pooling before the head: "avg", "token" or "" (no pooling)."""
    if global_pool is None:
        return "token" if cfg.use_cls_token else "avg"
    allowed = ("", "avg", "token") if cfg.use_cls_token else ("", "avg")
    if global_pool not in allowed:
        raise ArgumentError(
            "global_pool in the configuration is not supported",
            got=f"{global_pool!r} with use_cls_token={cfg.use_cls_token}",
            expected=f"one of {allowed}",
        )
    return global_pool


def _check_cfg(cfg):
    """Raise an error for pooling settings that timm's own class does not support."""
    heads = cfg.num_heads if isinstance(cfg.num_heads, (list, tuple)) else (cfg.num_heads, 2)
    shared = cfg.mode in ("conv", "max", "avg")
    if cfg.pool_first or not (shared or cfg.mode == "conv_unshared" and max(heads) == 1):
        raise ArgumentError(
            "MultiScaleVit: the type of pooling in cfg is not supported",
            got=f"mode={cfg.mode!r}, pool_first={cfg.pool_first}",
            expected='mode "conv", "max" or "avg", and pool_first=False',
        )


def _stride_kv(cfg):
    """Return the pooling strides of the keys and values, one for each stage.

    If `stride_kv` is set, it contains these strides. Otherwise, the strides start at
    `stride_kv_adaptive`. Each stage that pools the queries divides the current strides by its query
    strides, and the other stages keep them.
    """
    if cfg.stride_kv is not None:
        return list(cfg.stride_kv)[: len(cfg.depths)]
    if cfg.stride_kv_adaptive is None:
        raise ArgumentError(
            "MultiScaleVit: cfg must have stride_kv or stride_kv_adaptive",
            got="stride_kv=None, stride_kv_adaptive=None",
        )
    strides, stride = [], tuple(cfg.stride_kv_adaptive)
    for step in list(cfg.stride_q)[: len(cfg.depths)]:
        if min(step) > 1:
            stride = tuple(max(n // s, 1) for n, s in zip(stride, step, strict=True))
        strides.append(stride)
    return strides
