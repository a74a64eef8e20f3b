"""What recipes of text in, text out share: batches of pairs, the loss, exact matches."""

import numpy as np

from ...autograd import no_grad
from ...backend import to_host
from ...data.pairs import GeneratedBatches, PairTokenizer
from ...generation.translate import translate
from ...nn.functional import cross_entropy
from ...ops import cat
from ...tensor import tensor
from .base import Recipe

__all__ = ["PairRecipe", "exact_matches"]

_EVALUATED = 256


class PairRecipe(Recipe):
    """An encoder-decoder learns to turn one short text into another.

    A subclass gives `make_pair`, `held_out` and `vocabulary` in its `prepare`, and `start_id`.

    Attributes
    ----------
    held_out : list of (source, target)
        Pairs of strings, whose sources no training example has.
    tokenizer : PairTokenizer
    """

    start_id = PairTokenizer.START
    log_every = 20

    def make_pair(self, generator):
        """One training example, (source, target)."""
        raise NotImplementedError

    @property
    def tokenizer(self):
        """The characters and the three special tokens."""
        return PairTokenizer(self.vocabulary)

    def batches(self):
        """Examples without end."""
        options = self.options
        return GeneratedBatches(
            self.make_pair, self.tokenizer, options["batch"], options["seed"], options["device"]
        )

    def teacher_forced(self, model, source, target):
        """Logits of the target, each position given the right tokens before it.

        Parameters
        ----------
        source : int64 Tensor of shape (batch, source)
        target : int64 Tensor of shape (batch, target)

        Returns
        -------
        Tensor of shape (batch, target, vocabulary)
        """
        start = target[:, :1] * 0 + self.start_id  # (batch, 1)
        return model(source, cat([start, target[:, :-1]], 1))

    def loss(self, model, batch):
        """Mean cross-entropy of the next character of the target; padding does not count."""
        source, target = batch  # (batch, source), (batch, target)
        logits = self.teacher_forced(model, source, target)
        return cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            target.reshape(-1),
            ignore_index=PairTokenizer.PAD,
        )

    def count(self, batch):
        """How many characters of the targets are no padding."""
        return int((batch[1] != PairTokenizer.PAD).sum().item())

    def evaluate(self, model):
        """Loss and exact matches of some held-out pairs; the whole of them is for the end."""
        pairs = self.held_out[:_EVALUATED]
        sources, targets = zip(*pairs, strict=True)
        device = self.options["device"]
        batch = [
            tensor(self.tokenizer.encode(texts), device=device) for texts in (sources, targets)
        ]
        with no_grad():
            loss = self.loss(model, batch).item()
        return {"validation_loss": loss, "accuracy": exact_matches(self.answers(sources), targets)}

    def answers(self, sources, batch_size=250):
        """What the model makes of some sources, by greedy decoding.

        Parameters
        ----------
        sources : sequence of str
        batch_size : int, default 250

        Returns
        -------
        list of str
        """
        longest = max(len(target) for _, target in self.held_out) + 2
        found = []
        for first in range(0, len(sources), batch_size):
            ids = self.tokenizer.encode(sources[first : first + batch_size])
            written = translate(
                self.model,
                tensor(ids, device=self.options["device"]),
                self.start_id,
                PairTokenizer.END,
                max_new_tokens=longest,
            )
            found += [self.tokenizer.decode(row) for row in to_host(written.array)]
        return found


def exact_matches(answers, targets):
    """The share of answers that are right to the last character.

    Examples
    --------
    >>> exact_matches(["a", "b", "cd", "e"], ["a", "b", "c", "e"])
    0.75
    """
    return float(np.mean([a == b for a, b in zip(answers, targets, strict=True)]))
