"""VATT recipe: match moving digits, spoken words and sentences, without labels."""

import copy
import time

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...backend import as_dtype, get_rng_state, set_rng_state, to_host
from ...data.digits import digits_split
from ...data.moving_digits import enlarged_digits
from ...models.vatt import VATT
from ...tensor import tensor
from .base import Recipe, Target, digest
from .options import Option, common_options
from .vatt_stream import (
    BANDS,
    DIGIT_WORDS,
    FRAMES,
    GALLERY,
    KEYS,
    LONGEST,
    NAMES,
    SIDE,
    SOUND,
    WORDS,
    VattBatches,
    Voices,
    draw_examples,
    galleries,
    words_of,
)  # fmt: skip

__all__ = ["BothVatts", "Vatt"]

_SIZES = (16,)  # height of a digit in pixels
_CUBE = 2, 4, 4  # video patch: frames, height and width in pixels
_SEGMENT = 1  # frames in a segment of sound
_TIMED = 15
_PAIRS = ("video_to_audio", "audio_to_video", "video_to_text", "text_to_video")


class BothVatts(nn.Module):
    """Two VATTs that are trained on the same batches, one with DropToken and one without.

    They start with equal parameters, but do not share them.

    Parameters
    ----------
    make : callable
        Function `make(drop_rate)` that returns a new `VATT`.
    drop_rate : float
    """

    def __init__(self, make, drop_rate):
        super().__init__()
        self.dropping, self.whole = make(drop_rate), make(0.0)
        self.whole.load_state_dict(self.dropping.state_dict())


