"""W10: forward and backward pass of a local relation layer between two 1 x 1 convolutions."""

import numpy as np

TITLE = (
    "local relation, 28 x 28 positions, 64 channels, window 7, m = 8, batch 8, forward + backward"
)
BATCH, SIDE, WIDTH, WINDOW, SHARED, GEOMETRY = 8, 28, 64, 7, 8, 16


def arrays():
    """Return the input and the output gradient, each of shape (batch, channel, row, column)."""
    rng = np.random.default_rng(10)
    return rng.standard_normal((2, BATCH, WIDTH, SIDE, SIDE)).astype("float32")


def our_model():
    """Build the three layers in this library."""
    from minitorch_attn import nn
    from minitorch_attn.models.local_relation import LocalRelation

    return nn.Sequential(
        {
            "first": nn.Conv2d(WIDTH, WIDTH, 1),
            "relation": LocalRelation(WIDTH, WINDOW, SHARED, geometry_dim=GEOMETRY),
            "last": nn.Conv2d(WIDTH, WIDTH, 1),
        }
    )


def ours(loop="commands"):
    """Build the training step in this library."""
    from .ours import step_with_input

    return step_with_input(our_model(), *arrays(), loop)


def _torch_model():
    import torch
    from torch import nn
    from torch.nn import functional as F

    place = torch.arange(WINDOW, dtype=torch.float32) - WINDOW // 2
    offsets = torch.cartesian_prod(place, place) / (WINDOW // 2)  # (place of the window, 2)
    groups = WIDTH // SHARED

    class LocalRelation(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key = nn.Conv2d(WIDTH, groups, 1), nn.Conv2d(WIDTH, groups, 1)
            self.geometry1 = nn.Linear(2, GEOMETRY)
            self.geometry2 = nn.Linear(GEOMETRY, groups)
            self.out = nn.Conv2d(WIDTH, WIDTH, 1)
            self.register_buffer("offsets", offsets, persistent=False)

        def forward(self, x):
            batch = len(x)
            keys = F.unfold(self.key(x), WINDOW, padding=WINDOW // 2)
            keys = keys.view(batch, groups, WINDOW**2, -1)  # (batch, group, entry, place)
            geometry = self.geometry2(F.relu(self.geometry1(self.offsets))).T
            scores = self.query(x).view(batch, groups, 1, -1) * keys + geometry[:, :, None]
            weights = scores.softmax(2)
            values = F.unfold(x, WINDOW, padding=WINDOW // 2)
            values = values.view(batch, groups, SHARED, WINDOW**2, -1)
            y = (weights.unsqueeze(2) * values).sum(3)  # (batch, group, channel, place)
            return self.out(y.reshape(x.shape))

    model = nn.Sequential()
    model.add_module("first", nn.Conv2d(WIDTH, WIDTH, 1))
    model.add_module("relation", LocalRelation())
    model.add_module("last", nn.Conv2d(WIDTH, WIDTH, 1))
    return model


def torch(**options):
    """Build the training step in PyTorch. `options` are passed to `in_torch.step_with_input`."""
    from .in_torch import step_with_input

    return step_with_input(_torch_model(), *arrays(), **options)


ENGINES = {
    "minitorch_attn": ours,
    "minitorch_attn_plain": lambda: ours("plain"),
    "minitorch_attn_unsplit": lambda: ours("unsplit"),
    "torch": torch,
}
