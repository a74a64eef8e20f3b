"""Dates recipe: an encoder-decoder Transformer learns to read dates."""

import datetime

import numpy as np

from ...autograd import no_grad
from ...backend import to_host
from ...data.dates import FORMATS, characters_of_dates, date_pair, split_days
from ...models import Transformer
from ...nn import collect_attention
from ...tensor import tensor
from .base import Target, digest
from .options import Option, common_options
from .pair_recipe import PairRecipe, exact_matches

__all__ = ["Dates"]

_EXAMPLES = (0, 9, 16)  # formats in which the first held-out days are shown


class Dates(PairRecipe):
    """Train a Transformer to read dates: "3 July 1987, a Friday" -> "1987-07-03".

    An encoder reads a date in one of twenty formats, character by character. A decoder writes the
    date in ISO format. A seed determines the dates. By default, 2,000 days between 1900 and 2099
    are held out and do not occur in the training set in any format.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Vaswani et al. 2017, arXiv:1706.03762v7.
    """

    name = "dates"
    summary = 'an encoder-decoder converts "3 July 1987, a Friday" to "1987-07-03"'
    headline = "A Transformer learns to read dates."
    target = Target("exact", 0.99, "exact answers to held-out dates")
    unit = "dates"
    splits = ("data", "tensor")
    OPTIONS = (
        *common_options(steps=1500, lr=2e-3, batch=64, layers=2, dim=64, warmup=100),
        Option("held_out", 2000, "Number of days in the test set."),
    )

    def prepare(self):
        """Split the days into training and test days."""
        self.vocabulary = characters_of_dates()
        self.days, days = split_days(held_out=self.options["held_out"])
        self.styles = np.arange(len(days)) % len(FORMATS)
        self.held_out = [date_pair(*pair) for pair in zip(days, self.styles, strict=True)]
        return {
            "name": "the days from 1900 to 2099",
            "sha256": digest(self.vocabulary, *FORMATS, self.days),
        }

    def build(self):
        """Create a small Transformer with pre-norm layers."""
        options = self.options
        return Transformer(
            len(self.tokenizer), embed_dim=options["dim"], num_heads=options["heads"],
            num_encoder_layers=options["layers"], num_decoder_layers=options["layers"],
            ff_dim=4 * options["dim"], dropout=options["dropout"], norm_first=True,
            pad_id=self.tokenizer.PAD, max_len=64,
        )  # fmt: skip

    def make_pair(self, generator):
        """Sample a training pair: a random day in a random format, and its ISO date."""
        day = self.days[generator.integers(len(self.days))]
        return date_pair(day, generator.integers(len(FORMATS)))

    def preface(self, page):
        """Print one date in all formats."""
        day = datetime.date(1987, 7, 3).toordinal()
        page.text(f"One date in the {len(FORMATS)} formats that the model learns to read:\n")
        forms = [date_pair(day, style)[0] for style in range(len(FORMATS))]
        half = -(-len(forms) // 2)
        page.table(list(zip(forms[:half], forms[half:] + [""] * (len(forms) % 2), strict=True)))
        page.text("")
        super().preface(page)

    def measure(self, metrics):
        """Return the fraction of exact matches on all held-out days, overall and per format."""
        sources, targets = zip(*self.held_out, strict=True)
        self.written = self.answers(sources)
        right = np.array([a == b for a, b in zip(self.written, targets, strict=True)])
        by_form = {
            f"exact in form {style}": float(right[self.styles == style].mean())
            for style in np.unique(self.styles)
        }
        return {"exact": exact_matches(self.written, targets), **by_form}

    def show(self, page, measured):
        """Show sample answers in all formats, mistakes and attention maps."""
        page.text(
            f"{self.target.show(measured['exact'])} of {len(self.held_out):,} held-out dates\n"
        )
        rows = [
            (f"{100 * measured[f'exact in form {style}']:.1f} %", *self._example(style))
            for style in range(min(len(FORMATS), len(self.held_out)))
        ]
        page.table([("right", "one of them", "answer"), *rows])
        self.write_mistakes(page, self.mistakes(self.written))
        page.draw_loss("Reading dates", unit="nats per character of the answer")
        self._draw_attention(page)
        return True

    def _example(self, style):
        place = int(np.flatnonzero(self.styles == style)[0])
        return self.held_out[place][0], self.written[place]

    def mistakes(self, written):
        """Return a line for each wrong answer to the held-out dates."""
        return [
            f"{source!r}: {answer!r} instead of {target!r}"
            for (source, target), answer in zip(self.held_out, written, strict=True)
            if answer != target
        ]

    def write_mistakes(self, page, wrong):
        """Print the first wrong answers, and write all of them to mistakes.txt."""
        if wrong:
            page.heading("Some wrong answers")
            page.text("\n".join("  " + line for line in wrong[:5]))
        page.write("mistakes.txt", "\n".join(wrong) + "\n", "wrong answers to held-out dates")

    def _draw_attention(self, page):
        """Plot the last decoder layer's attention to the source for a few dates."""
        maps = []
        for style in _EXAMPLES:
            source, answer = self._example(style % len(self.held_out))
            maps.append((self.cross_attention(source, answer).mean(0), list(source), list(answer)))
        figure = page.viz.cross_attention_figure(
            maps, "Where the decoder looks in the source (mean over the heads of the last layer)"
        )
        page.save("cross_attention.png", figure, "where the decoder looks while it writes")

    def cross_attention(self, source, answer):
        """Return the last decoder layer's cross-attention weights for an answer.

        Parameters
        ----------
        source, answer : str

        Returns
        -------
        array of shape (heads, target, source)
            Weights between characters, without the end token.
        """
        device = self.options["device"]
        ids = [tensor(self.tokenizer.encode([text]), device=device) for text in (source, answer)]
        self.model.eval()
        with no_grad(), collect_attention(self.model.decoder) as found:
            self.teacher_forced(self.model, *ids)
        weights = to_host(found[-1][1].array)[0]  # (heads, target, source)
        return weights[:, : len(answer), : len(source)]
