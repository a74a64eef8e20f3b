"""W4f: forward pass of ViT-Ti/16."""

from .vit_step import engines

TITLE = "ViT-Ti/16 at 224 x 224, batch 4, forward"
ENGINES = engines(gradients=False)
