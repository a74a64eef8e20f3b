"""BERT recipe: pre-train on masked words, then fine-tune on passage topics with few labels."""

import math

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...backend import to_host
from ...data.examples import ShuffledBatches, in_batches
from ...data.passages import HelpPassages
from ...data.tokenizers import WordTokenizer
from ...models.bert import BERT as BERTModel
from ...models.bert import BERTClassifier, BERTMaskedLM
from ...nn.functional import cross_entropy, softmax
from ...tensor import tensor
from .base import Recipe, Target, digest
from .masked_stream import MaskedBatch, TwoLives, hide_words
from .options import Option, common_options

__all__ = ["BERT"]

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_CLS, _SEP, _MASK = 2, 3, 4


class ThreeBERTs(nn.Module):
    """A language model, a classifier fine-tuned from it, and a classifier trained from scratch.

    Parameters
    ----------
    make_bert : callable
        Function that returns a new BERT.
    num_classes : int
    """

    def __init__(self, make_bert, num_classes):
        super().__init__()
        self.language = BERTMaskedLM(make_bert())
        self.classifier = BERTClassifier(make_bert(), num_classes)
        self.scratch = BERTClassifier(make_bert(), num_classes)

    def hand_over(self):
        """Copy the weights of the language model to the classifier."""
        self.classifier.bert.load_state_dict(self.language.bert.state_dict())


