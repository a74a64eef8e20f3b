"""W9: training step of a multiscale Vision Transformer (MViT) on short clips."""

import numpy as np

TITLE = "MViT step, 5 blocks in 4 stages, C 96 to 768, clips of 8 x 56 x 56, batch 4"
CLIP, CLASSES, BATCH, LEARNING_RATE = (8, 56, 56), 400, 4, 3e-4
WIDTH, DEPTHS, STRIDE_Q, STRIDE_KV, EPS = 96, (1, 1, 2, 1), (1, 2, 2), (1, 8, 8), 1e-6
PATCH = {"kernel_size": (3, 7, 7), "stride": (2, 4, 4), "padding": (1, 3, 3)}
KERNEL, NONE = (3, 3, 3), (1, 1, 1)


def arrays():
    """Return random clips (batch, channel, frame, height, width) and labels (batch,)."""
    rng = np.random.default_rng(9)
    clips = rng.standard_normal((BATCH, 3, *CLIP)).astype("float32")
    return clips, rng.integers(0, CLASSES, BATCH)


def our_model():
    """Build the model in this library, with the default patches and pooling, as in MViT-B."""
    from minitorch_attn.models import MViT

    return MViT(CLIP, CLASSES, WIDTH, DEPTHS)


def ours(loop="commands"):
    """Build the training step in this library. `loop` is one of `ours.LOOPS`."""
    from minitorch_attn.nn import functional as F

    from .ours import training_step

    def loss_function(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    return training_step(
        our_model(), loss_function, arrays(), loop=loop, learning_rate=LEARNING_RATE
    )


def plan():
    """Return (stage, input width, output width, heads, query stride, key stride) of each block."""
    blocks, stride_kv = [], STRIDE_KV
    for stage, depth in enumerate(DEPTHS):
        stride_q = STRIDE_Q if stage else NONE
        stride_kv = tuple(n // s for n, s in zip(stride_kv, stride_q, strict=True))
        for i in range(depth):
            width = WIDTH << stage
            widens = i == depth - 1 and stage < len(DEPTHS) - 1
            strides = stride_q if i == 0 else NONE, stride_kv
            blocks.append((stage, width, 2 * width if widens else width, 1 << stage, *strides))
    return blocks


def _torch_model():
    import torch
    from torch import nn
    from torch.nn import functional as F

    class PoolingAttention(nn.Module):
        def __init__(self, width, heads, stride_q, stride_kv):
            super().__init__()
            self.heads, channels = heads, width // heads
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            for name, stride in zip("qkv", (stride_q, stride_kv, stride_kv), strict=True):
                if name == "q" and stride == NONE:
                    continue
                pool = nn.Conv3d(channels, channels, KERNEL, stride, 1, groups=channels, bias=False)
                self.add_module(f"pool_{name}", pool)
                self.add_module(f"norm_{name}", nn.LayerNorm(channels, EPS))

        def pool(self, name, x, size):
            # x: (batch, heads, 1 + position, head_dim)
            if not hasattr(self, f"pool_{name}"):
                return x, size
            batch, _, _, channels = x.shape
            first, rest = x[:, :, :1], x[:, :, 1:]
            maps = rest.flatten(0, 1).transpose(1, 2).reshape(-1, channels, *size)
            maps = getattr(self, f"pool_{name}")(maps)
            rest = maps.flatten(2).transpose(1, 2).unflatten(0, (batch, self.heads))
            return getattr(self, f"norm_{name}")(torch.cat([first, rest], 2)), maps.shape[2:]

        def forward(self, x, size):
            query, key, value = (
                self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            )
            query, new_size = self.pool("q", query, size)
            key, value = self.pool("k", key, size)[0], self.pool("v", value, size)[0]
            mixed = F.scaled_dot_product_attention(query, key, value)
            return self.proj(mixed.transpose(1, 2).flatten(2)), new_size

    class Block(nn.Module):
        def __init__(self, width, new_width, heads, stride_q, stride_kv):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width, EPS), nn.LayerNorm(width, EPS)
            self.attention = PoolingAttention(width, heads, stride_q, stride_kv)
            self.linear1 = nn.Linear(width, 4 * width)
            self.linear2 = nn.Linear(4 * width, new_width)
            self.skip = nn.Linear(width, new_width) if new_width != width else None
            kernel = [s + 1 if s > 1 else 1 for s in stride_q]
            pool = nn.MaxPool3d(kernel, stride_q, [n // 2 for n in kernel])
            self.pool = None if stride_q == NONE else pool

        def forward(self, x, size):
            attended, new_size = self.attention(self.norm1(x), size)
            if self.pool is not None:
                maps = x[:, 1:].transpose(1, 2).unflatten(2, size)
                x = torch.cat([x[:, :1], self.pool(maps).flatten(2).transpose(1, 2)], 1)
            x = x + attended
            n = self.norm2(x)
            kept = x if self.skip is None else self.skip(n)
            return kept + self.linear2(F.gelu(self.linear1(n))), new_size

    class Stage(nn.Module):
        def __init__(self, blocks):
            super().__init__()
            self.blocks = nn.ModuleList(blocks)

    class Positions(nn.Module):
        def __init__(self, frames, places):
            super().__init__()
            self.space = nn.Parameter(torch.zeros(1, places, WIDTH))
            self.time = nn.Parameter(torch.zeros(1, frames, WIDTH))
            self.prefix = nn.Parameter(torch.zeros(1, 1, WIDTH))

        def forward(self, x):
            table = (self.time.transpose(0, 1) + self.space).flatten(0, 1).unsqueeze(0)
            return x + torch.cat([self.prefix, table], 1)

    class MViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch_embedding = nn.Conv3d(3, WIDTH, **PATCH)
            self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
            frames, rows, columns = (n // s for n, s in zip(CLIP, PATCH["stride"], strict=True))
            self.positions = Positions(frames, rows * columns)
            stages = [[Block(*b) for s, *b in plan() if s == i] for i in range(len(DEPTHS))]
            self.stages = nn.ModuleList([Stage(blocks) for blocks in stages])
            width = plan()[-1][1]
            self.norm, self.head = nn.LayerNorm(width, EPS), nn.Linear(width, CLASSES)

        def forward(self, clips):
            maps = self.patch_embedding(clips)
            first, size = self.class_token.expand(len(clips), 1, WIDTH), maps.shape[2:]
            x = self.positions(torch.cat([first, maps.flatten(2).transpose(1, 2)], 1))
            for stage in self.stages:
                for block in stage.blocks:
                    x, size = block(x, size)
            return self.head(self.norm(x)[:, 0])

    return MViT()


def torch(**options):
    """Build the training step in PyTorch. `options` are passed to `in_torch.training_step`."""
    from torch.nn import functional as F

    from .in_torch import training_step

    def loss_function(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    return training_step(
        _torch_model(), loss_function, arrays(), learning_rate=LEARNING_RATE, **options
    )


ENGINES = {
    "minitorch_attn": ours,
    "minitorch_attn_processes": lambda: ours("processes"),
    "minitorch_attn_plain": lambda: ours("plain"),
    "minitorch_attn_unsplit": lambda: ours("unsplit"),
    "torch_fused": lambda: torch(fused=True),
    "torch": torch,
}
