"""W8: training step of DETR: ResNet, encoder, decoder, matching and set loss."""

import math

import numpy as np

TITLE = "DETR step, ResNet of 8 bottlenecks, 3 + 3 layers, C 256, 50 queries, 160 x 160, batch 4"
BLOCKS, CHANNELS, STEM = (2, 2, 2, 2), (32, 64, 128, 256), 32
WIDTH, HEADS, HIDDEN, LAYERS, QUERIES, CLASSES = 256, 8, 1024, 3, 50, 20
SIDE, BATCH, OBJECTS = 160, 4, 6
LEARNING_RATE, CLIP = 1e-4, 0.1
# Class weight of "no object", and weights of class, box and generalized IoU in matching and loss.
NO_OBJECT, COSTS = 0.1, (1.0, 5.0, 2.0)


def arrays():
    """Return images, and the class and the box (center, width, height) of each object."""
    rng = np.random.default_rng(8)
    images = rng.standard_normal((BATCH, 3, SIDE, SIDE)).astype("float32")
    labels = rng.integers(0, CLASSES, (BATCH, OBJECTS))
    centers = rng.uniform(0.3, 0.7, (BATCH, OBJECTS, 2))
    sizes = rng.uniform(0.1, 0.5, (BATCH, OBJECTS, 2))
    return images, labels, np.concatenate([centers, sizes], -1).astype("float32")


def our_model():
    """Build the model in this library. It returns the outputs of all decoder layers."""
    from minitorch_attn.models.detr import DETR, Bottleneck, FeatureExtractor

    class Detector(DETR):
        def forward(self, images):
            logits, boxes = self.layer_outputs(images)
            return logits.transpose(0, 1), boxes.transpose(0, 1)  # batch first, to be split

    backbone = FeatureExtractor(Bottleneck, BLOCKS, channels=CHANNELS, stem_channels=STEM)
    return Detector(
        backbone, backbone.num_features, CLASSES, QUERIES, WIDTH, HEADS, HIDDEN, LAYERS, LAYERS,
        dropout=0.0,
    )  # fmt: skip


def ours(loop="commands"):
    """Build the training step in this library. `loop` is one of `ours.LOOPS`."""
    from minitorch_attn.models.detr import auxiliary_losses, total_loss

    from .ours import training_step

    def loss_function(model, batch):
        images, labels, boxes = batch
        outputs = (y.transpose(0, 1) for y in model(images))  # (layer, batch, query, ...)
        targets = [{"class_labels": c, "boxes": b} for c, b in zip(labels, boxes, strict=True)]
        losses = auxiliary_losses(*outputs, targets, CLASSES, NO_OBJECT, *COSTS, sum_layers=True)
        return total_loss(losses, *COSTS[1:])

    return training_step(
        our_model(), loss_function, arrays(), loop=loop, learning_rate=LEARNING_RATE, clip=CLIP
    )


def positions(side):
    """Return the sinusoidal position embeddings (position, embed) of a side x side map in DETR."""
    places = 2 * math.pi * np.arange(1, side + 1) / (side + 1e-6)
    half = WIDTH // 2
    angles = places[:, None] * 10000.0 ** (-np.arange(0, half, 2) / half)
    code = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(side, half)
    rows, columns = np.repeat(code, side, axis=0), np.tile(code, (side, 1))
    return np.concatenate([rows, columns], -1).astype("float32")


