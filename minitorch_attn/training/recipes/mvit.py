"""MViT recipe: a multiscale Vision Transformer recognizes moving digits and their directions."""

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...autograd.listener import Listener
from ...backend import as_dtype, to_host
from ...data.digits import digits_split
from ...data.moving_digits import DIRECTIONS, draw_clips, enlarged_digits
from ...models.mvit import MViT as Model
from ...models.video_mae import VideoEncoder
from ...nn.functional import cross_entropy
from ...ops.plumbing import flops
from ...tensor import tensor
from .base import Recipe, Target, digest, start_by_width
from .digits import centred
from .options import Option, common_options
from .phases import RecipeStream

__all__ = ["MViT"]

SIDE, FRAMES = 24, 4
_CUBE = (2, 3, 3)  # frames, height and width of a patch
_EVALUATED = 500
_NAMES = list(DIRECTIONS)


class ClipBatches(RecipeStream):
    """Clips of moving digits with noise. Batch n depends only on (seed, n).

    Parameters
    ----------
    recipe : MViT
    """

    def __next__(self):
        """Return frames (batch, 1, frame, side, side), digits and directions (batch,)."""
        generator = np.random.default_rng([self.seed, self.position])
        noise = self.recipe.options["noise"]
        clips = draw_clips(
            self.batch_size, *self.recipe.training, generator, SIDE, FRAMES, noise=noise
        )
        self.position += 1
        parts = clips.frames.astype(self.dtype), clips.digits, clips.directions
        return tuple(tensor(part, device=self.device) for part in parts)


class ClipViT(nn.Module):
    """Single-scale Vision Transformer for comparison: all blocks attend to all patches."""

    def __init__(self, dim, num_classes):
        super().__init__()
        self.encoder = VideoEncoder(
            SIDE, _CUBE[1:], FRAMES, _CUBE[0], dim, 4, 4, 2 * dim, in_channels=1
        )
        self.head = nn.Linear(dim, num_classes)

    def forward(self, clips):
        """Return logits (batch, class) for clips (batch, 1, frame, height, width)."""
        return self.head(self.encoder(clips).mean(1))


class _Flops(Listener):
    """Counts the FLOPs of forward passes, as `mt.profile` does."""

    total = 0

    def record_forward(self, ctx, inputs, outputs):
        self.total += flops.forward_flops(ctx, inputs, outputs)


def forward_flops(model):
    """Return the FLOPs of a model's forward pass for one clip."""
    parameter = next(iter(model.parameters()))
    clip = np.zeros((1, 1, FRAMES, SIDE, SIDE), as_dtype(parameter.dtype))
    with no_grad(), _Flops() as found:
        model(tensor(clip, device=parameter.device))
    return found.total


