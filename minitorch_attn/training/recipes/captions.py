"""Captions recipe: a model describes images of digits, with soft and with hard attention."""

import numpy as np

from ... import nn, ops
from ...autograd import no_grad
from ...backend import as_dtype, to_host
from ...data.digit_scenes import draw_scenes
from ...data.digits import digits_split
from ...generation.translate import translate
from ...models.captioner import Captioner, ConvEncoder
from ...models.hard_attention import reinforce_loss
from ...models.show_attend_tell import ShowAttendTell, caption_log_p, caption_loss
from ...nn.functional import cross_entropy
from ...tensor import tensor
from .base import Target, digest
from .caption_stream import (
    DIGIT,
    END,
    GRID,
    IDS,
    LONGEST,
    PAD,
    SIDE,
    START,
    WORDS,
    CaptionBatches,
    as_ids,
    as_text,
    as_words,
    position_codes,
)  # fmt: skip
from .options import Option, common_options
from .pair_recipe import exact_matches
from .phases import PhasedRecipe

__all__ = ["Captions"]

_EVALUATED = 200


class CaptionModel(nn.Module):
    """An encoder, a decoder with soft attention and a decoder with hard attention.

    Parameters
    ----------
    dim : int
        Size of an annotation. The state has twice this size, a word embedding half of it.
    """

    def __init__(self, dim):
        super().__init__()
        sizes = (len(WORDS), dim, dim // 2, 2 * dim, dim)
        self.encoder = ConvEncoder(SIDE, 1, (dim // 2, dim, dim))
        self.encoder.positions.data = tensor(position_codes(dim), dtype="float32")
        self.soft, self.hard = ShowAttendTell(*sizes), ShowAttendTell(*sizes, hard=True)
        self.register_buffer("baseline", ops.zeros(LONGEST - 1))  # mean reward of each word

    def forward(self, images, words):
        """Return the logits and the weights of soft attention."""
        return self.soft(self.encoder(images), words)


class Captions(PhasedRecipe):
    """Train a captioner on images of one to three handwritten digits: "seven above two".

    The encoder first learns which digit is at each position, in place of the paper's
    pretraining on ImageNet. It predicts the digit's word through the decoder's output layers.
    From the beginning, the decoder can therefore name the digit that it looks at, and only has
    to learn where to look. Then encoder and decoder learn to write captions with soft
    attention. A copy of the decoder continues with hard attention and REINFORCE. The test
    images show handwriting that does not occur in the training images.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Xu et al. 2015, arXiv:1502.03044v3.
    """

    name = "captions"
    phases = ("pretraining", "soft", "hard")
    summary = 'soft and hard attention write "seven above two, left of four"'
    headline = "A captioner learns where to look before each word."
    target = Target("soft", 0.92, "exact captions of new handwriting, soft attention")
    more_targets = (
        Target("hard", 0.8, "exact captions with hard attention"),
        Target(
            "focus", 6.0, "attention on the named digit, relative to uniform attention",
            percent=False,
        ),
    )  # fmt: skip
    unit = "images"
    one_process = "the baselines of hard attention follow the rewards of the whole batch"
    OPTIONS = (
        *common_options(
            ("layers", "heads", "dropout"),
            steps=1900,
            lr=4e-3,
            batch=64,
            dim=64,
            warmup=20,
            clip=5.0,
            eval_every=300,
        ),
        Option("pretraining", 0.15, "Fraction of the steps that pretrain the encoder.", "share"),
        Option("hard", 0.25, "Fraction of the steps that train hard attention.", "share"),
        Option("penalty", 0.0, "Weight of the doubly stochastic penalty.", "from_zero"),
        Option("reward", 0.3, "Weight of the reward in REINFORCE.", "from_zero"),
        Option("entropy", 0.01, "Weight of the entropy in REINFORCE.", "from_zero"),
        Option("noise", 0.1, "Standard deviation of noise in training images.", "from_zero"),
        Option("scenes", 1000, "Number of test images."),
    )

    def prepare(self):
        """Load and split the digits, and generate the test scenes."""
        images, labels, *test = digits_split()
        self.training = images, labels
        self.test = draw_scenes(self.options["scenes"], *test, np.random.default_rng(0))
        self.captions = self.test.captions()
        return {
            "name": "scenes of scikit-learn's handwritten digits",
            "sha256": digest(images, labels, self.test.images),
        }

    def build(self):
        """Create the encoder and the decoders."""
        self._rewards = []  # rewards of hard attention since the last step
        return CaptionModel(self.options["dim"])

    def rate(self, phase):
        """Return the maximum learning rate of a phase, as a fraction of `lr`."""
        return {"pretraining": 1.0, "soft": 0.75, "hard": 0.25}[phase]

    def batches(self):
        """Return the stream of batches of all phases."""
        return CaptionBatches(self)

    def after_step(self, step):
        """Update the baselines of REINFORCE (section 4.1 of the paper).

        When the last phase begins, initialize the decoder with hard attention from the soft one.
        """
        if step == self.phase(self.options["steps"])[1]:
            self.model.hard.load_state_dict(self.model.soft.state_dict())
        for reward, real in self._rewards:  # each (batch, word)
            mean = reward.sum(0) / real.sum(0).clip(min=1)
            old = self.model.baseline
            self.model.baseline = ops.where(old == 0, mean, 0.9 * old + 0.1 * mean)
        self._rewards.clear()

    def loss(self, model, batch):
        """Return the loss of a batch for its phase: digits, soft attention or hard attention."""
        model.encoder.train("noise" not in batch)
        if "cells" in batch:
            return _digit_loss(model, batch)
        words, targets = batch["words"][:, :-1], batch["words"][:, 1:]
        if "noise" in batch:
            return self._hard_loss(model, batch, words, targets)
        logits, alphas = model(batch["images"], words)
        loss = caption_loss(logits, targets, alphas, self.options["penalty"], PAD)
        return loss / (targets != PAD).sum(1).to(loss.dtype).mean()  # per word

    def _hard_loss(self, model, batch, words, targets):
        """Compute the REINFORCE loss (Eq. 12) with the encoder fixed, as in the paper.

        The reward of a sampled position is the log probability of the current and all later
        words. Earlier words do not depend on the position, so they would only add variance.
        """
        with no_grad():
            annotations = model.encoder(batch["images"])
        found = model.hard.sample(annotations, words, noise=batch["noise"].unsqueeze(0))
        real = (targets != PAD).to(annotations.dtype)  # (batch, word)
        log_p_y = caption_log_p(found.logits[0], targets, PAD)
        reward = log_p_y.detach().flip(-1).cumsum(-1).flip(-1)
        self._rewards.append((reward * real, real))
        loss = reinforce_loss(
            log_p_y, found.log_p_s[0] * real, found.entropy[0] * real, model.baseline,
            self.options["reward"], self.options["entropy"], reward=reward,
        )  # fmt: skip
        return loss / real.mean()  # per word that is not padding

    def write(self, which, count=None):
        """Write captions for the test images with one of the decoders, by greedy search.

        Parameters
        ----------
        which : "soft" or "hard"
        count : int, optional
            Number of images. Default: all.

        Returns
        -------
        list of list of str
        """
        model = Captioner(self.model.encoder, getattr(self.model, which))
        captions = []
        for images in self._test_images(count):
            ids = to_host(translate(model, images, START, END, LONGEST).array)
            captions += [as_words(row) for row in ids]
        return captions

    def attention(self, which, captions):
        """Return the attention weights with which each word of the captions is predicted.

        Parameters
        ----------
        which : "soft" or "hard"
        captions : list of list of str
            Captions of the first test images.

        Returns
        -------
        array of shape (image, word, row, column)
        """
        ids = as_ids(captions)[:, :-1]
        decoder, found = getattr(self.model, which), []
        self.model.eval()
        with no_grad():
            for images in self._test_images(len(captions)):
                words = tensor(ids[len(found) : len(found) + len(images)], device=images.device)
                found += [*to_host(decoder(self.model.encoder(images), words)[1].array)]
        return np.reshape(found, (len(found), -1, GRID, GRID))

    def _test_images(self, count=None, size=250):
        images = self.test.images[:count].astype(as_dtype(self.options["dtype"]))
        for first in range(0, len(images), size):
            yield tensor(images[first : first + size], device=self.options["device"])

    def focus(self, which):
        """Return the attention on a digit when its word is predicted.

        The decoder `which` ("soft" or "hard") reads the correct captions. The result is relative to
        uniform attention, and is the mean over the digits of all test images.
        """
        weights = self.attention(which, self.captions)
        side = SIDE // GRID
        pixels = weights.repeat(side, 2).repeat(side, 3) / side**2  # (image, word, row, column)
        found = []
        for n, caption in enumerate(self.captions):
            named = [t for t, word in enumerate(caption) if IDS[word] < IDS["above"]]
            for t, (row, column) in zip(named, self.test.corners[n], strict=False):
                found.append(pixels[n, t, row : row + DIGIT, column : column + DIGIT].sum())
        return float(np.mean(found)) * SIDE**2 / DIGIT**2

    def evaluate(self, model):
        """Return the loss and the fractions of exact captions on the first test images.

        The loss is that of soft attention, per word. Captions are written with soft attention and
        with hard attention.
        """
        captions = self.captions[:_EVALUATED]
        words = tensor(as_ids(captions), device=self.options["device"])
        with no_grad():
            logits = [
                model(images, words[n * 250 : n * 250 + len(images), :-1])[0]
                for n, images in enumerate(self._test_images(len(captions)))
            ]
            log_p = caption_log_p(ops.cat(logits), words[:, 1:], PAD)
            loss = -log_p.sum().item() / (words[:, 1:] != PAD).sum().item()
        exact = {
            which: exact_matches(self.write(which, _EVALUATED), captions)
            for which in self.phases[1:]
        }
        return {"validation_loss": loss, "accuracy": exact["soft"], "hard": exact["hard"]}

    def measure(self, metrics):
        """Return the rate of exact captions and the `focus` of both decoders on all test images."""
        self.model.eval()
        self.written = {which: self.write(which) for which in self.phases[1:]}
        exact = {
            which: exact_matches(found, self.captions) for which, found in self.written.items()
        }
        return {**exact, "focus": self.focus("soft"), "focus of hard": self.focus("hard")}

    def model_text(self):
        """Describe the size of the model."""
        count = sum(parameter.array.size for parameter in self.model.parameters())
        dim = self.options["dim"]
        return f"3 convolutions, two LSTM decoders, width {dim}: {count:,} parameters"

    def preface(self, page):
        """Print a few captions, and the target values of the metrics."""
        page.text("Captions of some test images:\n")
        page.text("\n".join("  " + as_text(caption) for caption in self.captions[:4]) + "\n")
        super().preface(page)
        page.text("\n".join(f"Also: {target}." for target in self.more_targets))

    def show(self, page, measured):
        """Show mistakes, attention maps, and the rate of exact captions by number of digits."""
        for target in (self.target, *self.more_targets):
            value = measured[target.metric]
            reached = "reached" if target.reached(value) else "missed"
            page.text(f"{target.meaning}: {target.show(value)} ({target.bound}: {reached})")
        page.text(f"with hard attention, the focus is {measured['focus of hard']:.1f}\n")
        number = (self.test.digits >= 0).sum(1)
        rows = [
            (
                f"{n}",
                *[f"{100 * self._exact_of(which, number == n):.1f} %" for which in self.written],
            )
            for n in np.unique(number)
        ]
        page.table([("digits", "soft", "hard"), *rows])
        self._write_mistakes(page)
        page.draw_loss("Captions: digits, then soft, then hard attention", unit="nats per word")
        self._draw_attention(page, number)
        return True

    def _exact_of(self, which, chosen):
        pairs = zip(self.written[which], self.captions, strict=True)
        return np.mean([a == b for (a, b), here in zip(pairs, chosen, strict=True) if here])

    def _write_mistakes(self, page):
        wrong = [
            f"{which}: {as_text(found)!r} instead of {as_text(caption)!r}"
            for which, written in self.written.items()
            for found, caption in zip(written, self.captions, strict=True)
            if found != caption
        ]
        page.write("mistakes.txt", "\n".join(wrong) + "\n", "wrong captions")

    def _draw_attention(self, page, number):
        """Plot where both decoders look before each word of a few captions.

        Hard attention looks only at the most probable position.
        """
        chosen = [i for n in (3, 3, 2, 1) for i in np.flatnonzero(number == n)[:2]]
        chosen = [*dict.fromkeys(chosen)][:4]
        scenes, labels = [], []
        weights = {which: self.attention(which, found) for which, found in self.written.items()}
        flat = weights["hard"].reshape(*weights["hard"].shape[:2], -1)
        weights["hard"] = np.eye(GRID**2)[flat.argmax(-1)].reshape(weights["hard"].shape)
        for i in chosen:
            for which, maps in weights.items():
                words = self.written[which][i][: LONGEST - 2]
                scenes.append((self.test.images[i, 0], words, maps[i, : len(words)]))
                labels.append(which)
        figure = page.viz.caption_figure(
            scenes, "Where the model looks before each word (new handwriting)", labels,
            [label == "soft" for label in labels],
        )  # fmt: skip
        page.save("captions.png", figure, "where the model looks before each word")


def _digit_loss(model, batch):
    """Compute the cross-entropy of the digit's word at each position.

    The word is predicted by Eq. 7 of the paper with only the term L_z z, where z is the position's
    annotation: the feature vector that the encoder computes for this position. The padding
    token means "no digit". It has a smaller weight, because most positions do not contain a digit.
    """
    decoder = model.soft
    logits = decoder.L_o(decoder.L_z(model.encoder(batch["images"])))  # (batch, position, word)
    weight = np.ones(len(WORDS))
    weight[PAD] = 0.3
    weight = tensor(weight, dtype=logits.dtype, device=logits.device)
    return cross_entropy(logits.reshape(-1, len(WORDS)), batch["cells"].reshape(-1), weight)
