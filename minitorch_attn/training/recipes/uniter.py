"""UNITER recipe: pretrain on captions of regions, then answer questions with few labels."""

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...backend import as_dtype, to_host
from ...data.digits import digits_split
from ...data.scene_questions import (
    ANSWERS,
    CLS,
    MASK,
    PAD,
    SEP,
    WORDS,
    draw_captions,
    draw_region_scenes,
)  # fmt: skip
from ...models.uniter import (
    UNITER,
    UNITERClassifier,
    UNITERPreTraining,
    image_text_matching_loss,
    region_kl_loss,
    region_regression_loss,
    word_region_alignment,
)  # fmt: skip
from ...nn.functional import cross_entropy
from ...tensor import tensor
from .base import Target, digest, start_by_width
from .options import Option, common_options
from .phases import PhasedRecipe
from .uniter_stream import (
    FEATURES,
    GRID,
    IGNORED,
    MOST,
    PLACES,
    Detector,
    Questions,
    UniterBatches,
    locations,
    mask_words,
)  # fmt: skip

__all__ = ["Uniter"]

_KINDS = ("what is top left?", "what is left of the seven?", "where is the four from the seven?")
_EVALUATED = 200


class Models(nn.Module):
    """UNITER with its pretraining heads, and three UNITERs that answer questions.

    All start with the same parameters.

    Parameters
    ----------
    make_encoder : callable
        Function that returns a new `UNITER`.
    """

    def __init__(self, make_encoder):
        super().__init__()
        self.pretraining = UNITERPreTraining(make_encoder(), 10)
        for name in ("full", "tenth", "scratch"):
            setattr(self, name, UNITERClassifier(make_encoder(), len(ANSWERS)))
        start_by_width(self)
        nn.init.normal_(self.pretraining.uniter.token_embedding.weight, std=0.1)
        self.tenth.load_state_dict(self.full.state_dict())
        self.scratch.load_state_dict(self.full.state_dict())
        self.start("scratch")

    def start(self, *names):
        """Copy the encoder of `pretraining` to the models with the given names."""
        state = self.pretraining.uniter.state_dict()
        for name in names:
            getattr(self, name).uniter.load_state_dict(state)


