"""ViT and DeiT with the timm interface, based on `models/vit.py` and `models/deit.py`.

The parts that timm takes from later papers are in `timm_vit_parts.py`.
"""

import math

from ... import nn, ops
from ...errors import ArgumentError, ShapeError
from ...nn import init
from ..mae import pick, random_masking
from ..vit import PatchEmbedding, pair
from ..vit_positions import interpolate_positions
from .names import NameTable, Same, Stacked
from .timm_interface import TimmModel, class_among
from .timm_vit_parts import AttentionPool, ScaledBlock, norm_maker
from .timm_vit_sizes import DISTILLED, PLAIN

__all__ = ["VisionTransformer", "VisionTransformerDistilled", "class_for"]

_ARGUMENTS = dict(
    img_size=224, patch_size=16, in_chans=3, num_classes=1000, global_pool="token", embed_dim=768,
    depth=12, num_heads=12, mlp_ratio=4.0, qkv_bias=True, qk_norm=False, scale_attn_norm=False,
    scale_mlp_norm=False, proj_bias=True, init_values=None, class_token=True, pos_embed="learn",
    no_embed_class=False, reg_tokens=0, pre_norm=False, final_norm=True, fc_norm=None,
    pool_include_prefix=False, dynamic_img_size=False, dynamic_img_pad=False, drop_rate=0.0,
    pos_drop_rate=0.0, patch_drop_rate=0.0, proj_drop_rate=0.0, attn_drop_rate=0.0,
    drop_path_rate=0.0, weight_init="", fix_init=False, embed_norm_layer=None, norm_layer=None,
    act_layer=None, mlp_layer=None, attn_layer="",
)  # fmt: skip
_CHOICES = {
    "global_pool": ("", "avg", "avgmax", "max", "token", "map", "prr"),
    "pos_embed": ("", "none", "learn"),
    "weight_init": ("skip", "reset", "jax", "jax_nlhb", "moco", ""),
    "attn_layer": ("", "attn"),
    "mlp_layer": (None, "SwiGLUPacked"),
}


def class_for(architecture):
    """Return the class for a timm architecture name, with or without a tag."""
    return class_among((VisionTransformer, VisionTransformerDistilled), architecture)


