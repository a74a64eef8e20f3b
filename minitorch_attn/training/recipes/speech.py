"""Speech recipe: spoken digits in noise, recognized by two Conformers and an LSTM."""

import math

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...backend import as_dtype, to_host
from ...data.spoken_digits import DIGIT_WORDS, SAMPLE_RATE, draw_speakers, draw_utterances
from ...generation.ctc_decoding import ctc_decode
from ...generation.translate import translate
from ...generation.word_error_rate import word_error_rate
from ...models import ConformerEncoder, CTCRecognizer, LSTMEncoder, SpeechSeq2Seq
from ...nn import collect_attention
from ...nn.functional import cross_entropy, ctc_loss, log_softmax
from ...ops import cat
from ...tensor import tensor
from .base import Recipe, Target, digest
from .options import Option, common_options
from .speech_stream import (
    BLANK,
    CLASSES,
    END,
    FEWEST,
    HOP,
    MELS,
    MOST,
    START,
    TOKENS,
    SpeechBatches,
    frame_centers,
    labels_of,
    log_mel,
    padded_log_mel,
    written,
)  # fmt: skip

__all__ = ["PlacedConformer", "Recognizers", "Speech"]

CTC, DECODER, LSTM = MODELS = ("Conformer, CTC", "Conformer, decoder", "LSTM, CTC")
_EVALUATED = 100  # number of test utterances in evaluations during training
_AT_ONCE = 50  # utterances that are recognized at once
_NEW_SPEAKERS = 20


class PlacedConformer(ConformerEncoder):
    """Conformer encoder that adds sinusoidal positional encodings to its output.

    A Conformer uses only relative positions, so its outputs are nearly the same each time a word
    occurs. With positional encodings, a decoder can tell the first "seven" from the second.

    Parameters
    ----------
    *sizes
        Parameters of `ConformerEncoder`.
    """

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.positions = nn.SinusoidalPositionalEncoding(self.output_dim, 512)

    def encode(self, features, padding=None):
        """Encode sequences of frames; see `ConformerEncoder.encode`."""
        return self.positions(super().encode(features, padding))


class Recognizers(nn.Module):
    """Three recognizers that are trained on the same batches but do not share parameters.

    Parameters
    ----------
    ctc, lstm : CTCRecognizer
    decoder : SpeechSeq2Seq
    helper : Linear
        CTC output layer on the encoder of `decoder`. It is used only in training.
    """

    def __init__(self, ctc, decoder, lstm, helper):
        super().__init__()
        self.ctc, self.decoder, self.lstm, self.helper = ctc, decoder, lstm, helper