class Uniter(PhasedRecipe):
    """Train UNITER on captions of scenes, and then to answer questions about scenes.

    A scene has up to four handwritten digits in 2 x 2 cells. Its regions are the digits' crops. In
    place of UNITER's object detector, a small network that was trained on single digits turns the
    crops into features. Pretraining first masks only words, because this task is the most useful
    here. It then draws one of the paper's tasks for each batch: masked words, masked regions (by
    regression and by KL divergence), or matching with word-region alignment.

    The pretrained network is then trained to answer questions, once with all labels and once
    with a tenth of them. The same network without pretraining is trained with the same tenth.
    The test scenes show handwriting that does not occur in training.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Chen et al. 2020, arXiv:1909.11740v3.
    """

    name = "uniter"
    phases = ("pretraining", "full", "tenth", "scratch")
    tasks = ("words", "regions", "matching")
    summary = 'one stream of words and regions answers "what is left of the seven?"'
    headline = "UNITER learns from captions of regions, and then answers questions with few labels."
    target = Target("full", 0.8, "correct answers about new handwriting, with all labels")
    more_targets = (
        Target("gain", 0.05, "gain in accuracy by pretraining, with a tenth of the labels"),
        Target("aligned", 0.6, "digit words aligned with their own region"),
    )
    unit = "scenes"
    betas = (0.9, 0.98)
    OPTIONS = (
        *common_options(
            steps=5400, lr=4e-3, batch=64, dim=48, layers=3, heads=4, warmup=50, clip=5.0,
            weight_decay=0.01, eval_every=600,
        ),
        Option("words", 0.65, "Fraction of pretraining that masks only words.", "share"),
        Option("questions", 0.1, "Fraction of the steps that each fine-tuning takes.", "share"),
        Option("labels", 3000, "Number of questions with labels."),
        Option("alignment", 0.5, "Weight of word-region alignment.", "from_zero"),
        Option("regression", 0.1, "Weight of the regression of masked regions.", "from_zero"),
        Option("noise", 0.1, "Standard deviation of noise on training crops.", "from_zero"),
        Option("scenes", 1000, "Number of test scenes."),
    )  # fmt: skip

    def prepare(self):
        """Train the detector, and generate the labeled questions and the test scenes."""
        images, labels, *test = digits_split()
        self.training, options = (images, labels), self.options
        self.detector = Detector(images, labels)
        full = Questions.draw(
            options["labels"], images, labels, np.random.default_rng(1), options["noise"]
        )
        tenth = full.take(slice(0, max(len(full.ids) // 10, 1)))
        self.labeled = {"full": full, "tenth": tenth, "scratch": tenth}
        generator = np.random.default_rng(0)
        self.test = Questions.draw(options["scenes"], *test, generator)
        self.captioned = draw_region_scenes(
            options["scenes"], *test, generator, fewest=3, most=MOST, grid=GRID
        )
        self.captions, self.named = draw_captions(self.captioned, generator)
        return {
            "name": "scenes of scikit-learn's handwritten digits",
            "sha256": digest(images, labels, self.test.ids, self.captions),
        }

    def build(self):
        """Create the network to pretrain, and the networks that answer questions."""
        options = self.options
        sizes = (len(WORDS), FEATURES, *(options[name] for name in ("dim", "heads", "layers")))

        def make_encoder():
            return UNITER(
                *sizes, box_dim=PLACES, ff_dim=2 * options["dim"], max_positions=10,
                dropout=options["dropout"],
            )  # fmt: skip

        return Models(make_encoder)

    def phase(self, step):
        """Return a step's phase, the phase's first step, and the next phase's first step."""
        steps = self.options["steps"]
        each = round(self.options["questions"] * steps)
        first = max(steps - 3 * each, 1)
        ends = [first, first + each, first + 2 * each, max(steps, first + 1)]
        which = sum(step >= end for end in ends[:3])
        return self.phases[which], *([0, *ends][which : which + 2])

    def rate(self, phase):
        """Return the maximum learning rate of a phase, as a fraction of `lr`."""
        return 1.0 if phase == "pretraining" else 0.5

    def batches(self):
        """Return the stream of batches of all phases."""
        return UniterBatches(self)

    def count(self, batch):
        """Return the number of items over which the loss of a batch is averaged.

        Depending on the task, the items are words to predict, regions to predict, or sentences.
        """
        if "labels" in batch:
            return (batch["labels"] != IGNORED).sum().item()
        return batch["predicted"].sum().item() if "predicted" in batch else len(batch["ids"])

    def after_step(self, step):
        """When pretraining ends, copy the encoder to the models that answer questions."""
        if step == self.phase(0)[2]:
            self.model.start("full", "tenth")

    def regions(self, scenes):
        """Return the regions of scenes as inputs of the network, and their class probabilities."""
        dtype, absent = as_dtype(self.options["dtype"]), scenes.digits < 0
        features, classes = self.detector(scenes.crops)
        found = {"features": features, "boxes": locations(scenes.boxes)}
        found = {name: values.astype(dtype) for name, values in found.items()}
        return {**found, "absent": absent}, classes.astype(dtype)

    def loss(self, model, batch):
        """Return the loss of a batch, for one of the pretraining tasks or for questions."""
        for name in self.phases[1:]:
            if name in batch:
                return cross_entropy(_run(getattr(model, name), batch), batch[name])
        found = _run(model.pretraining, batch)
        if "labels" in batch:
            labels = batch["labels"].flatten()
            return cross_entropy(found.words.flatten(0, 1), labels, ignore_index=IGNORED)
        if "hidden" in batch:
            return self._region_loss(found, batch)
        return self._matching_loss(found, batch)

    def _region_loss(self, found, batch):
        """Compute the loss of masked regions.

        The classes of regions are the ten digits. Digits are also words, so the head that predicts
        masked words predicts the classes, too.
        """
        head, first = self.model.pretraining.word_head, WORDS.index("zero")
        logits = head(found.hidden[:, batch["ids"].shape[1] :])[..., first : first + 10]
        chosen = batch["predicted"]
        regression = region_regression_loss(found.features, batch["features"], chosen)
        kl = region_kl_loss(logits, batch["classes"], chosen)
        return kl + self.options["regression"] * regression

    def _matching_loss(self, found, batch):
        """Compute the matching loss, plus the alignment loss of the matching sentences."""
        matches = batch["matches"]
        distance, _ = word_region_alignment(*_parts(found.hidden, batch))
        alignment = (distance * matches).mean()
        loss = image_text_matching_loss(found.score, matches)
        return loss + self.options["alignment"] * alignment

    def _batches_of(self, scenes, ids, size=250):
        """Yield inputs for all scenes and their sentences, as dicts of tensors."""
        for first in range(0, len(ids), size):
            part = slice(first, first + size)
            batch, _ = self.regions(scenes.take(part))
            batch["ids"] = ids[part]
            yield {name: tensor(x, device=self.options["device"]) for name, x in batch.items()}

    def answers(self, which, questions):
        """Return a model's answers: for each question, the index of the most likely answer.

        Parameters
        ----------
        which : {"full", "tenth", "scratch"}
            "full" was trained on all questions, "tenth" on a tenth of them, and "scratch" on this
            tenth without pretraining.
        questions : Questions

        Returns
        -------
        int64 array of shape (question,)
        """
        model = getattr(self.model, which).eval()
        with no_grad():
            batches = self._batches_of(questions.scenes, questions.ids)
            found = [to_host(_run(model, batch).argmax(1).array) for batch in batches]
        return np.concatenate(found)

    def alignment(self, count=None):
        """Return the transport plan (word, region) of each test caption.

        Returns
        -------
        array of shape (scene, 9, region)
            A caption has 9 tokens, including special tokens and padding.
        """
        model, found = self.model.pretraining.eval(), []
        with no_grad():
            for batch in self._batches_of(self.captioned.take(slice(count)), self.captions[:count]):
                _, plan = word_region_alignment(*_parts(_run(model, batch).hidden, batch))
                found.append(to_host(plan.array))
        return np.concatenate(found)

    def aligned(self):
        """Return the fraction of digit words aligned most strongly with their own region."""
        plan = self.alignment()
        words = np.argwhere((self.named >= 0) & _is_digit(self.captions))
        return float(np.mean([plan[n, k].argmax() == self.named[n, k] for n, k in words]))

    def prompted(self):
        """Return the pretrained network's accuracy on questions about the neighbor of a digit.

        The network has not been fine-tuned on questions. For "what is left of the seven?", it
        predicts the masked word of "[MASK] left of seven".
        """
        asked = self.test.take(self.test.kind == 1)
        ids = np.full((len(asked.ids), 5), SEP)
        ids[:, :2], ids[:, 2:4] = [CLS, MASK], asked.ids[:, [3, 5]]
        model, found, first = self.model.pretraining.eval(), [], WORDS.index("zero")
        with no_grad():
            for batch in self._batches_of(asked.scenes, ids):
                logits = _run(model, batch).words[:, 1, first : first + 10]
                found.append(to_host(logits.argmax(1).array))
        return float((np.concatenate(found) == asked.answers).mean())

    def evaluate(self, model):
        """Return the loss of masked words, and the accuracy on some test questions."""
        scenes, captions = self.captioned.take(slice(_EVALUATED)), self.captions[:_EVALUATED]
        ids, labels = mask_words(captions, np.random.default_rng(0))
        with no_grad():
            (batch,) = self._batches_of(scenes, ids)
            words = _run(model.pretraining, batch).words.flatten(0, 1)
            labels = tensor(labels.reshape(-1), device=words.device)
            loss = cross_entropy(words, labels, ignore_index=IGNORED).item()
        questions = self.test.take(slice(_EVALUATED))
        correct = {
            which: float((self.answers(which, questions) == questions.answers).mean())
            for which in self.phases[1:]
        }
        return {"validation_loss": loss, **correct}

    def measure(self, metrics):
        """Return the accuracies of all networks, and the results of `aligned` and `prompted`."""
        self.found = {which: self.answers(which, self.test) for which in self.phases[1:]}
        correct = {
            which: float((found == self.test.answers).mean()) for which, found in self.found.items()
        }
        return {
            **correct, "gain": correct["tenth"] - correct["scratch"], "aligned": self.aligned(),
            "prompted": self.prompted(),
        }  # fmt: skip

    def model_text(self):
        """Describe the size of one network."""
        options = self.options
        count = sum(p.array.size for p in self.model.full.parameters())
        return (
            f"{options['layers']} layers, {options['heads']} heads, width {options['dim']}: "
            f"{count:,} parameters"
        )

    def preface(self, page):
        """Print a few captions and questions, and the target values of the metrics."""
        page.text("Captions and questions of some test scenes:\n")
        for ids in (*self.captions[:3], *self.test.ids[:3]):
            page.text("  " + _text(ids))
        super().preface(page)
        page.text("\n".join(f"Also: {target}." for target in self.more_targets))

    def show(self, page, measured):
        """Show the accuracy for each kind of question, and the alignment of words with regions."""
        for target in (self.target, *self.more_targets):
            value = measured[target.metric]
            reached = "reached" if target.reached(value) else "missed"
            page.text(f"{target.meaning}: {target.show(value)} ({target.bound}: {reached})")
        rows = [("", "all labels", "a tenth", "a tenth, not pretrained")]
        for kind, name in enumerate(_KINDS):
            asked = self.test.kind == kind
            right = [(found == self.test.answers)[asked] for found in self.found.values()]
            rows.append((name, *[f"{100 * x.mean() if x.size else 0:.1f} %" for x in right]))
        page.table(rows)
        text = '"what is left of the seven?" without any label, by the word at [MASK]'
        page.text(f"{text}: {100 * measured['prompted']:.1f} %")
        page.draw_loss("UNITER: pretraining (with validation), then questions", unit="nats")
        self._draw_plans(page)
        return True

    def _draw_plans(self, page, count=4):
        """Plot the transport plans of the first captions."""
        plans, images = self.alignment(count), self.captioned.images()
        scenes = []
        for n, plan in enumerate(plans):
            words = np.flatnonzero(self.captions[n] > MASK)
            regions = self.captioned.digits[n] >= 0
            names = [WORDS[i] for i in self.captions[n, words]]
            boxes = self.captioned.boxes[n, regions]
            scenes.append((images[n], boxes, names, plan[np.ix_(words, regions)]))
        figure = page.viz.transport_figure(scenes, "Which word is aligned with which region")
        page.save("plans.png", figure, "the transport plan, word by region")


def _run(model, batch):
    """Run a model on the words and regions of a batch."""
    return model(
        batch["ids"], batch["features"], batch["boxes"], batch["ids"] == PAD, batch["absent"],
        masked_regions=batch.get("hidden"),
    )  # fmt: skip


def _parts(hidden, batch):
    """Return the vectors of words and of regions, and a mask for each.

    The masks are True for special tokens and for missing regions.
    """
    words = batch["ids"].shape[1]
    return hidden[:, :words], hidden[:, words:], batch["ids"] <= MASK, batch["absent"]


def _is_digit(ids):
    first = WORDS.index("zero")
    return (ids >= first) & (ids < first + 10)


def _text(ids):
    """Return the text of a caption or question."""
    text = " ".join(WORDS[i] for i in ids if i > MASK)
    return text.replace(" ,", ",").replace(" ?", "?")
