"""Mask-Predict recipe: write dates in words, in a few passes or token by token."""

import time

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...backend import to_host
from ...data.dates import characters_of_dates, date_pair, split_days
from ...data.pairs import GeneratedBatches, PairTokenizer
from ...generation.mask_predict import mask_predict, translate_in_parallel
from ...models import ConditionalMaskedLM, Transformer
from ...models.mask_predict import cmlm_loss, mask_target
from ...nn.functional import cross_entropy
from ...ops import where
from ...tensor import tensor
from .base import Target, digest, start_by_width
from .options import Option, common_options
from .pair_recipe import PairRecipe, exact_matches

__all__ = ["BothModels", "MaskPredict"]

_IN_WORDS = 9  # the format "the third of July 1987" in data/dates.py
_MASK = PairTokenizer.START  # the parallel model has no start token
_PASSES = (1, 2, 4, 10)
_LONGEST = 40  # more than the 36 characters of "the twenty-seventh of September 1987"
_EVALUATED = 128
_TIMED, _TRIALS = 32, 3
_LOOKED_AT = 250


class BothModels(nn.Module):
    """Two models that are trained together on the same batches but do not share parameters.

    Parameters
    ----------
    one_by_one : Transformer
    at_once : ConditionalMaskedLM
    """

    def __init__(self, one_by_one, at_once):
        super().__init__()
        self.one_by_one, self.at_once = one_by_one, at_once


class NoisyBatches(GeneratedBatches):
    """Batches of pairs with the random numbers that decide which target tokens are masked."""

    def __next__(self):
        """Return (source, target, noise, share).

        A target has shape (batch, token). `noise` (batch, token - 1) and `share` (batch,) are the
        uniform random numbers for `mask_target`. `noise` has one column less than the targets,
        because the end token is removed before masking.
        """
        generator = np.random.default_rng([self.seed, self.position, 1])
        source, target = super().__next__()
        rows, tokens = target.shape
        noise, share = generator.random((rows, tokens - 1)), generator.random(rows)
        return source, target, tensor(noise, device=self.device), tensor(share, device=self.device)