class VisionTransformer(TimmModel):
    """timm's ViT: returns class logits. See also `forward_features` and `forward_head`.

    Parameters
    ----------
    config : Config or dict
        Fields of `config.json`: `architecture`, `model_args`, `num_classes`, `pretrained_cfg`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> sizes = {"img_size": 8, "patch_size": 2, "embed_dim": 6, "depth": 1, "num_heads": 2}
    >>> model = VisionTransformer(
    ...     {"architecture": "vit_base_patch16_224", "num_classes": 5, "model_args": sizes})
    >>> model.forward_features(mt.zeros(3, 3, 8, 8)).shape, model(mt.zeros(3, 3, 8, 8)).shape
    ((3, 17, 6), (3, 5))
    """

    entry_points = PLAIN
    arguments = _ARGUMENTS
    poolings = _CHOICES["global_pool"]

    def make(self, args):
        self._check(args)
        self.args = args
        width, make_norm = args.embed_dim, norm_maker(args.norm_layer)
        self.image_size = pair(args.img_size)
        self.patch_embedding = PatchEmbedding(
            args.patch_size, args.in_chans, width, bias=not args.pre_norm
        )
        self.grid = self.patch_embedding.grid(*self.image_size)
        self.embed_norm = nn.Identity()
        if args.embed_norm_layer:
            self.embed_norm = norm_maker(args.embed_norm_layer)(width)
        self.make_tokens(args)
        self.dropout = nn.Dropout(args.pos_drop_rate)
        self.norm_pre = make_norm(width) if args.pre_norm else nn.Identity()
        steps = max(args.depth - 1, 1)
        self.blocks = nn.ModuleList(
            [ScaledBlock(args, args.drop_path_rate * i / steps) for i in range(args.depth)]
        )
        late = args.fc_norm
        late = args.global_pool in ("avg", "avgmax", "max") if late is None else late
        self.norm = make_norm(width) if args.final_norm and not late else nn.Identity()
        self.attention_pool = AttentionPool(args) if args.global_pool == "map" else None
        self.fc_norm = make_norm(width) if args.final_norm and late else nn.Identity()
        self.head_dropout = nn.Dropout(args.drop_rate)
        self.head = self.make_head(args)
        self.initialize(args)

    def _check(self, args):
        for name, choices in {**_CHOICES, "global_pool": self.poolings}.items():
            if getattr(args, name) not in choices:
                raise ArgumentError(
                    f"{type(self).__name__}: the value of model_args.{name} is not supported",
                    got=repr(getattr(args, name)), expected=f"one of {choices}",
                )  # fmt: skip
        if args.global_pool == "token" and not args.class_token:
            raise ArgumentError(
                f"{type(self).__name__}: global_pool='token' requires a class token",
                got="global_pool='token', class_token=False",
                expected="class_token=True, or a different global_pool",
            )

    def make_tokens(self, args):
        """Create the prefix tokens (class and register tokens) and the position embeddings."""
        width = args.embed_dim
        self.class_token = self.register_tokens = self.positions = None
        if args.class_token:
            self.class_token = nn.Parameter(ops.zeros(1, 1, width))
        if args.reg_tokens:
            self.register_tokens = nn.Parameter(ops.zeros(1, args.reg_tokens, width))
        self.num_prefix = bool(args.class_token) + args.reg_tokens
        self.positioned_prefix = 0 if args.no_embed_class else self.num_prefix
        if args.pos_embed == "learn":
            self.make_positions(width)

    def make_positions(self, width):
        """Create position embeddings: `positioned_prefix` for prefix tokens, and one per patch."""
        count = self.positioned_prefix + self.grid[0] * self.grid[1]
        self.positions = nn.Parameter(ops.empty(1, count, width))

    def make_head(self, args):
        """Return the linear layer that maps pooled features to logits."""
        return nn.Linear(args.embed_dim, args.num_classes) if args.num_classes else nn.Identity()

    def initialize(self, args):
        """Initialize the parameters with the method that timm's `weight_init` selects."""
        if args.weight_init in ("", "jax", "jax_nlhb", "moco"):
            for name, module in self.named_modules():
                if isinstance(module, nn.Linear):
                    _draw(module, name, args.weight_init, args.num_classes)
        if self.positions is not None:
            init.trunc_normal_(self.positions, std=0.02)
        for token in (self.class_token, self.register_tokens):
            if token is not None:
                init.normal_(token, std=1e-6)
        if args.fix_init:
            for i, block in enumerate(self.blocks):
                for layer in (block.attention.out_proj, _last_layer(block)):
                    layer.weight.data = layer.weight.detach() / math.sqrt(2.0 * (i + 1))

    def names(self):
        stored, ours = "blocks.{}.", "blocks.{}."
        parts = [f"{ours}attention.{part}_proj" for part in "qkv"]
        gates = [f"{ours}feed_forward.{part}" for part in ("gate", "up")]
        return NameTable(
            Same("cls_token", "class_token"),
            Same("dist_token", "distillation_token"),
            Same("reg_token", "register_tokens"),
            Same("pos_embed", "positions"),
            Same("patch_embed.proj", "patch_embedding.projection"),
            Same("patch_embed.norm", "embed_norm"),
            Same(stored + "ls1.gamma", ours + "scale1"),
            Same(stored + "ls2.gamma", ours + "scale2"),
            Stacked(stored + "attn.qkv", parts),
            Same(stored + "attn.proj", ours + "attention.out_proj"),
            Same(stored + "attn", ours + "attention"),
            Same(stored + "mlp.fc1", ours + "feed_forward.linear1"),
            Same(stored + "mlp.fc2", ours + "feed_forward.linear2"),
            Same(stored + "mlp.norm", ours + "feed_forward.norm"),
            Stacked(stored + "mlp.fc1", gates),
            Same(stored + "mlp.fc2", ours + "feed_forward.down"),
            Same("attn_pool.latent", "attention_pool.latent"),
            Same("attn_pool.q", "attention_pool.attention.q_proj"),
            Stacked("attn_pool.kv", [f"attention_pool.attention.{p}_proj" for p in "kv"]),
            Same("attn_pool.proj", "attention_pool.attention.out_proj"),
            Same("attn_pool.norm", "attention_pool.norm"),
            Same("attn_pool.mlp.fc1", "attention_pool.feed_forward.linear1"),
            Same("attn_pool.mlp.fc2", "attention_pool.feed_forward.linear2"),
            Same("head_dist", "distillation_head"),
        )

    def forward(self, x, attn_mask=None, is_causal=False):
        """Compute logits: (batch, channel, height, width) -> (batch, class)."""
        return self.forward_head(self.forward_features(x, attn_mask, is_causal))

    def forward_features(self, x, attn_mask=None, is_causal=False):
        """Return the tokens after the last block and `norm`, with shape (batch, token, embed).

        If the model normalizes the pooled vector instead (`fc_norm`), `norm` is the identity.

        Parameters
        ----------
        x : Tensor of shape (batch, channel, height, width)
        attn_mask : Tensor that broadcasts to (batch, heads, token, token), optional
            Bools, True where attention is allowed, or floats that are added to the scores.
        is_causal : bool
            Whether each token attends only to itself and earlier tokens. Overrides `attn_mask`.
        """
        x = self._drop_patches(self.embed(x))  # (batch, token, embed)
        x = self.norm_pre(x)
        attn_mask = None if is_causal else attn_mask
        is_bias = attn_mask is not None and attn_mask.dtype.kind == "f"
        mask, bias = (None, attn_mask) if is_bias else (attn_mask, None)
        for block in self.blocks:
            x = block(x, mask, bias, is_causal)
        return self.norm(x)

    def embed(self, images):
        """Return the prefix and patch tokens of images, with the position embeddings added."""
        images = self._sized(images)
        grid = self.patch_embedding.grid(*images.shape[-2:])
        x = self.embed_norm(self.patch_embedding(images))  # (batch, patch, embed)
        if self.positions is None:
            return self.with_prefix(x)
        positions = self._positions_for(grid)
        if self.positioned_prefix:
            return self.dropout(self.with_prefix(x) + positions)
        return self.dropout(self.with_prefix(x + positions))

    def _sized(self, images):
        """Check the size of the images. Pad the images if `dynamic_img_pad` is set."""
        size, patch = images.shape[-2:], self.patch_embedding.patch_size
        divides = not (size[0] % patch[0] or size[1] % patch[1])
        if not self.args.dynamic_img_size and size != self.image_size:
            raise ShapeError(
                f"{type(self).__name__}(x): the image size does not match the model's img_size",
                got=f"shape {images.shape}", expected=f"height and width {self.image_size}",
                hint='set "dynamic_img_size": true in model_args to use other sizes',
            )  # fmt: skip
        if self.args.dynamic_img_pad and not divides:
            return ops.pad(images, (0, -size[1] % patch[1], 0, -size[0] % patch[0]))
        if self.args.dynamic_img_size and not divides:
            raise ShapeError(
                f"{type(self).__name__}(x): the image size is not divisible by the patch size",
                got=f"shape {images.shape}, patch_size {patch}",
                expected="height and width that are multiples of the patch size",
                hint='set "dynamic_img_pad": true in model_args to pad the images',
            )
        return images

    def with_prefix(self, patches):
        """Return the prefix tokens and the patches in one tensor of shape (batch, token, embed)."""
        tokens = [t for t in self.prefix() if t is not None]
        batch, _, width = patches.shape
        return ops.cat([*(t.expand(batch, t.shape[1], width) for t in tokens), patches], 1)

    def prefix(self):
        """Return the class token and the register tokens. A token that does not exist is None."""
        return self.class_token, self.register_tokens

    def _positions_for(self, grid):
        """Return the position embeddings for a grid of patches, with shape (1, token, embed)."""
        if not self.args.dynamic_img_size or grid == self.grid:
            return self.positions
        prefix, table = self.positioned_prefix, self.positions[0]
        patches = interpolate_positions(table[prefix:], self.grid, grid, antialias=True)
        return ops.cat([table[:prefix], patches], 0).unsqueeze(0)

    def _drop_patches(self, x):
        """During training, drop a random subset of each image's patches.

        See Li et al. 2022, "Scaling Language-Image Pre-training via Masking", arXiv:2212.00794v2.
        """
        if not (self.training and self.args.patch_drop_rate):
            return x
        prefix, patches = x[:, : self.num_prefix], x[:, self.num_prefix :]
        num_kept = max(1, int(patches.shape[1] * (1.0 - self.args.patch_drop_rate)))
        kept, _, _ = random_masking(ops.rand(*patches.shape[:2], device=x.device), num_kept)
        return ops.cat([prefix, pick(patches, kept)], 1)

    def forward_head(self, x, pre_logits=False):
        """Compute logits from tokens or, with `pre_logits`, return the input of the last layer.

        Parameters
        ----------
        x : Tensor of shape (batch, token, embed)
        pre_logits : bool
        """
        x = self.head_dropout(self.fc_norm(self.pool(x)))
        return x if pre_logits else self.head(x)

    def pool(self, x, pool_type=None):
        """Pool the tokens (batch, token, embed) into one vector per image, (batch, embed)."""
        kind = self.args.global_pool
        if kind not in ("map", "prr") and pool_type is not None:
            kind = pool_type
        if kind == "token":
            return x[:, 0]
        if kind == "prr":
            x = _refined(x, self.args.num_heads)
            return x[:, 0] if self.class_token is not None else x.mean(1)
        if kind and not self.args.pool_include_prefix:
            x = x[:, self.num_prefix :]
        if kind == "map":
            return self.attention_pool(x)
        if kind == "avgmax":
            return 0.5 * (x.amax(1) + x.mean(1))
        return {"avg": lambda: x.mean(1), "max": lambda: x.amax(1), "": lambda: x}[kind]()