class BERT(Recipe):
    """Train a BERT on masked text, then fine-tune it with few labels.

    The model reads Python's help topics with some words masked and learns to predict these words.
    The last steps (--finetune) fine-tune a copy to classify passages of 30 words into eight topics,
    given a few labeled passages per topic. A second BERT learns to classify from scratch on the
    same batches. The difference in accuracy is the benefit of pre-training. The pre-training text
    does not contain the test passages.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Devlin et al. 2018, arXiv:1810.04805v2.
    """

    name = "bert"
    summary = "a BERT predicts hidden words, then classifies topics from few labels"
    headline = "A BERT learns to predict hidden words, then to classify with few labels."
    target = Target("accuracy", 0.45, "test accuracy after fine-tuning")
    unit = "passages"
    noun = "text"
    data_hint = "use the same version of Python as before"
    changeable = ("device",)
    betas = (0.9, 0.98)
    OPTIONS = (
        *common_options(steps=2400, lr=2e-3, batch=32, dropout=0.1, eval_every=50),
        Option("finetune", 400, "Number of fine-tuning steps at the end of the run."),
        Option("finetune_lr", 5e-4, "Maximum learning rate during fine-tuning.", "positive"),
        Option("labels", 20, "Number of labeled passages of each topic."),
        Option("words", 30, "Number of words in a passage."),
        Option("hidden", 0.15, "Fraction of the words that are hidden in pre-training.", "share"),
    )

    def prepare(self):
        """Split the text, and choose the labeled passages for each topic."""
        options, text = self.options, HelpPassages()
        self.topics = text.names
        self.tokenizer = WordTokenizer.from_text(
            " ".join(text.reading), min_count=3, special_tokens=_SPECIAL, unknown="[UNK]"
        )
        self.vocabulary = "\n".join(self.tokenizer.vocabulary)
        self.reading = [self.tokenizer.encode(run) for run in text.reading]
        self.reading = [run for run in self.reading if len(run) >= options["words"]]
        ids, labels = text.passages(text.training, self.tokenizer, options["words"])
        few = np.random.default_rng(0).permutation(len(ids))
        few = [few[labels[few] == topic][: options["labels"]] for topic in range(len(self.topics))]
        few = np.concatenate(few)
        self.labelled = framed(ids[few]), labels[few]
        ids, labels = text.passages(text.held_out, self.tokenizer, options["words"])
        unread = ~occurs_in(ids, self.reading)
        self.test = framed(ids[unread]), labels[unread]
        return {
            "name": f"Python's help topics: {sum(map(len, self.reading)):,} words to read, "
            f"{len(few)} labeled passages, {unread.sum()} to test",
            "sha256": digest(self.vocabulary, *self.reading, *self.labelled, *self.test),
        }

    def build(self):
        """Create three BERTs of the same size."""
        options = self.options

        def make_bert():
            return BERTModel(
                len(self.tokenizer), embed_dim=options["dim"], num_heads=options["heads"],
                num_layers=options["layers"], max_positions=options["words"] + 2, num_segments=1,
                dropout=options["dropout"],
            )  # fmt: skip

        return ThreeBERTs(make_bert, len(self.topics))

    @property
    def boundary(self):
        """Step at which fine-tuning starts."""
        steps = self.options["steps"]
        return steps - min(self.options["finetune"], steps // 2)

    def batches(self):
        """Return batches of masked text, followed by batches of labeled passages."""
        options = self.options
        size = min(options["batch"], len(self.labelled[1]))
        labelled = ShuffledBatches(self.labelled, size, options["seed"], options["device"])
        self.stream = TwoLives(self._masked_batch, labelled, self.boundary, options["seed"])
        return self.stream

    def after_step(self, step):
        """When fine-tuning starts, copy the pre-trained weights to the classifier."""
        if step == self.boundary:
            self.model.hand_over()

    def _masked_batch(self, generator):
        """Return masked random windows of the pre-training text."""
        length = self.options["words"]
        sizes = np.array([len(run) - length + 1 for run in self.reading])
        ends = np.cumsum(sizes)
        rows = []
        for place in generator.integers(ends[-1], size=self.options["batch"]):
            number = int(np.searchsorted(ends, place, side="right"))
            start = place - (ends[number] - sizes[number])
            rows.append(self.reading[number][start : start + length])
        return self._hide(framed(np.stack(rows)), generator)

    def _hide(self, ids, generator):
        """Mask words in a batch."""
        sizes = (len(_SPECIAL), len(self.tokenizer))
        parts = hide_words(ids, generator, self.options["hidden"], _MASK, *sizes)
        return MaskedBatch(*(tensor(part, device=self.options["device"]) for part in parts))

    def learning_rate_factor(self, step):
        """Return the learning-rate factor: a warm-up and a cosine decay in each training phase."""
        options, boundary = self.options, self.boundary
        if step < boundary:
            done, steps, top = step, boundary, 1.0
        else:
            done, steps = step - boundary, max(options["steps"] - boundary, 1)
            top = options["finetune_lr"] / options["lr"]
        warmup = max(min(options["warmup"], steps // 10), 1)
        if done < warmup:
            return top * (done + 1) / (warmup + 1)
        return top / 2 * (1 + math.cos(math.pi * min((done - warmup) / (steps - warmup + 1), 1)))

    def loss(self, model, batch):
        """Return the cross-entropy of masked words, or the mean of both classifiers' losses."""
        if isinstance(batch, MaskedBatch):
            logits = hidden_word_logits(model.language, batch)
            return cross_entropy(logits.flatten(0, 1), batch.words.flatten())
        losses = [
            cross_entropy(classifier(batch.ids), batch.labels)
            for classifier in (model.classifier, model.scratch)
        ]
        return (losses[0] + losses[1]) / 2

    # Evaluation

    def baselines(self):
        """Return the loss of a unigram model, which uses only word frequencies."""
        counts = np.bincount(np.concatenate(self.reading), minlength=len(self.tokenizer)) + 1
        words = self.test[0][:, 1:-1]
        words = words[words >= len(_SPECIAL)]
        return {"unigram": float(-np.log(counts[words] / counts.sum()).mean())}

    def evaluate(self, model):
        """Evaluate the current phase's task on the test passages: masked words, or topics."""
        if self.stream.position <= self.boundary:
            return self.evaluate_language()
        loss, accuracy = self._classify(model.classifier)
        _, scratch = self._classify(model.scratch)
        return {"validation_loss": loss, "accuracy": accuracy, "scratch_accuracy": scratch}

    def evaluate_language(self):
        """Return the loss and accuracy for masked words in the test passages, with fixed masks."""
        generator, losses, right = np.random.default_rng(0), [], []
        with no_grad():
            for first in range(0, len(self.test[0]), 64):
                batch = self._hide(self.test[0][first : first + 64], generator)
                logits = hidden_word_logits(self.model.language, batch).flatten(0, 1)
                words = batch.words.flatten()
                losses.append(to_host(cross_entropy(logits, words, reduction="none").array))
                right.append(to_host((logits.argmax(-1) == words).array))
        return {
            "validation_loss": float(np.concatenate(losses).mean()),
            "hidden_words_right": float(np.concatenate(right).mean()),
        }

    def _classify(self, classifier):
        """Return a classifier's loss and accuracy on the test passages."""
        logits, losses = [], []
        with no_grad():
            for ids, labels in in_batches(self.test, 128, self.options["device"]):
                logits.append(classifier(ids))
                losses.append(cross_entropy(logits[-1], labels, reduction="none"))
        answers = np.concatenate([to_host(part.array) for part in logits]).argmax(1)
        loss = np.concatenate([to_host(part.array) for part in losses]).mean()
        return float(loss), float((answers == self.test[1]).mean())

    def measure(self, metrics):
        """Return the accuracies on topics, a majority baseline, and the results on masked words."""
        last = metrics[-1]
        self.model.eval()
        language = self.evaluate_language()
        return {
            "accuracy": last["accuracy"],
            "from scratch": last["scratch_accuracy"],
            "majority": float(np.bincount(self.test[1]).max() / len(self.test[1])),
            "hidden words right": language["hidden_words_right"],
            "hidden words loss": language["validation_loss"],
        }

    # Report

    def facts(self):
        """Describe the data, the model, the number of steps of both phases, and the topics."""
        rows = super().facts()
        steps, options = self.options["steps"], self.options
        rows[-1] = (
            "training",
            f"{self.boundary:,} steps of {options['batch']} passages with hidden words, then "
            f"{steps - self.boundary:,} with labels",
        )
        rows.append(("topics", ", ".join(self.topics)))
        return rows

    def show(self, page, measured):
        """Show the accuracies, baselines and predicted words; plot the loss and the accuracy."""
        rows = [
            (f"{100 * measured['majority']:.1f} %", "always the largest topic"),
            (f"{100 * measured['from scratch']:.1f} %", "trained from scratch, on the same labels"),
            (f"{100 * measured['accuracy']:.1f} %", "pre-trained on hidden words"),
        ]
        labels = f"{self.options['labels']} labeled passages of each topic"
        page.text(f"Accuracy on {len(self.test[1])} test passages, with {labels}:\n")
        page.table(rows)
        page.text("\nPrediction of hidden words in the test passages, after pre-training:\n")
        rows = [
            (
                f"{100 * measured['hidden words right']:.1f} %",
                "of the hidden words are predicted correctly",
            ),
            (f"{measured['hidden words loss']:.2f}", "loss of the hidden words"),
            (f"{page.baselines['unigram']:.2f}", "loss of the word frequencies alone"),
        ]
        page.table(rows)
        self._fill_in(page)
        reading = [m for m in page.metrics if m["step"] <= self.boundary]
        page.draw_loss("BERT: hidden words", metrics=reading, unit="nats per hidden word")
        tuning = [m for m in page.metrics if m["step"] > self.boundary and "accuracy" in m]
        curves = {
            "pre-trained": [(m["step"] - self.boundary, m["accuracy"]) for m in tuning],
            "from scratch": [(m["step"] - self.boundary, m["scratch_accuracy"]) for m in tuning],
        }
        figure = page.viz.accuracy_figure(
            curves,
            {"largest topic": measured["majority"]},
            "BERT: topics of test passages",
            "step of fine-tuning",
        )
        page.save("accuracy.png", figure, "test accuracy with and without pre-training")
        return True

    def _fill_in(self, page, count=4):
        """Show a few test passages with one masked word and the most likely predictions."""
        page.heading("Predictions of hidden words")
        lines = []
        for passage in np.linspace(0, len(self.test[0]) - 1, count).astype(int):
            ids = self.test[0][passage].copy()
            known = np.flatnonzero(ids >= len(_SPECIAL))
            place = int(known[len(known) // 2])
            word, ids[place] = self.tokenizer.vocabulary[ids[place]], _MASK
            with no_grad():
                logits = self.model.language(tensor(ids[None], device=self.options["device"]))
                chances = to_host(softmax(logits[0, place], -1).array)
            best = np.argsort(-chances)[:4]
            fillings = [f"{self.tokenizer.vocabulary[i]} {100 * chances[i]:.0f} %" for i in best]
            around = self.tokenizer.decode(ids[max(place - 8, 1) : min(place + 7, len(ids) - 1)])
            lines += [f"  ... {around} ...", f"      {', '.join(fillings)}; it was: {word}"]
        page.text("\n".join(lines))
        page.write("hidden_words.txt", "\n".join(lines) + "\n", "hidden words and predictions")


def framed(ids):
    """Add [CLS] before and [SEP] after each row: (passage, token) -> (passage, token + 2)."""
    return np.pad(
        np.pad(ids, ((0, 0), (1, 0)), constant_values=_CLS), ((0, 0), (0, 1)), constant_values=_SEP
    )


def occurs_in(passages, runs):
    """Return a mask that is True for passages that occur verbatim in one of the texts `runs`.

    Parameters
    ----------
    passages : int64 array of shape (passage, token)
    runs : list of int64 array of shape (token,)
        Token ids of the texts.

    Returns
    -------
    bool array of shape (passage,)

    Examples
    --------
    >>> occurs_in(np.array([[1, 2], [2, 1]]), [np.array([3, 1, 2]), np.array([2, 3])])
    array([ True, False])
    """
    length = passages.shape[1]
    windows = {run[i : i + length].tobytes() for run in runs for i in range(len(run) - length + 1)}
    return np.array([passage.tobytes() in windows for passage in passages])


def hidden_word_logits(language, batch):
    """Return the logits (batch, masked word, vocabulary) at the masked positions only."""
    vectors = language.bert(batch.ids)  # (batch, token, embed)
    places = batch.places.unsqueeze(-1).expand(-1, -1, vectors.shape[-1])
    return language.head(vectors.gather(1, places))  # (batch, masked word, embed) to logits