class Vatt(Recipe):
    """Train VATT on clips of a moving digit, with a sound and sentences, and without labels.

    A handwritten digit moves in one of eight directions. A voice says the digit, and then the
    number of the key that lies in this direction from the 5 of a numeric keypad: "seven four" is a
    seven that moves left. A sentence describes the same movement. A second sentence may describe
    something else. VATT learns which sound and which sentences belong to which clip. In the test,
    it finds the sound of a clip among 50, and the sentence of a clip among 50, with handwriting and
    speakers not seen in training.

    Two VATTs learn from the same batches. One uses DropToken, which leaves out half of the video
    and audio tokens. The other uses all tokens.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Akbari et al. 2021, arXiv:2104.11178v3.
    """

    name = "vatt"
    summary = "VATT matches video, sound and text of moving digits, without labels"
    headline = "VATT learns which sound and which sentence belong to which clip."
    target = Target("video_to_audio", 0.97, "clips whose sound ranks first among 50, new speakers")
    more_targets = (
        Target("video_to_text", 0.98, "clips whose sentence ranks first among 50"),
        Target("lost", 0.03, "accuracy lost by DropToken", higher_is_better=False),
        Target("saved", 0.35, "time of a training step saved by DropToken"),
    )
    unit = "clips"
    one_process = "its losses compare all pairs of a batch"
    noun = "data set"
    data_hint = "use the same version of scikit-learn as before"
    betas = (0.9, 0.98)
    log_every = 20
    OPTIONS = (
        *common_options(
            steps=2000, lr=4e-3, batch=64, dim=64, layers=2, warmup=50, clip=5.0,
            weight_decay=0.05, eval_every=250,
        ),
        Option("audio_layers", 1, "Number of blocks of the audio Transformer."),
        Option("drop_rate", 0.5, "Fraction of the tokens that DropToken leaves out.", "share"),
        Option("temperature", 0.07, "Divisor of the similarities in the losses.", "positive"),
        Option("others", 0.5, "Fraction of second sentences about something else.", "share"),
        Option("noise", 0.05, "Standard deviation of noise in training clips.", "from_zero"),
        Option("speakers", 30, "Number of speakers in training."),
        Option("clips", 1000, "Number of test clips."),
        Option("galleries", 20, "Number of test sets of 50 clips."),
    )  # fmt: skip

    def prepare(self):
        """Load the digits, synthesize words of many speakers, and generate the test clips."""
        images, labels, test_images, test_labels = digits_split()
        digits = enlarged_digits(images, _SIZES), labels
        options, generator = self.options, np.random.default_rng(0)
        self.training = digits, Voices(options["speakers"], 3, generator)
        self.test = draw_examples(
            options["clips"], (enlarged_digits(test_images, _SIZES), test_labels),
            Voices(10, 3, generator), generator, others=options["others"],
        )  # fmt: skip
        kinds = len(NAMES) * self.test.digits + self.test.directions
        self.chosen = galleries(kinds, options["galleries"], generator)
        return {
            "name": "clips of scikit-learn's handwritten digits, with synthetic speech",
            "sha256": digest(images, labels, *self.test),
        }

    def build(self):
        """Create the two models with the same initial values."""
        return BothVatts(self.make_model, self.options["drop_rate"])

    def make_model(self, drop_rate):
        """Create a VATT.

        Its text Transformer has one block, half as wide as the blocks for video and audio.

        Parameters
        ----------
        drop_rate : float
        """
        options = self.options
        dim, half = options["dim"], options["dim"] // 2
        return VATT(
            (FRAMES, SIDE, SIDE), _CUBE, SOUND, _SEGMENT, len(WORDS), LONGEST, (dim, dim, half),
            (options["layers"], options["audio_layers"], 1), options["heads"],
            (2 * dim, 2 * dim, 2 * half), in_channels=1, audio_channels=BANDS, common_dim=dim,
            text_common_dim=half, drop_rate=drop_rate, temperature=options["temperature"],
            dropout=options["dropout"],
        )  # fmt: skip

    def model_text(self):
        """Describe the size of one model."""
        options = self.options
        count = sum(parameter.array.size for parameter in self.model.whole.parameters())
        layers = f"{options['layers']} + {options['audio_layers']} + 1"
        return f"{layers} layers, width {options['dim']}: {count:,} parameters, twice"

    def batches(self):
        """Return the stream of clips with sounds and sentences."""
        return VattBatches(self)

    def loss(self, model, batch):
        """Return the sum of both models' losses."""
        return self.loss_of(model.dropping, batch) + self.loss_of(model.whole, batch)

    def loss_of(self, model, batch):
        """Return the loss of one model: NCE of video and audio, MIL-NCE of video and text."""
        video, audio, text = batch
        return model.loss(model(video, audio, text, text == 0))

    def _test_batch(self, chosen):
        dtype = as_dtype(self.options["dtype"])
        video, audio, text = (part[chosen] for part in self.test[:3])
        parts = video.astype(dtype), audio.astype(dtype), text
        return tuple(tensor(part, device=self.options["device"]) for part in parts)

    def similarities(self, model, chosen):
        """Return the similarities of test clips (row) to sounds and to first sentences (column).

        Parameters
        ----------
        model : VATT
        chosen : int array of shape (clip,)
            Indices of the test clips to compare.

        Returns
        -------
        by_sound, by_text : float64 array of shape (clip, clip)
        """
        video, audio, text = self._test_batch(chosen)
        text = text[:, 0]
        with no_grad():
            e = model(video, audio, text, text == 0)
            pairs = (e.video_audio, e.audio), (e.video_text, e.text)
            found = [to_host((a @ b.transpose(0, 1)).array) for a, b in pairs]
        return tuple(x.astype(np.float64) for x in found)

    def retrieval(self, model, count=None):
        """Return how often the correct candidate ranks first, for each name in `_PAIRS`.

        For "video_to_audio", the queries are videos, and the candidates are the sounds of the same
        gallery.

        Parameters
        ----------
        model : VATT
        count : int, optional
            Number of galleries to use, starting with the first. Default: all.
        """
        hits = []
        for chosen in self.chosen[:count]:
            own = np.arange(len(chosen))
            for scores in self.similarities(model, chosen):
                hits += [(scores.argmax(axis) == own).mean() for axis in (1, 0)]
        means = np.mean(np.reshape(hits, (-1, len(_PAIRS))), 0)
        return dict(zip(_PAIRS, map(float, means), strict=True))

    def answers(self):
        """Return the clips of all galleries, with the sound and the sentence found for each clip.

        A gallery is a set of test clips with different contents. For the video of each clip, the
        sounds of its gallery are ranked by similarity, and so are the sentences.

        Returns
        -------
        clips, heard, read : int64 array of shape (gallery * clip,)
            Indices of all clips; for each of them, index of the clip whose sound ranks first, and
            index of the clip whose sentence ranks first.
        """
        model, rows = self.model.dropping.eval(), []
        for chosen in self.chosen:
            best = [scores.argmax(1) for scores in self.similarities(model, chosen)]
            rows.append([chosen, *(chosen[x] for x in best)])
        return tuple(np.concatenate(column) for column in zip(*rows, strict=True))

    def evaluate(self, model):
        """Return the loss of a test batch, and both models' retrieval accuracies in four galleries.

        `model` contains both models: VATT with DropToken and VATT without it. A gallery is a set of
        test clips with different contents.
        """
        with no_grad():
            loss = self.loss(model, self._test_batch(slice(self.options["batch"]))).item()
        whole = self.retrieval(model.whole, 4)
        return {
            "validation_loss": loss, **self.retrieval(model.dropping, 4),
            **{f"{name} with all tokens": x for name, x in whole.items()},
        }  # fmt: skip

    def measure(self, metrics):
        """Return the accuracies of both models, the effect of DropToken, and two comparison values.

        The comparison values are the accuracies of a guess that knows only the direction of a clip,
        and of a guess that knows only its digit.
        """
        self.model.eval()
        own, whole = self.retrieval(self.model.dropping), self.retrieval(self.model.whole)
        lost = max(whole[name] - own[name] for name in ("video_to_audio", "video_to_text"))
        times = self.step_times()
        return {
            **own, **{f"{name} with all tokens": x for name, x in whole.items()}, "lost": lost,
            "saved": 1 - times["dropping"] / times["whole"],
            "direction alone": self.cue_alone(self.test.directions),
            "digit alone": self.cue_alone(self.test.digits),
        }  # fmt: skip

    def cue_alone(self, values):
        """Return the accuracy of a guess that knows only one property of each clip.

        The guess is a random clip of the same gallery that has the same value in `values`.

        Parameters
        ----------
        values : int array of shape (clip,)
            Digit or direction of each test clip.
        """
        shares = []
        for chosen in self.chosen:
            _, which, count = np.unique(values[chosen], return_inverse=True, return_counts=True)
            shares.append((1 / count[which]).mean())
        return float(np.mean(shares))

    def step_times(self):
        """Measure a training step of each model: forward, backward, update.

        Returns
        -------
        dict of float
            Minimum time in seconds for "dropping" and "whole": processor time on a CPU, elapsed
            time on a GPU.
        """
        clock = time.process_time if self.options["device"] == "cpu" else time.perf_counter
        random_state, loops = get_rng_state(), {}
        for name in ("dropping", "whole"):
            trial = copy.copy(self)
            trial.model = copy.deepcopy(getattr(self.model, name)).train()
            trial.loss = self.loss_of
            loops[name] = trial.loop()
        times = dict.fromkeys(loops, np.inf)
        for _ in range(_TIMED):  # the minimum of several times has the least noise
            for name, loop in loops.items():
                batch = next(loop.batches)
                started = clock()
                loss, _ = loop.training_step(batch)
                loss.item()
                times[name] = min(times[name], clock() - started)
        set_rng_state(random_state)
        return times

    def baselines(self):
        """Return the loss of guessing: four terms (two for each model), each log(batch size)."""
        return {"guessing": 4 * float(np.log(self.options["batch"]))}

    def preface(self, page):
        """Print the words and sentences of some test clips, and the metrics' target values."""
        page.text("Spoken words and sentences of some test clips:\n")
        for i in range(min(3, len(self.test.digits))):
            page.text(f"  {self.spoken(i)!r}, {words_of(self.test.text[i, 0])!r}")
        page.text("")
        super().preface(page)
        page.text("\n".join(f"Also: {target}." for target in self.more_targets))

    def spoken(self, clip):
        """Return the two words in the sound of a test clip."""
        key = KEYS[self.test.directions[clip]]
        return f"{DIGIT_WORDS[self.test.digits[clip]]} {DIGIT_WORDS[key]}"

    def show(self, page, measured):
        """Show the retrieval accuracy of both models, and their mistakes."""
        for target in (self.target, *self.more_targets):
            value = measured[target.metric]
            reached = "reached" if target.reached(value) else "missed"
            page.text(f"{target.meaning}: {target.show(value)} ({target.bound}: {reached})")
        rate = 100 * self.options["drop_rate"]
        rows = [("", f"DropToken {rate:.0f} %", "all tokens")]
        for name in _PAIRS:
            own, whole = measured[name], measured[f"{name} with all tokens"]
            rows.append((name.replace("_", " "), f"{100 * own:.1f} %", f"{100 * whole:.1f} %"))
        page.table(rows)
        cues = [f"{cue} {100 * measured[cue]:.1f} %" for cue in ("direction alone", "digit alone")]
        page.text(f"For comparison: guessing {100 / GALLERY:.1f} %, {', '.join(cues)}\n")
        clips, heard, read = self.answers()
        self._show_contents(page, clips, heard, read)
        page.draw_loss("Clips, sounds and sentences, both models", unit="nats, of both models")
        self._draw_retrieval(page)
        self._draw_clips(page, clips, heard, read)
        return True

    def _show_contents(self, page, clips, heard, read):
        """Print how often top-ranked sounds and sentences have the correct direction or digit."""
        digits, directions = self.test.digits, self.test.directions
        rows = [("ranked first", "sound", "sentence")]
        for label, values in (("correct direction", directions), ("correct digit", digits)):
            rows.append((label, *_shares(values, clips, (heard, read))))
        for digit in np.unique(digits[clips]):
            own = digits[clips] == digit
            found = _shares(digits, clips[own], (heard[own], read[own]))
            rows.append((f"correct digit, of {DIGIT_WORDS[digit]}", *found))
        page.table(rows)

    def _draw_retrieval(self, page):
        """Plot the retrieval accuracy on the test clips during training."""
        names = [f"{name}{end}" for end in ("", " with all tokens") for name in _PAIRS[::2]]
        curves = {
            name.replace("_", " "): [(m["step"], m[name]) for m in page.metrics if name in m]
            for name in names
        }
        figure = page.viz.accuracy_figure(
            curves, {"direction alone": self.cue_alone(self.test.directions)},
            f"Correct candidate ranks first among {GALLERY}",
        )  # fmt: skip
        page.save("retrieval.png", figure, "the retrieval of both models during training")

    def _draw_clips(self, page, clips, heard, read):
        """Plot some clips with the sounds found for them: first mistakes, then correct answers."""
        _, first = np.unique(clips, return_index=True)
        wrong = (heard[first] != clips[first]) | (read[first] != clips[first])
        chosen = [*first[wrong][:4], *first[~wrong][:4]]
        rows, labels = [], []
        for i in chosen:
            sound = self.test.audio[heard[i]].T[::-1] / 6 + 0.5
            rows.append([*self.test.video[clips[i], 0], np.clip(sound, 0, 1)])
            label = self.spoken(clips[i])
            if heard[i] != clips[i]:
                label += f"\nheard: {self.spoken(heard[i])}"
            if read[i] != clips[i]:
                label += f"\nread: {words_of(self.test.text[read[i], 0])}"
            labels.append(label)
        figure = page.viz.image_rows_figure(
            rows, labels, "Clips and the sounds found for them: mistakes, then correct answers"
        )
        page.save("clips.png", figure, "test clips with the sounds and sentences found for them")


def _shares(values, clips, found):
    """For each array in `found`, format the percentage of its clips that have the correct value.

    `values` contains the digit or the direction of each test clip. The correct value is that of the
    clip at the same position in `clips`.
    """
    return [f"{100 * (values[x] == values[clips]).mean():.1f} %" for x in found]