class VisionTransformerDistilled(VisionTransformer):
    """timm's DeiT: ViT with a distillation token that has a separate head.

    Attributes
    ----------
    distilled_training : bool
        Whether the model returns both heads' logits during training instead of their mean.
    """

    entry_points = DISTILLED
    poolings = ("token",)

    def make_tokens(self, args):
        if args.no_embed_class:
            raise ArgumentError(
                "VisionTransformerDistilled: no_embed_class must be False",
                got="no_embed_class=True",
                expected="no_embed_class=False, because timm's class adds positions to all tokens",
            )
        super().make_tokens(args)
        self.distillation_token = nn.Parameter(ops.zeros(1, 1, args.embed_dim))
        init.trunc_normal_(self.distillation_token, std=0.02)
        self.num_prefix = self.positioned_prefix = 2
        self.make_positions(args.embed_dim)
        self.distilled_training = False

    def make_head(self, args):
        self.distillation_head = super().make_head(args)
        return super().make_head(args)

    def prefix(self):
        return self.class_token, self.distillation_token

    def forward_head(self, x, pre_logits=False):
        """Return the mean of the two heads' logits or, with `pre_logits`, of the heads' inputs.

        In training mode, after `set_distilled_training()`, return both heads' logits instead.
        """
        x, distilled = self.head_dropout(x[:, 0]), self.head_dropout(x[:, 1])  # (batch, embed)
        if not pre_logits:
            x, distilled = self.head(x), self.distillation_head(distilled)
            if self.distilled_training and self.training:
                return x, distilled
        return (x + distilled) / 2

    def set_distilled_training(self, enable=True):
        """Set whether the model returns both heads' logits during training, for distillation."""
        self.distilled_training = enable


def _draw(layer, name, mode, num_classes):
    """Initialize a linear layer. `mode` is the value of timm's argument `weight_init`."""
    is_head = name in ("head", "distillation_head")
    if mode == "":
        init.trunc_normal_(layer.weight, std=0.02)
    elif mode.startswith("jax") and is_head:
        init.zeros_(layer.weight)
    else:
        init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        init.zeros_(layer.bias)
        if mode.startswith("jax") and "feed_forward" in name:
            init.normal_(layer.bias, std=1e-6)
        if mode == "jax_nlhb" and is_head:
            init.constant_(layer.bias, -math.log(num_classes))


def _last_layer(block):
    feed_forward = block.feed_forward
    return feed_forward.down if hasattr(feed_forward, "down") else feed_forward.linear2


def _refined(x, heads):
    """Apply self-attention without parameters to tokens (batch, token, embed)."""
    batch, tokens, width = x.shape
    parts = x.reshape(batch, tokens, heads, width // heads).transpose(1, 2)
    context = ops.scaled_dot_product_attention(parts, parts, parts)
    return context.transpose(1, 2).flatten(2)
