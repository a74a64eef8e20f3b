"""Detection stream: batches of scenes and DETR targets for the recipe `detr`."""

import numpy as np

from ...data.detection_scenes import draw_detection_scenes
from ...models.boxes import corners_to_center_format
from ...tensor import tensor
from .phases import RecipeStream

__all__ = ["CLASSES", "GRID", "SIDE", "DetectionBatches", "as_targets", "digits_at_tokens"]

CLASSES = 10
SIDE, GRID = 64, 8  # numbers per side: scene pixels, tokens
_CROWDED = 8  # more digits per scene in pretraining, because each trains the backbone


class DetectionBatches(RecipeStream):
    """Batches of scenes, with the digit at each token, the targets of DETR, or both.

    Batch n depends only on (seed, n). Its keys depend on the phase: "images" and "tokens" for
    pretraining; "images", "tokens" and "targets" for the DETR with reference points; "images" and
    "targets" for the plain DETR. Scenes contain more digits in pretraining.

    Parameters
    ----------
    recipe : DetrDigits
    """

    def __next__(self):
        """Return the next batch."""
        generator = np.random.default_rng([self.seed, self.position])
        phase = self.recipe.phase(self.position)[0]
        most = _CROWDED if phase == "pretraining" else 4
        scenes = draw_detection_scenes(self.batch_size, *self.recipe.training, generator, most=most)
        self.position += 1
        batch = {"images": tensor(scenes.images.astype(self.dtype), device=self.device)}
        if phase != "plain":
            batch["tokens"] = tensor(digits_at_tokens(scenes), device=self.device)
        if phase != "pretraining":
            batch["targets"] = as_targets(scenes, self.dtype, self.device)
        return batch


def as_targets(scenes, dtype="float32", device=None):
    """Return the targets of the set loss: class labels, and boxes as fractions of the scene.

    Parameters
    ----------
    scenes : DetectionScenes
    dtype : str or dtype, default "float32"
    device : str or Device, optional

    Returns
    -------
    list of dict
        "class_labels" and "boxes" (center x, center y, width, height) of each scene.
    """
    found = []
    for labels, boxes in zip(scenes.labels, scenes.boxes, strict=True):
        centers = corners_to_center_format(tensor(boxes, device=device)) / SIDE
        found.append({
            "class_labels": tensor(labels, device=device), "boxes": centers.to(dtype),
        })  # fmt: skip
    return found


def digits_at_tokens(scenes):
    """For each token, return the digit whose box contains the token's center, or `CLASSES`.

    `CLASSES` is the label of the background: no box contains the center.

    Parameters
    ----------
    scenes : DetectionScenes

    Returns
    -------
    int64 array of shape (scene, token)
    """
    found = np.full((len(scenes.images), GRID, GRID), CLASSES)
    middle = SIDE / GRID * (np.arange(GRID) + 0.5)
    for grid, labels, boxes in zip(found, scenes.labels, scenes.boxes, strict=True):
        for label, (left, top, right, bottom) in zip(labels, boxes, strict=True):
            rows = (middle >= top) & (middle < bottom)
            grid[np.ix_(rows, (middle >= left) & (middle < right))] = label
    return found.reshape(len(found), -1)