class Speech(Recipe):
    """Train three models to recognize three to seven spoken digits in noise.

    The first is a Conformer with CTC, the second a Conformer with a Transformer decoder. The third
    is an LSTM with CTC and the same number of parameters as the first. A seed determines the
    speech. The speakers of the test set do not occur in training.

    The first phase trains the Conformer with CTC. In the second phase, a decoder learns to
    transcribe the output of a copy of this Conformer. The copy also has a CTC loss, as in [2]_, but
    only the decoder writes transcripts. The LSTM is trained in both phases, longer than either
    Conformer.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Gulati et al. 2020, arXiv:2005.08100v1.
    .. [2] Kim, Hori and Watanabe 2017, arXiv:1609.06773v2, section 3.1 (CTC as auxiliary loss).
    """

    name = "speech"
    summary = "a Conformer transcribes spoken digits, with CTC and with a decoder"
    headline = "Two Conformers and an LSTM learn to transcribe spoken digits in noise."
    target = Target(
        "worse Conformer", 0.05, "word error rate of new speakers, CTC and decoder",
        higher_is_better=False,
    )  # fmt: skip
    unit = "utterances"
    one_process = "its batch normalization needs the whole batch"
    OPTIONS = (
        *common_options(
            steps=1500, lr=2e-3, batch=16, layers=2, heads=4, dim=64, dropout=0.1, warmup=50,
            clip=5.0, eval_every=200,
        ),
        Option("channels", 16, "Channels of the convolutions that reduce the number of frames."),
        Option("kernel", 15, "Kernel size of a Conformer's convolution in frames (odd)."),
        Option("decoder_layers", 2, "Number of layers of the decoder."),
        Option("decoder", 0.7, "Fraction of the steps that train the decoder, after CTC.", "share"),
        Option("helper", 1.0, "Weight of the auxiliary CTC loss of the decoder.", "from_zero"),
        Option("speakers", 30, "Number of speakers of the training set."),
        Option("utterances", 1000, "Number of utterances of the training set."),
        Option("test", 500, "Number of utterances of the test set."),
        Option("snr", 5.0, "Signal-to-noise ratio in dB.", "positive"),
    )  # fmt: skip

    def prepare(self):
        """Synthesize the training set without noise and the test set with noise."""
        options, rng = self.options, np.random.default_rng(0)
        known, new = draw_speakers(options["speakers"], rng), draw_speakers(_NEW_SPEAKERS, rng)
        self.test = draw_utterances(options["test"], new, rng, FEWEST, MOST, options["snr"])
        self.test.sort(key=lambda one: len(one.waveform))  # less padding
        # Every n-th utterance, so that all lengths occur.
        self.some = self.test[:: max(options["test"] // _EVALUATED, 1)]
        self.training = draw_utterances(options["utterances"], known, rng, FEWEST, MOST)
        sounds = [one.waveform for one in (*self.test, *self.training)]
        return {"name": "spoken digits, generated from a seed", "sha256": digest(*sounds)}

    def build(self):
        """Create the three recognizers."""
        self._decoding = False
        options, dim, heads = self.options, self.options["dim"], self.options["heads"]
        dropout, channels = options["dropout"], options["channels"]
        sizes = (MELS, dim, heads, options["layers"], options["kernel"], 4, dropout, channels)
        ctc = CTCRecognizer(ConformerEncoder(*sizes), CLASSES, BLANK)
        decoder = SpeechSeq2Seq(
            PlacedConformer(*sizes), TOKENS, options["decoder_layers"], heads, 2 * dim, dropout
        )
        units = lstm_units(_size_of(ctc) - _size_of(ctc.encoder.subsampling), dim, CLASSES)
        lstm = LSTMEncoder(MELS, dim, units, 2, dropout, channels)
        lstm = CTCRecognizer(lstm, CLASSES, BLANK)
        return Recognizers(ctc, decoder, lstm, nn.Linear(dim, CLASSES))

    def model_text(self):
        """Describe the size of the models."""
        model, options = self.model, self.options
        return (
            f"{options['layers']} Conformer blocks, width {options['dim']}; parameters: {CTC} "
            f"{_size_of(model.ctc):,}, {DECODER} {_size_of(model.decoder):,}, {LSTM} "
            f"{_size_of(model.lstm):,}"
        )

    def batches(self):
        """Return an infinite stream of utterances with new noise."""
        return SpeechBatches(self)

    def count(self, batch):
        """Return the number of utterances."""
        return len(batch["features"])

    @property
    def ctc_steps(self):
        """Number of steps of the first phase, which trains the Conformer with CTC."""
        return self.options["steps"] - round(self.options["decoder"] * self.options["steps"])

    def phase(self, step):
        """Return the first step of the phase that contains `step`, and the phase's end.

        The end is the first step of the next phase, or the number of steps.
        """
        first = self.ctc_steps
        return (0, first) if step < first else (first, self.options["steps"])

    def learning_rate_factor(self, step):
        """Return the learning-rate factor: in each phase a linear warm-up, then cosine decay."""
        start, end = self.phase(step)
        warmup = min(self.options["warmup"], (end - start) // 4)
        if step - start < warmup:
            return (step - start + 1) / (warmup + 1)
        done = (step - start - warmup) / max(end - start - warmup, 1)
        return (1 + math.cos(math.pi * min(done, 1.0))) / 2

    def after_step(self, step):
        """After CTC training, copy the encoder and the output layer to the model with a decoder."""
        if step == self.ctc_steps:
            self.model.decoder.encoder.load_state_dict(self.model.ctc.encoder.state_dict())
            self.model.helper.load_state_dict(self.model.ctc.head.state_dict())
        self._decoding = step > self.ctc_steps

    def loss(self, model, batch):
        """Return the sum of the losses of the models in training, each in nats per label.

        The LSTM is trained in both phases, the Conformer with CTC only in the first phase, and the
        Conformer with a decoder only in the second.
        """
        features, lengths, labels, counts = [
            batch[name] for name in ("features", "lengths", "labels", "counts")
        ]
        lstm = model.lstm.loss(features, lengths, labels, counts)
        if "written" not in batch:
            return lstm + model.ctc.loss(features, lengths, labels, counts)
        memory, padding = model.decoder.encoder(features, lengths)
        read = cat([labels[:, :1] * 0 + START, labels], 1)
        logits = model.decoder.decode(read, memory, nn.masks.from_key_padding(padding))
        wrong = cross_entropy(logits.flatten(0, 1), batch["written"].flatten(), ignore_index=0)
        log_probs = log_softmax(model.helper(memory), -1).transpose(0, 1)  # (frame, batch, class)
        frames = (~padding).sum(1)
        helper = ctc_loss(log_probs, labels, frames, counts, BLANK, zero_infinity=True)
        return lstm + wrong + self.options["helper"] * helper

    def parts(self, utterances, decoding=False):
        """Yield utterances as batches with the same keys as in training, without SpecAugment."""
        for first in range(0, len(utterances), _AT_ONCE):
            some = utterances[first : first + _AT_ONCE]
            features, lengths = log_mel([one.waveform for one in some])
            labels, counts = labels_of([one.digits for one in some])
            features = features.astype(as_dtype(self.options["dtype"]))
            arrays = dict(features=features, lengths=lengths, labels=labels, counts=counts)
            if decoding:
                arrays["written"] = written(labels, counts)
            yield {k: tensor(array, device=self.options["device"]) for k, array in arrays.items()}

    def transcribe(self, model, batch):
        """Return the labels that each model predicts, as a dict of lists."""
        features, lengths = batch["features"], batch["lengths"]
        found = {}
        for name, one in ((CTC, model.ctc), (LSTM, model.lstm)):
            found[name] = [labels.tolist() for labels, _ in ctc_decode(*one(features, lengths))]
        mask = model.decoder.source_mask(features, lengths)
        ids = translate(model.decoder, features, START, END, MOST + 2, mask).tolist()
        found[DECODER] = [row[: [*row, END].index(END)] for row in ids]
        return found

    def transcripts(self, model, utterances):
        """Return the correct labels, and the labels that each model predicted, as lists."""
        said, found = [list(one.digits + 1) for one in utterances], {name: [] for name in MODELS}
        with no_grad():
            for batch in self.parts(utterances):
                for name, rows in self.transcribe(model, batch).items():
                    found[name] += rows
        return said, found

    def evaluate(self, model):
        """Return the loss, and the word error rates, on some test utterances."""
        batches = [*self.parts(self.some, self._decoding)]
        with no_grad():
            total = sum(self.loss(model, one).item() * self.count(one) for one in batches)
        said, found = self.transcripts(model, self.some)
        trained = [name for name in MODELS if name != DECODER or self._decoding]
        rates = {name: word_error_rate(found[name], said) for name in trained}
        return {"validation_loss": total / len(self.some), **rates}

    def measure(self, metrics):
        """Return the word error rates of the models and of `guesses`, and the decoder's `focus`."""
        self.said, self.found = self.transcripts(self.model.eval(), self.test)
        self.found["guess"] = self.guesses()
        measured = {name: word_error_rate(rows, self.said) for name, rows in self.found.items()}
        measured["worse Conformer"] = max(measured[CTC], measured[DECODER])
        measured["attention on the word"], measured["share of the word"] = self.focus()
        return measured

    def guesses(self):
        """Return transcripts that only repeat the most frequent digit of the training set.

        The number of words is a linear function of the sound's length, fitted to the training set.
        """
        lengths = [len(one.waveform) for one in self.training]
        line = np.polyfit(lengths, [len(one.digits) for one in self.training], 1)
        digits = np.concatenate([one.digits for one in self.training])
        label = int(np.bincount(digits).argmax()) + 1
        counts = np.polyval(line, [len(one.waveform) for one in self.test])
        return [[label] * int(count) for count in np.clip(np.rint(counts), FEWEST, MOST)]

    def attention(self, batch):
        """Return the last decoder layer's attention before each word: (batch, word, frame).

        The decoder reads the correct words, and the weights are averaged over the heads.
        """
        model, labels = self.model.decoder.eval(), batch["labels"]
        start = labels[:, :1] * 0 + START
        with no_grad(), collect_attention(model.decoder) as found:
            model(batch["features"], cat([start, labels[:, :-1]], 1), batch["lengths"])
        return to_host(found[-1][1].mean(1).array)

    def focus(self):
        """Return the attention on the next word's frames, and these frames' share of all frames.

        This is the decoder's attention when it predicts the word. Both numbers are means over the
        words of some test utterances.
        """
        weights, shares, place = [], [], 0
        for batch in self.parts(self.some):
            for rows in self.attention(batch):
                one, place = self.some[place], place + 1
                centers = frame_centers(rows.shape[1])
                sound = centers < len(one.waveform)
                for row, (first, last) in zip(rows, one.spans, strict=False):
                    inside = (centers >= first) & (centers < last)
                    weights.append(row[inside].sum())
                    shares.append(inside.sum() / sound.sum())
        return float(np.mean(weights)), float(np.mean(shares))

    def show(self, page, measured):
        """Print and plot word error rates. Plot CTC's probabilities and the decoder's attention."""
        counts = np.array([len(labels) for labels in self.said])
        rows = [("word error rate", "all", *(f"{n} digits" for n in np.unique(counts)))]
        for name, found in self.found.items():
            groups = [np.flatnonzero(counts == n) for n in np.unique(counts)]
            rates = [
                word_error_rate([found[i] for i in group], [self.said[i] for i in group])
                for group in groups
            ]
            rows.append((name, *(f"{100 * rate:.1f} %" for rate in (measured[name], *rates))))
        page.table(rows)
        focus, share = measured["attention on the word"], measured["share of the word"]
        page.text(
            f"\nBefore it writes a word, the decoder gives {100 * focus:.0f} % of its attention\n"
            f"to the frames of this word, which are {100 * share:.0f} % of all frames.\n"
        )
        self._write_mistakes(page)
        page.draw_loss(
            "Spoken digits: CTC, then the decoder; the LSTM in both phases", what="loss",
            unit="nats per word, sum of the models in training", highest=7.0,
        )  # fmt: skip
        self._draw_rates(page, measured)
        self._draw_sounds(page)
        return True

    def _write_mistakes(self, page):
        def words(labels):
            return " ".join(DIGIT_WORDS[label - 1] if label < START else "?" for label in labels)

        wrong = [
            f"{name}: {words(labels)!r} instead of {words(said)!r}"
            for name in MODELS
            for labels, said in zip(self.found[name], self.said, strict=True)
            if labels != said
        ]
        page.write("mistakes.txt", "\n".join(wrong) + "\n", "wrong transcripts")

    def _draw_rates(self, page, measured):
        entries = [entry for entry in page.metrics if CTC in entry]
        curves = {
            name: [(one["step"], max(1 - one[name], 0)) for one in entries if name in one]
            for name in MODELS
        }
        figure = page.viz.accuracy_figure(
            curves, {"guess": max(1 - measured["guess"], 0)},
            f"Spoken digits of new speakers at {self.options['snr']:g} dB: 1 - word error rate",
        )  # fmt: skip
        page.save("word_accuracy.png", figure, "1 - word error rate of the three models by step")

    def _draw_sounds(self, page):
        """Plot CTC's probabilities and the decoder's attention for a test utterance."""
        one = sorted(self.test, key=lambda one: abs(len(one.digits) - 5))[0]
        (batch,) = self.parts([one])
        features = padded_log_mel([one.waveform])[0][0]
        with no_grad():
            log_probs, _ = self.model.ctc.eval()(batch["features"], batch["lengths"])
        words = [DIGIT_WORDS[digit] for digit in one.digits]
        spans = [(*span, word) for span, word in zip(one.spans, words, strict=True)]
        figure = page.viz.ctc_figure(
            features, to_host(log_probs.exp().array)[:, 0], ["blank", *DIGIT_WORDS], SAMPLE_RATE,
            HOP, "CTC: the probability of each word at each frame", BLANK, spans,
        )  # fmt: skip
        page.save("ctc.png", figure, "the probability of each word at each frame")
        figure = page.viz.time_attention_figure(
            features, self.attention(batch)[0, : len(words)], words, SAMPLE_RATE, HOP,
            "Where the decoder looks before each word (frames: where the word was spoken)",
            one.spans,
        )  # fmt: skip
        page.save("alignment.png", figure, "where the decoder looks before each word")

    def last_words(self, folder):
        """Suggest which figures to look at, and mention the recipe's source file."""
        return (
            f"Open {folder}/alignment.png: the decoder finds each word in the sound.\n"
            f"Open {folder}/ctc.png: CTC predicts a word in a few frames, and blanks in between.\n"
            "The recipe is minitorch_attn/training/recipes/speech.py."
        )


def lstm_units(size, dim, classes):
    """Return the number of LSTM units per direction for a model of about `size` parameters.

    The model has two bidirectional LSTM layers and a linear head. With h units per direction, the
    layers have 2 (4 h (dim + h) + 8 h) and 2 (4 h (2 h + h) + 8 h) parameters, and the head has
    classes (2 h + 1). The total is 32 h^2 + b h + classes, with b = 8 dim + 32 + 2 classes.

    Parameters
    ----------
    size, dim, classes : int
        Number of parameters, size of an input frame, and number of classes.

    Returns
    -------
    int
        The nearest whole number, at least 1.

    Examples
    --------
    >>> lstm_units(200_000, 64, 11)
    71
    """
    b = 8 * dim + 32 + 2 * classes
    return max(round((math.sqrt(b**2 + 128 * max(size - classes, 0)) - b) / 64), 1)


def _size_of(model):
    return sum(parameter.array.size for parameter in model.parameters())