class MViT(Recipe):
    """Train a multiscale Vision Transformer on clips of a moving handwritten digit.

    A clip has four frames of 24 x 24 pixels. The digit, enlarged to 12, 14 or 16 pixels, moves one
    or two pixels per frame in one of eight directions. One head predicts the digit, another the
    direction. A clip counts as correct if both predictions are correct. The test clips show
    handwriting that does not occur in training. A second target limits the cost: the model may use
    at most 60 % of the FLOPs of a Vision Transformer with the same patches and about the same
    accuracy. `--model vit` trains this Vision Transformer.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Fan et al. 2021, arXiv:2104.11227v1.
    """

    name = "mvit"
    summary = "a multiscale Vision Transformer reads moving digits and their direction"
    headline = "A multiscale Vision Transformer learns to read moving digits and their direction."
    target = Target("accuracy", 0.92, "digit and direction correct, new handwriting")
    more_targets = (
        Target(
            "flops", 0.6, "FLOPs as a fraction of the ViT's", higher_is_better=False
        ),
    )  # fmt: skip
    unit = "clips"
    noun = "data set"
    data_hint = "use the same version of scikit-learn as before"
    betas = (0.9, 0.99)
    log_every = 20
    OPTIONS = (
        *common_options(
            ("heads",), steps=1000, lr=3e-3, batch=32, layers=2, dim=32, warmup=50,
            weight_decay=0.05, eval_every=250,
        ),
        Option("model", "mvit", "Model to train: MViT, or ViT for comparison.", ("mvit", "vit")),
        Option("noise", 0.1, "Standard deviation of noise in training clips.", "from_zero"),
        Option("smoothing", 0.1, "Label smoothing.", "share"),
        Option("clips", 2000, "Number of test clips."),
    )  # fmt: skip

    def prepare(self):
        """Load and split the digits, enlarge them, and generate the test clips."""
        images, labels, test_images, test_labels = digits_split()
        self.training = enlarged_digits(images), labels
        self.test = draw_clips(
            self.options["clips"], enlarged_digits(test_images), test_labels,
            np.random.default_rng(0), SIDE, FRAMES,
        )  # fmt: skip
        return {
            "name": "clips of scikit-learn's handwritten digits, moving in eight directions",
            "sha256": digest(images, labels, self.test.frames),
        }

    def build(self):
        """Create the MViT with three stages, or the ViT with four blocks."""
        self.flops = {name: forward_flops(self.make_model(name)) for name in ("mvit", "vit")}
        return self.make_model(self.options["model"])

    def make_model(self, which):
        """Create the "mvit" or the "vit".

        Both split a clip into 2 x 8 x 8 patches and use mean pooling.
        """
        options, classes = self.options, 10 + len(DIRECTIONS)
        if which == "vit":
            return ClipViT(2 * options["dim"], classes)
        model = Model(
            (FRAMES, SIDE, SIDE), classes, options["dim"], (1, 1, options["layers"]),
            in_channels=1, mlp_ratio=2.0, patch_kernel=(3, 5, 5), patch_stride=_CUBE,
            patch_padding=(1, 2, 2), stride_kv=(1, 4, 4), class_token=False,
            dropout=options["dropout"],
        )  # fmt: skip
        start_by_width(model)
        return model

    def model_text(self):
        """Describe the size of the model."""
        count = sum(parameter.array.size for parameter in self.model.parameters())
        kind = self.options["model"]
        return (
            f"{'MViT' if kind == 'mvit' else 'ViT'}, {count:,} parameters, "
            f"{self.flops[kind] / 1e6:.1f} million FLOPs per clip "
            f"(ViT: {self.flops['vit'] / 1e6:.1f} million)"
        )

    def batches(self):
        """Return the stream of clips."""
        return ClipBatches(self)

    def loss(self, model, batch):
        """Return the sum of the cross-entropies of the digit and of the direction."""
        frames, digits, directions = batch
        logits = model(centred(frames))  # (batch, 10 + 8)
        smoothing = {"label_smoothing": self.options["smoothing"]}
        return cross_entropy(logits[:, :10], digits, **smoothing) + cross_entropy(
            logits[:, 10:], directions, **smoothing
        )

    def evaluate(self, model):
        """Return the loss (without label smoothing) and the accuracy on some test clips."""
        logits = self.test_logits(_EVALUATED)
        return {"validation_loss": self._loss_of(logits), "accuracy": self._correct(logits)[2]}

    def test_logits(self, count=None):
        """Return the logits (clip, 10 + 8) for the first test clips, a float64 array."""
        frames = self.test.frames[:count].astype(as_dtype(self.options["dtype"]))
        self.model.eval()
        with no_grad():
            parts = [
                to_host(self.model(centred(tensor(part, device=self.options["device"]))).array)
                for part in np.array_split(frames, max(len(frames) // 100, 1))
            ]
        return np.concatenate(parts).astype(np.float64)

    def _loss_of(self, logits):
        with no_grad():
            digits, directions = self.test.digits, self.test.directions
            parts = (logits[:, :10], digits), (logits[:, 10:], directions)
            losses = [
                cross_entropy(tensor(x), tensor(y[: len(x)])).item() for x, y in parts
            ]  # fmt: skip
        return sum(losses)

    def _correct(self, logits):
        """Return the fractions of clips with the correct digit, the correct direction, and both."""
        digit = logits[:, :10].argmax(1) == self.test.digits[: len(logits)]
        direction = logits[:, 10:].argmax(1) == self.test.directions[: len(logits)]
        return [float(x.mean()) for x in (digit, direction, digit & direction)]

    def measure(self, metrics):
        """Return accuracies on all test clips, and the model's FLOPs as a fraction of the ViT's."""
        digit, direction, both = self._correct(self.test_logits())
        share = self.flops[self.options["model"]] / self.flops["vit"]
        return {"accuracy": both, "digit": digit, "direction": direction, "flops": share}

    def preface(self, page):
        """Print the targets."""
        super().preface(page)
        page.text("\n".join(f"Also: {target}." for target in self.more_targets))

    def show(self, page, measured):
        """Show the accuracies, the FLOPs, the misread digits, and some clips."""
        for target in (self.target, *self.more_targets):
            value = measured[target.metric]
            reached = "reached" if target.reached(value) else "missed"
            page.text(f"{target.meaning}: {target.show(value)} ({target.bound}: {reached})")
        page.text(
            f"digit {100 * measured['digit']:.1f} %, direction {100 * measured['direction']:.1f} %"
        )
        logits = self.test_logits()
        found = logits[:, :10].argmax(1)
        rows = [
            (str(digit), f"{100 * (found[self.test.digits == digit] == digit).mean():.1f} %")
            for digit in np.unique(self.test.digits)
        ]
        page.table([("digit", "read correctly"), *rows])
        page.draw_loss("Moving digits", unit="nats per clip")
        self._draw_clips(page, logits)
        return True

    def _draw_clips(self, page, logits):
        """Plot the frames and answers of some clips: first wrong answers, then correct answers."""
        digits, directions = logits[:, :10].argmax(1), logits[:, 10:].argmax(1)
        wrong = (digits != self.test.digits) | (directions != self.test.directions)
        order = np.argsort(~wrong, kind="stable")
        chosen = np.concatenate([order[: min(wrong.sum(), 4)], order[wrong.sum() :][:4]])
        labels = []
        for i in chosen:
            truth = f"{self.test.digits[i]}, {_NAMES[self.test.directions[i]]}"
            answer = f"{digits[i]}, {_NAMES[directions[i]]}"
            labels.append(truth if truth == answer else f"{truth}\nread: {answer}")
        figure = page.viz.image_rows_figure(
            [[*self.test.frames[i, 0]] for i in chosen], labels,
            "Test clips: mistakes, then correct answers",
        )  # fmt: skip
        page.save("clips.png", figure, "test clips with the answers")