def _torch_backbone():
    from torch import nn
    from torch.nn import functional as F

    from .in_torch import FrozenBatchNorm2d

    def convolution(inputs, outputs, kernel, stride=1):
        return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride, project):
            super().__init__()
            sizes = (inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)
            for i, size in enumerate(sizes, 1):
                self.add_module(f"conv{i}", convolution(*size))
                self.add_module(f"bn{i}", FrozenBatchNorm2d(size[1]))
            shortcut = (convolution(inputs, 4 * width, 1, stride), FrozenBatchNorm2d(4 * width))
            self.downsample = nn.Sequential(*shortcut) if project else None

        def forward(self, x):
            kept = x if self.downsample is None else self.downsample(x)
            x = F.relu(self.bn1(self.conv1(x)))
            x = F.relu(self.bn2(self.conv2(x)))
            return F.relu(self.bn3(self.conv3(x)) + kept)

    class Backbone(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = convolution(3, STEM, 7, 2), FrozenBatchNorm2d(STEM)
            inputs = STEM
            for i, (count, width) in enumerate(zip(BLOCKS, CHANNELS, strict=True)):
                stride, blocks = 2 if i else 1, []
                for j in range(count):
                    blocks.append(Bottleneck(inputs, width, 1 if j else stride, not j))
                    inputs = 4 * width
                self.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
            for part in (self.conv1, self.layer1):
                part.requires_grad_(False)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
            return self.layer4(self.layer3(self.layer2(self.layer1(x))))

    return Backbone()


def _torch_model():
    import torch
    from torch import nn
    from torch.nn import functional as F

    from .in_torch import Attention, FeedForward

    class PositionedAttention(Attention):
        def __init__(self, cross=False):
            nn.Module.__init__(self)
            self.heads = HEADS
            if cross:
                self.q_proj, self.k_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
            else:
                self.qk_proj = nn.Linear(WIDTH, 2 * WIDTH)
            self.v_proj, self.out_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x, places, memory=None, memory_places=None):
            if memory is None:
                query, key = self.split_heads(self.qk_proj(x + places), 2)
                memory = x
            else:
                (query,) = self.split_heads(self.q_proj(x + places), 1)
                (key,) = self.split_heads(self.k_proj(memory + memory_places), 1)
            (value,) = self.split_heads(self.v_proj(memory), 1)
            mixed = F.scaled_dot_product_attention(query, key, value)
            return self.out_proj(mixed.transpose(1, 2).flatten(2))

    class AddNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, x, y):
            return self.norm(x + y)

    class Layer(nn.Module):
        def __init__(self, cross):
            super().__init__()
            self.attention, self.around_attention = PositionedAttention(), AddNorm()
            if cross:
                self.cross_attention, self.around_cross_attention = (
                    PositionedAttention(cross=True), AddNorm(),
                )  # fmt: skip
            self.feed_forward = FeedForward(WIDTH, HIDDEN, nn.ReLU())
            self.around_feed_forward = AddNorm()

        def forward(self, x, places, *memory):
            x = self.around_attention(x, self.attention(x, places))
            if memory:
                x = self.around_cross_attention(x, self.cross_attention(x, places, *memory))
            return self.around_feed_forward(x, self.feed_forward(x))

    class Layers(nn.Module):
        def __init__(self, cross):
            super().__init__()
            self.layers = nn.ModuleList([Layer(cross) for _ in range(LAYERS)])
            if cross:
                self.norm = nn.LayerNorm(WIDTH)

    class BoxHead(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = (WIDTH, WIDTH, 4)
            self.layers = nn.ModuleList([nn.Linear(WIDTH, size) for size in sizes])

        def forward(self, x):
            x = F.relu(self.layers[1](F.relu(self.layers[0](x))))
            return self.layers[2](x).sigmoid()

    class DETR(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = _torch_backbone()
            self.projection = nn.Conv2d(4 * CHANNELS[-1], WIDTH, 1)
            self.encoder, self.decoder = Layers(cross=False), Layers(cross=True)
            self.query_positions = nn.Embedding(QUERIES, WIDTH)
            self.class_head, self.box_head = nn.Linear(WIDTH, CLASSES + 1), BoxHead()
            places = torch.from_numpy(positions(SIDE // 32))
            self.register_buffer("places", places, persistent=False)

        def forward(self, images):
            x = self.projection(self.backbone(images)).flatten(2).transpose(1, 2)
            for layer in self.encoder.layers:
                x = layer(x, self.places)
            memory, queries = (x, self.places), self.query_positions.weight
            x, states = torch.zeros_like(queries).expand(len(images), -1, -1), []
            for layer in self.decoder.layers:
                x = layer(x, queries, *memory)
                states.append(self.decoder.norm(x))
            states = torch.stack(states)  # (layer, batch, query, embed)
            return self.class_head(states), self.box_head(states)

    return DETR()


def torch(**options):
    """Build the training step in PyTorch. `options` are passed to `in_torch.training_step`."""
    from .in_torch import set_loss, training_step

    def loss_function(model, batch):
        images, *targets = batch
        return set_loss(*model(images), *targets, COSTS, NO_OBJECT)

    return training_step(
        _torch_model(), loss_function, arrays(), learning_rate=LEARNING_RATE, clip=CLIP, **options
    )


ENGINES = {
    "minitorch_attn": ours,
    "minitorch_attn_processes": lambda: ours("processes"),
    "minitorch_attn_plain": lambda: ours("plain"),
    "minitorch_attn_unsplit": lambda: ours("unsplit"),
    "torch_fused": lambda: torch(fused=True),
    "torch": torch,
}