class MaskPredict(PairRecipe):
    """Train two models to write dates in words: "1987-07-03" -> "the third of July 1987".

    The models have the same size. One decodes token by token. The other decodes all tokens at once,
    in 1, 2, 4 or 10 passes. A seed determines the days, which are the same as in the recipe
    `dates`. In `dates`, all answers have 10 characters. Here, they have 21 to 36, so the length
    must be predicted, and decoding all tokens at once saves more time.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Ghazvininejad et al. 2019, arXiv:1904.09324v2.
    """

    name = "mask-predict"
    summary = "dates in words: all characters at once, or one by one"
    headline = "Two Transformers write dates in words: one in a few passes, one token by token."
    target = Target("exact in 4 passes", 0.98, "exact answers in 4 passes")
    unit = "dates"
    splits = ("data", "tensor")
    OPTIONS = (
        *common_options(
            steps=1000, lr=3e-3, batch=48, layers=2, dim=64, warmup=100, eval_every=250
        ),
        Option("held_out", 1000, "Number of days in the test set."),
        Option("candidates", 1, "Number of target lengths that are tried at once."),
    )

    def prepare(self):
        """Split the days into training and test days."""
        self.vocabulary = characters_of_dates()
        self.days, days = split_days(held_out=self.options["held_out"])
        self.held_out = [self.pair(day) for day in days]
        self.mean_len = float(np.mean([len(target) for _, target in self.held_out]))
        return {
            "name": "the days from 1900 to 2099",
            "sha256": digest(self.vocabulary, "".join(map("".join, self.held_out[:31])), self.days),
        }

    @staticmethod
    def pair(day):
        """Return a day as an ISO date and in words.

        Examples
        --------
        >>> MaskPredict.pair(725555)
        ('1987-07-03', 'the third of July 1987')
        """
        words, iso = date_pair(day, _IN_WORDS)
        return iso, words

    def build(self):
        """Create the two models, with pre-norm layers and the same initialization."""
        options, size = self.options, len(self.tokenizer)
        common = dict(
            embed_dim=options["dim"], num_heads=options["heads"], ff_dim=4 * options["dim"],
            num_encoder_layers=options["layers"], num_decoder_layers=options["layers"],
            dropout=options["dropout"], norm_first=True, pad_id=PairTokenizer.PAD, max_len=64,
        )  # fmt: skip
        one_by_one = Transformer(size, **common)
        at_once = ConditionalMaskedLM(size, mask_id=_MASK, max_target_len=_LONGEST, **common)
        for module in at_once.modules():  # as in `Transformer`: 0.02 is too small at this width
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
        start_by_width(at_once)
        return BothModels(one_by_one, at_once)

    def model_text(self):
        """Describe the size of both models."""
        counts = [
            sum(parameter.array.size for parameter in model.parameters())
            for model in (self.model.one_by_one, self.model.at_once)
        ]
        options = self.options
        return (
            f"{options['layers']} + {options['layers']} layers, {options['heads']} heads, "
            f"width {options['dim']}: {counts[0]:,} parameters token by token, "
            f"{counts[1]:,} in parallel"
        )

    def make_pair(self, generator):
        """Sample a training pair: a random day as an ISO date and in words."""
        return self.pair(self.days[generator.integers(len(self.days))])

    def batches(self):
        """Return an infinite stream of batches, with random numbers that decide what is masked."""
        options = self.options
        return NoisyBatches(
            self.make_pair, self.tokenizer, options["batch"], options["seed"], options["device"]
        )

    def count(self, batch):
        """Return the number of pairs, because the loss is a mean over pairs."""
        return batch[0].shape[0]

    def loss(self, model, batch):
        """Return the sum of both models' losses, approximately in nats per character.

        A model's sum of token losses is divided by the number of tokens that such a batch has on
        average (for the masked model, by half of it), not by the number in this batch. Every pair
        therefore has the same weight, and the loss is a mean over the pairs.
        """
        source, target, noise, share = batch
        expected = self.mean_len * len(source)
        logits = self.teacher_forced(model.one_by_one, source, target)
        one_by_one = cross_entropy(
            logits.flatten(0, 1), target.flatten(), ignore_index=PairTokenizer.PAD, reduction="sum"
        )
        words = where(target == PairTokenizer.END, PairTokenizer.PAD, target)[:, :-1]
        read, masked = mask_target(words, noise, share, _MASK, PairTokenizer.PAD)
        logits, lengths = model.at_once(source, read)
        at_once = cmlm_loss(logits, words, masked, lengths, PairTokenizer.PAD, expected / 2)
        return one_by_one / expected + at_once

    def evaluate(self, model):
        """Return the loss, and the exact-match rate with 4 passes, on some held-out pairs."""
        pairs = self.held_out[:_EVALUATED]
        stream = iter(pairs)
        batches = NoisyBatches(
            lambda generator: next(stream), self.tokenizer, len(pairs), 0, self.options["device"]
        )
        with no_grad():
            loss = self.loss(model, next(batches)).item()
        sources, targets = zip(*pairs, strict=True)
        return {"validation_loss": loss, "accuracy": exact_matches(self.parallel(sources), targets)}

    def answers(self, sources, batch_size=250, model=None):
        """Return the answers of the token-by-token model."""
        one_by_one = self.model.one_by_one if model is None else model
        return super().answers(sources, batch_size, one_by_one)

    def parallel(self, sources, passes=4, batch_size=250):
        """Return the answers of the parallel model.

        Parameters
        ----------
        sources : sequence of str
        passes : int, default 4
        batch_size : int, default 250

        Returns
        -------
        list of str
        """
        found = []
        for first in range(0, len(sources), batch_size):
            ids = self.ids(sources[first : first + batch_size])
            written = translate_in_parallel(
                self.model.at_once, ids, passes, self.options["candidates"]
            )
            rows = to_host(where(written == PairTokenizer.PAD, PairTokenizer.END, written).array)
            found += [self.tokenizer.decode(row) for row in rows]
        return found

    def ids(self, texts):
        """Return the ids of texts as a Tensor on the recipe's device."""
        return tensor(self.tokenizer.encode(texts), device=self.options["device"])

    def measure(self, metrics):
        """Return the exact-match rate of each kind of decoding, and the speedup of 4 passes."""
        sources, targets = zip(*self.held_out, strict=True)
        self.written = {passes: self.parallel(sources, passes) for passes in _PASSES}
        measured = {
            f"exact in {passes} pass{'es' * (passes > 1)}": exact_matches(found, targets)
            for passes, found in self.written.items()
        }
        measured["exact token by token"] = exact_matches(self.answers(sources), targets)
        longest = sorted(sources, key=lambda text: -len(dict(self.held_out)[text]))[:_TIMED]
        for size in (1, _TIMED):
            name = "1 date at a time" if size == 1 else f"{size} dates at once"
            measured[f"speed of 4 passes, {name}"] = self._speed(longest, size)
        return measured

    def _speed(self, sources, size):
        """Return the time of token-by-token decoding, divided by the time of 4 passes."""
        groups = [sources[i : i + size] for i in range(0, len(sources), size)]
        times = np.full((2, len(groups)), np.inf)
        for _ in range(_TRIALS):  # the minimum of several times has the least noise
            for column, group in enumerate(groups):
                for row, answer in enumerate((self.answers, self.parallel)):
                    started = time.perf_counter()
                    answer(group)
                    times[row, column] = min(times[row, column], time.perf_counter() - started)
        one_by_one, at_once = times.sum(1)
        return float(one_by_one / at_once)

    def show(self, page, measured):
        """Print the fractions of exact answers and the speed, and plot the passes for one date."""
        rows = [("decoding", "exact answers")]
        rows += [
            (name.removeprefix("exact "), f"{100 * value:.1f} %")
            for name, value in measured.items()
            if name.startswith("exact")
        ]
        page.table(rows)
        for name, value in measured.items():
            if name.startswith("speed"):
                page.text(f"{name}: {value:.1f} times as fast as token by token (with a cache)")
        page.draw_loss("Dates in words, both models", unit="nats per character, of both models")
        page.text(
            "\nA date has one correct answer, so one pass can be enough. In lesson 38, there are\n"
            "several correct answers, and a single pass mixes them."
        )
        source = self.least_sure()
        examples = [(f"{source}: {count} passes", self.passes(source, count)) for count in (4, 10)]
        figure = page.viz.passes_figure(examples, "All characters at once, then some of them again")
        page.save("passes.png", figure, "what each pass masks and predicts, with probabilities")
        return True

    def least_sure(self):
        """Return the source for which the output of a single pass is least probable.

        Only some held-out sources are searched.
        """
        model = self.model.at_once.eval()
        sources = [source for source, _ in self.held_out[:_LOOKED_AT]]
        with no_grad():
            memory, length_logits = model.encode(self.ids(sources))
            lengths = length_logits.argmax(-1).clamp(1)
            _, log_probs = mask_predict(
                lambda ids: model.decode(ids, memory), lengths, _MASK, iterations=1
            )
        return sources[int(log_probs.sum(1).argmin().item())]

    def passes(self, source, iterations):
        """Return the result of each pass for one source, as `viz.passes_figure` expects it.

        Parameters
        ----------
        source : str
        iterations : int

        Returns
        -------
        list of (list of str, bool array, float array)
            Characters after each pass, a mask of the characters that the pass predicted, and the
            probabilities of the characters.
        """
        model, seen = self.model.at_once.eval(), []
        with no_grad():
            memory, length_logits = model.encode(self.ids([source]))

            def predict(ids):
                logits = model.decode(ids, memory)
                chances, best = logits.softmax(-1).max(-1)
                seen.append([to_host(x.array)[0] for x in (ids == _MASK, best, chances)])
                return logits

            mask_predict(predict, length_logits.argmax(-1).clamp(1), _MASK, iterations=iterations)
        steps, (_, ids, chances) = [], seen[0]
        for masked, best, new in seen:
            ids, chances = np.where(masked, best, ids), np.where(masked, new, chances)
            steps.append(([self.tokenizer.decode([i]) or "_" for i in ids], masked, chances))
        return steps

    def last_words(self, folder):
        """Suggest a figure to look at, and mention the recipe's source file."""
        return (
            f"Open {folder}/passes.png: the masked and predicted characters, with probabilities.\n"
            "The recipe is minitorch_attn/training/recipes/mask_predict.py."
        )
