"""Seq2seq recipe: recurrent networks convert dates, without and with attention."""

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...backend import to_host
from ...models.seq2seq import RecurrentDecoder, RecurrentEncoder, Seq2Seq
from ...nn import collect_attention
from ...ops import cat
from ...tensor import tensor
from .base import Target
from .dates import Dates
from .options import Option, common_options
from .pair_recipe import exact_matches

__all__ = ["RecurrentDates"]

NO_ATTENTION = "one vector"
WITH_ATTENTION = ("additive", "dot", "local-p")
MODELS = (NO_ATTENTION, *WITH_ATTENTION)
QUARTERS = ("shortest quarter", "second quarter", "third quarter", "longest quarter")
_PLACES = {name: name.replace(" ", "_").replace("-", "_") for name in MODELS}
_STYLE = 1  # the date format in the alignment picture: weekday, day, month, year


class RecurrentDates(Dates):
    """Train four recurrent networks on the task of `dates`, one without attention.

    All networks have GRUs of the same width and are trained on the same batches. The network "one
    vector" reads the source in reverse and passes the encoder's last state to the decoder [1]_. The
    other three have a bidirectional encoder and different kinds of attention: additive [2]_,
    dot-product, and local with a predicted window [3]_. The target accuracy applies to the worst
    network with attention.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Sutskever et al. 2014, arXiv:1409.3215v3, section 3.3.
    .. [2] Bahdanau et al. 2015, arXiv:1409.0473v7, section 3.
    .. [3] Luong et al. 2015, arXiv:1508.04025v5, sections 3.1 and 3.2.
    """

    name = "seq2seq"
    summary = "recurrent networks convert dates, with one vector and with attention"
    headline = "Recurrent networks learn to read dates, with and without attention."
    target = Target("worst_attention", 0.98, "exact answers with each attention, held-out dates")
    splits = ("data",)
    OPTIONS = (
        *common_options(("heads",), steps=1500, lr=5e-3, batch=64, layers=1, dim=64, warmup=50),
        Option("held_out", 2000, "Number of days in the test set."),
        Option("window", 10, "Distance from the center of local attention to its last key."),
    )

    def build(self):
        """Create one model without attention and three with attention."""
        return nn.ModuleDict({_PLACES[name]: self._model(name) for name in MODELS})

    def _model(self, name):
        options, size = self.options, len(self.tokenizer)
        dim, embed, alone = options["dim"], options["dim"] // 2, name == NO_ATTENTION
        settings = {
            "num_layers": options["layers"], "cell": "gru",
            "dropout": options["dropout"] if options["layers"] > 1 else 0.0,
        }  # fmt: skip
        encoder = RecurrentEncoder(
            size, embed, dim if alone else dim // 2, bidirectional=not alone, reverse=alone,
            **settings,
        )  # fmt: skip
        decoder = RecurrentDecoder(size, embed, dim, self._attention(name), **settings)
        return Seq2Seq(encoder, decoder, pad_id=self.tokenizer.PAD)

    def _attention(self, name):
        dim = self.options["dim"]
        if name == "additive":
            return nn.AdditiveAttention(dim, dim, dim)
        if name == "dot":
            return nn.LuongAttention(dim, dim, score="dot")
        if name == "local-p":
            window = self.options["window"]
            return nn.LuongAttention(dim, dim, score="dot", local="predictive", window=window)
        return None

    def model_text(self):
        """Describe the four models."""
        counts = [
            f"{name} {sum(p.array.size for p in self.model[_PLACES[name]].parameters()):,}"
            for name in MODELS
        ]
        return f"GRUs of width {self.options['dim']}; parameters: {', '.join(counts)}"

    def models_with_attention(self):
        """Return the three models that have attention, as a dict {path: model}.

        A path such as "local_p." precedes the names of a model's layers in the recipe's model.
        """
        return {f"{_PLACES[name]}.": self.model[_PLACES[name]] for name in WITH_ATTENTION}

    def loss(self, model, batch):
        """Return the mean of the four losses. The models do not share parameters."""
        losses = [super(RecurrentDates, self).loss(one, batch) for one in model.values()]
        return sum(losses) / len(losses)

    def evaluate(self, model):
        """Return the mean loss, and each model's exact-match rate, on some held-out pairs."""
        loss, sources, targets = self.held_out_loss(model)
        return {
            "validation_loss": loss,
            **{
                name: exact_matches(self.answers(sources, model=model[place]), targets)
                for name, place in _PLACES.items()
            },
        }

    def measure(self, metrics):
        """Return each model's exact-match rate on held-out days, in total and by source length."""
        sources, targets = zip(*self.held_out, strict=True)
        groups = _quarters([len(source) for source in sources])
        self.by_model, measured = {}, {}
        for name in MODELS:
            written = self.answers(sources, model=self.model[_PLACES[name]])
            self.by_model[name] = written
            right = np.array([a == b for a, b in zip(written, targets, strict=True)])
            measured[name] = exact_matches(written, targets)
            for group, quarter in enumerate(QUARTERS):
                measured[f"{name}, {quarter}"] = float(right[groups == group].mean())
        measured["worst_attention"] = min(measured[name] for name in WITH_ATTENTION)
        longest = QUARTERS[-1]
        measured["lead of the worst attention, longest quarter"] = (
            min(measured[f"{name}, {longest}"] for name in WITH_ATTENTION)
            - measured[f"{NO_ATTENTION}, {longest}"]
        )
        return measured

    def show(self, page, measured):
        """Show the mistakes, the alignments, and the accuracy by source length."""
        page.text(f"Exact answers to {len(self.held_out):,} held-out dates:\n")
        lengths = np.array([len(source) for source, _ in self.held_out])
        groups = _quarters(lengths)
        ranges = [lengths[groups == group] for group in range(len(QUARTERS))]
        heads = [f"{part.min()} to {part.max()}" for part in ranges]
        rows = [
            (name, f"{100 * measured[name]:.1f} %")
            + tuple(f"{100 * measured[f'{name}, {quarter}']:.1f} %" for quarter in QUARTERS)
            for name in MODELS
        ]
        page.table([("", "all", *(f"{head} characters" for head in heads)), *rows])
        wrong = [
            f"{name}: {line}" for name in MODELS for line in self.mistakes(self.by_model[name])
        ]
        self.write_mistakes(page, wrong)
        page.draw_loss("Reading dates, recurrent", unit="nats per character of the answer")
        self._draw_accuracy(page, measured, [float(part.mean()) for part in ranges])
        self._draw_alignments(page)
        return True

    def _draw_accuracy(self, page, measured, lengths):
        curves = {
            name: [
                (length, measured[f"{name}, {quarter}"])
                for length, quarter in zip(lengths, QUARTERS, strict=True)
            ]
            for name in MODELS
        }
        figure = page.viz.accuracy_figure(
            curves, title="Exact answers by length of the source",
            x_label="mean length of the dates of a quarter, in characters",
        )  # fmt: skip
        page.save("accuracy_by_length.png", figure, "exact answers by length of the source")

    def _draw_alignments(self, page):
        place = int(np.flatnonzero(self.styles == _STYLE % len(self.held_out))[0])
        source = self.held_out[place][0]
        maps = []
        for name in WITH_ATTENTION:
            answer = self.by_model[name][place]
            maps.append((self.alignment(name, source, answer), list(source), list(answer)))
        figure = page.viz.cross_attention_figure(
            maps, "Where each decoder looks in the source", WITH_ATTENTION
        )
        page.save("alignment.png", figure, "where each decoder looks while it writes")

    def alignment(self, name, source, answer):
        """Return the attention weights of the model `name` for a source and its answer.

        Parameters
        ----------
        name : "additive", "dot" or "local-p"
        source, answer : str

        Returns
        -------
        array of shape (target, source)
            Weights between characters, without the end token.
        """
        model, device = self.model[_PLACES[name]].eval(), self.options["device"]
        ids = [tensor(self.tokenizer.encode([text]), device=device) for text in (source, answer)]
        with no_grad(), collect_attention(model.decoder) as found:
            self.teacher_forced(model, *ids)
        weights = cat([step for _, step in found], 2)  # additive attention runs once per character
        return to_host(weights.array)[0, 0, : len(answer), : len(source)]


def _quarters(lengths):
    """Divide lengths into quarters 0 (shortest) to 3, with equal lengths in the same quarter."""
    return np.digitize(lengths, np.quantile(lengths, (0.25, 0.5, 0.75)))
