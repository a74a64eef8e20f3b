"""DETR recipe: detect the digits in cluttered scenes as a set of boxes."""

import math

import numpy as np

from ... import nn, ops
from ...autograd import no_grad
from ...backend import as_dtype, to_host
from ...data.detection_scenes import draw_detection_scenes
from ...data.digits import digits_split
from ...models.detr import DETR, auxiliary_losses, average_precision, detections, total_loss
from ...models.image_positions import SinePositions
from ...models.reference_detr import ReferenceDETR
from ...models.set_loss import class_loss
from ...nn.collect_attention import watch_attention
from ...tensor import tensor
from .base import Target, digest
from .detection_stream import CLASSES, GRID, SIDE, DetectionBatches, as_targets
from .options import Option, common_options
from .phases import PhasedRecipe

__all__ = ["DetrDigits"]

_EVALUATED = 200
_CODE = 32  # number of position features that the backbone adds


class SceneBackbone(nn.Module):
    """Four convolutions with batch normalization that map 64 x 64 pixels to 8 x 8 tokens.

    Every token also has features that encode its position. DETR's attention adds positions only
    to queries and keys, so without these features the values would not depend on a token's
    position.

    Parameters
    ----------
    dim : int
        Number of channels of the last two convolutions.
    """

    def __init__(self, dim):
        super().__init__()
        sizes, strides = (1, max(dim // 6, 1), dim // 2, dim, dim), (2, 2, 2, 1)
        layers = []
        for a, b, stride in zip(sizes, sizes[1:], strides, strict=False):
            convolution = nn.Conv2d(a, b, 3, stride=stride, padding=1, bias=False)
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
            layers += [convolution, nn.BatchNorm2d(b), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.positions = SinePositions(_CODE, temperature=20)
        self.num_features = dim + _CODE

    def convolved(self, images):
        """Return features (batch, dim, row, column) without the position features."""
        return self.layers((images - 0.1) / 0.3)  # about standardized

    def forward(self, images):
        """Return features (batch, dim + 32, row, column). The last 32 encode the position."""
        features = self.convolved(images)
        batch, _, *grid = features.shape
        code = self.positions(features).transpose(1, 2).reshape(1, _CODE, *grid)
        return ops.cat([features, code.expand(batch, _CODE, *grid)], 1)


class Detectors(nn.Module):
    """A pretrained backbone, and two detectors that start from copies of it.

    Parameters
    ----------
    dim, heads, layers, queries : int
    dropout : float
    """

    def __init__(self, dim, heads, layers, queries, dropout):
        super().__init__()
        sizes = (CLASSES, queries, dim, heads, 2 * dim, layers, layers)
        self.backbone, self.digit_head = SceneBackbone(dim), nn.Linear(dim, CLASSES + 1)
        for name, cls in (("reference", ReferenceDETR), ("plain", DETR)):
            backbone = SceneBackbone(dim)
            detector = cls(backbone, backbone.num_features, *sizes, dropout=dropout)
            detector.positions = SinePositions(dim, temperature=20, scale=8 * math.pi)
            setattr(self, name, detector)
        self.token_head = nn.Linear(dim, CLASSES + 1)
        first_size = [0.0, 0.0, -1.0, -1.0]  # initial box: sigmoid(-1) = 0.27 of the scene
        self.reference.box_head.layers[-1].bias.data = tensor(first_size)

    def forward(self, images):
        """Return the logits and boxes of the detector with reference points."""
        return self.reference(images)


class DetrDigits(PhasedRecipe):
    """Train DETR, with and without reference points, to find one to four digits among clutter.

    The backbone first learns which digit is at each token, in place of the paper's pretraining on
    ImageNet. Its batch norms are then frozen, as in the paper. A DETR whose queries are points in
    the image is trained next, with an additional loss on the digit at each token of its encoder.
    The plain DETR starts from the same backbone and is trained only with the paper's loss. The
    test scenes show handwriting that does not occur in training.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Carion et al. 2020, arXiv:2005.12872v3.
    """

    name = "detr"
    phases = ("pretraining", "reference", "plain")
    summary = "DETR finds handwritten digits of different sizes among clutter"
    headline = "DETR learns to find digits in a scene, as a set of boxes."
    target = Target("AP50", 0.85, "average precision at an IoU of 0.5, new handwriting")
    unit = "images"
    betas = (0.9, 0.999)
    one_process = "its batches have a list of boxes for each image, and no common first axis"
    OPTIONS = (
        *common_options(
            steps=1750, lr=6e-3, batch=32, dim=96, warmup=30, weight_decay=1e-4, eval_every=350
        ),
        Option("queries", 10, "Number of object queries."),
        Option("pretraining", 0.14, "Fraction of the steps that pretrain the backbone.", "share"),
        Option("plain", 0.23, "Fraction of the steps that train the plain DETR.", "share"),
        Option("scale", 0.4, "Learning rate of the detectors, as a fraction of lr.", "share"),
        Option("tokens", 1.0, "Weight of the loss on the digit at each token.", "from_zero"),
        Option("scenes", 500, "Number of test scenes."),
    )

    def prepare(self):
        """Load and split the digits, and generate the test scenes."""
        images, labels, *test = digits_split()
        self.training = images, labels
        self.test = draw_detection_scenes(self.options["scenes"], *test, np.random.default_rng(0))
        return {
            "name": "scenes of scikit-learn's handwritten digits",
            "sha256": digest(images, labels, self.test.images),
        }

    def build(self):
        """Create the backbone and the two detectors."""
        options = self.options
        return Detectors(*[options[n] for n in ("dim", "heads", "layers", "queries", "dropout")])

    def rate(self, phase):
        """Return the maximum learning rate of a phase, as a fraction of `lr`."""
        return 1.0 if phase == "pretraining" else self.options["scale"]

    def parameter_groups(self):
        """Return parameter groups, with a lower learning rate for the detectors' backbones."""
        parameters = dict(self.model.named_parameters())
        slow = [".backbone." in name for name in parameters]
        groups = []
        for wanted, rate in ((False, 1.0), (True, 0.3)):
            mine = [p for p, s in zip(parameters.values(), slow, strict=True) if s == wanted]
            for matrices in (True, False):
                groups.append({
                    "params": [p for p in mine if (p.ndim >= 2) == matrices],
                    "weight_decay": self.options["weight_decay"] if matrices else 0.0,
                    "lr": rate * self.options["lr"],
                })  # fmt: skip
        return groups

    def batches(self):
        """Return the stream of batches of all phases."""
        return DetectionBatches(self)

    def after_step(self, step):
        """When pretraining ends, copy the pretrained backbone to both detectors."""
        if self.phase(step - 1)[0] == "pretraining" != self.phase(step)[0]:
            for detector in (self.model.reference, self.model.plain):
                detector.backbone.load_state_dict(self.model.backbone.state_dict())

    def loss(self, model, batch):
        """Return the loss of a batch for its phase.

        Pretraining classifies the digit at each token. The plain DETR predicts a set of boxes and
        is trained with DETR's set loss. The detector with reference points is trained with both.
        """
        images, tokens = batch["images"], batch.get("tokens")
        if "targets" not in batch:
            features = model.backbone.convolved(images).flatten(2).transpose(1, 2)
            return class_loss(model.digit_head(features), tokens, eos_coef=0.3)
        detector = model.plain if tokens is None else model.reference
        detector.backbone.eval()  # frozen batch norms, section 4
        if tokens is None:
            return _set_loss(detector.layer_outputs(images), batch["targets"])
        memory, positions, _ = detector.encode(images)
        loss = _set_loss(detector.refine(memory, positions), batch["targets"])
        digits = class_loss(model.token_head(memory), tokens)
        return loss + self.options["tokens"] * digits

    def predict(self, which, count=None, size=100):
        """Predict the test scenes.

        Parameters
        ----------
        which : "reference" or "plain"
        count : int, optional
            Number of scenes. Default: all.
        size : int, default 100
            Number of scenes in a batch.

        Returns
        -------
        logits : Tensor of shape (layer, scene, query, 11)
        boxes : Tensor of shape (layer, scene, query, 4)
        """
        images = self.test.images[:count].astype(as_dtype(self.options["dtype"]))
        detector, found = getattr(self.model, which).eval(), []
        with no_grad():
            for first in range(0, len(images), size):
                part = tensor(images[first : first + size], device=self.options["device"])
                found.append(detector.layer_outputs(part))
        logits, boxes = zip(*found, strict=True)
        return ops.cat(logits, 1), ops.cat(boxes, 1)

    def precision(self, logits, boxes):
        """Return the COCO metrics of predictions for the first test scenes."""
        found = detections(logits, boxes, [(SIDE, SIDE)] * len(logits))
        labels, targets = self.test.labels[: len(found)], self.test.boxes[: len(found)]
        wanted = [{"class_labels": a, "boxes": b} for a, b in zip(labels, targets, strict=True)]
        return average_precision(found, wanted)

    def evaluate(self, model):
        """Return both detectors' AP50 on some test scenes, and one loss.

        The loss is that of the detector with reference points.
        """
        outputs = {which: self.predict(which, _EVALUATED) for which in self.phases[1:]}
        targets = as_targets(self.test, self.options["dtype"], self.options["device"])
        figures = {
            name: self.precision(logits[-1], boxes[-1])["AP50"]
            for name, (logits, boxes) in outputs.items()
        }
        with no_grad():
            loss = _set_loss(outputs["reference"], targets[:_EVALUATED]).item()
        return {"validation_loss": loss, "AP50": figures["reference"], "plain": figures["plain"]}

    def measure(self, metrics):
        """Return the average precision of both detectors on all test scenes."""
        self.outputs = {which: self.predict(which) for which in self.phases[1:]}
        found = {
            which: self.precision(logits[-1], boxes[-1])
            for which, (logits, boxes) in self.outputs.items()
        }
        one, other = found["reference"], found["plain"]
        return {
            "AP50": one["AP50"], "AP75": one["AP75"], "AP": one["AP"],
            "plain AP50": other["AP50"], "plain AP75": other["AP75"], "plain AP": other["AP"],
        }  # fmt: skip

    def model_text(self):
        """Describe the size of one detector."""
        options = self.options
        count = sum(p.array.size for p in self.model.reference.parameters())
        return (
            f"4 convolutions, {options['layers']} + {options['layers']} layers, "
            f"{options['queries']} queries, width {options['dim']}: {count:,} parameters"
        )

    def show(self, page, measured):
        """Show the metrics of both detectors, each query's boxes, and a few scenes."""
        rows = [("", "AP50", "AP75", "AP")]
        for label, start in (("reference points", ""), ("plain DETR", "plain ")):
            figures = [measured[start + name] for name in rows[0][1:]]
            rows.append((label, *[f"{100 * figure:.1f} %" for figure in figures]))
        page.table(rows)
        page.draw_loss(
            "DETR: digits at tokens, then reference points (validation), then plain",
            what="loss", unit="",
        )  # fmt: skip
        for which, title in (("reference", "reference points"), ("plain", "plain DETR")):
            boxes = to_host(self.outputs[which][1][-1].array)
            figure = page.viz.query_boxes_figure(
                boxes, f"The boxes of each query in all test scenes: {title}"
            )
            page.save(f"queries-{which}.png", figure, f"the boxes of each query, {title}")
        self._draw_scenes(page)
        return True

    def _draw_scenes(self, page, count=4, threshold=0.5):
        """Plot the detections in the first scenes, and the attention of each detection's query."""
        logits, boxes = (values[-1, :count] for values in self.outputs["reference"])
        scores, labels = ops.softmax(logits, -1)[..., :-1].max(-1)  # each (scene, query)
        weights, scenes = self.attention(count), []
        scores, labels, boxes = (to_host(x.array) for x in (scores, labels, boxes))
        for i in range(len(boxes)):
            shown = np.flatnonzero(scores[i] >= threshold)
            middle, size = boxes[i, shown, :2], boxes[i, shown, 2:]
            corners = SIDE * np.concatenate([middle - size / 2, middle + size / 2], 1)
            names = [f"{labels[i, q]}: {100 * scores[i, q]:.0f} %" for q in shown]
            scenes.append((self.test.images[i, 0], corners, names, weights[i, shown]))
        figure = page.viz.detections_figure(
            scenes, "Detections (left), and where the query of each detection looks"
        )
        page.save("scenes.png", figure, "detections, and where their queries look")

    def attention(self, count):
        """Return the last decoder layer's cross-attention weights in the first test scenes.

        Returns
        -------
        array of shape (scene, query, row, column)
            Weights averaged over the heads, for the detector with reference points.
        """
        layer, found = self.model.reference.decoder.layers[-1].cross_attention, []
        with watch_attention(layer, lambda _, weights: found.append(weights)):
            self.predict("reference", count)
        weights = np.concatenate([to_host(w.detach().array) for w in found]).mean(1)
        return weights.reshape(*weights.shape[:2], GRID, GRID)


def _set_loss(outputs, targets):
    """Compute the sum of the losses of all decoder layers, weighted as in the paper."""
    return total_loss(auxiliary_losses(*outputs, targets, CLASSES, bbox_cost=5, giou_cost=2))
