"""Trigram language models from word counts: linear interpolation and Kneser-Ney smoothing."""

import math
from collections import Counter
from itertools import product

import numpy as np

__all__ = ["InterpolatedTrigram", "KneserNeyTrigram"]


class InterpolatedTrigram:
    """Trigram model: a mixture of uniform, unigram, bigram and trigram probabilities.

    The weights of the mixture are fitted to held-out sentences by expectation-maximization (Jelinek
    and Mercer 1980). A bigram or trigram probability is undefined if its context did not occur in
    training. The mixture then omits it, and the other weights are rescaled so that their sum is 1.

    Parameters
    ----------
    sentences : list of list of int
        Ids of the words of each sentence, including its start and end marks. The first id of a
        sentence is not predicted.
    vocab_size : int

    Examples
    --------
    >>> model = InterpolatedTrigram([[0, 1, 2, 1, 2, 1, 2, 3]] * 20, vocab_size=4)
    >>> model.loss([[0, 1, 2, 3]]) < model.loss([[0, 2, 1, 3]])
    True
    """

    def __init__(self, sentences, vocab_size):
        self.vocab_size = vocab_size
        fit, held_out = _split(sentences)
        self._count(fit)
        self.weights = _fit_mixture(list(self._parts(held_out)))
        self._count(sentences)

    def loss(self, sentences):
        """Return the mean of -log p over the words of the sentences, in nats."""
        return _mean_loss(map(self._probability, self._parts(sentences)))

    def _probability(self, parts):
        pairs = [(w, p) for w, p in zip(self.weights, parts, strict=True) if p is not None]
        return sum(w * p for w, p in pairs) / sum(w for w, _ in pairs)

    def _count(self, sentences):
        self.counts, self.contexts = Counter(), Counter()
        for gram in _grams(sentences):
            for length in (1, 2, 3):
                self.counts[gram[3 - length :]] += 1
                self.contexts[gram[3 - length : -1], length] += 1

    def _parts(self, sentences):
        """For each word, yield the list of its uniform, unigram, bigram and trigram probabilities.

        A probability is None if its context did not occur in training.
        """
        for gram in _grams(sentences):
            parts = [1 / self.vocab_size]
            for length in (1, 2, 3):
                seen = self.contexts[gram[3 - length : -1], length]
                parts.append(self.counts[gram[3 - length :]] / seen if seen else None)
            yield parts


class KneserNeyTrigram:
    """Trigram model with interpolated Kneser-Ney smoothing, the strongest count-based model here.

    A discount is subtracted from each count. The freed probability is given to the model with
    a shorter context. For shorter contexts, the count of an n-gram is the number of distinct
    words that precede it (Chen and Goodman 1998, section 2.7). The discounts are chosen to minimize
    the loss on held-out sentences.

    Parameters
    ----------
    sentences, vocab_size
        See `InterpolatedTrigram`.

    Examples
    --------
    >>> model = KneserNeyTrigram([[0, 1, 2, 1, 2, 1, 2, 3]] * 20, vocab_size=4)
    >>> model.loss([[0, 1, 2, 3]]) < model.loss([[0, 2, 1, 3]])
    True
    """

    def __init__(self, sentences, vocab_size):
        self.vocab_size = vocab_size
        fit, held_out = _split(sentences)
        self._count(fit)
        tried = product((0.6, 0.7, 0.8, 0.9), (0.6, 0.7, 0.8, 0.9), (0.6,))
        self.discounts = min(tried, key=lambda discounts: self._loss(held_out, discounts))
        self._count(sentences)

    def loss(self, sentences):
        """Return the mean of -log p over the words of the sentences, in nats."""
        return self._loss(sentences, self.discounts)

    def _count(self, sentences):
        trigrams = Counter(_grams(sentences))
        self.counts, self.totals, self.kinds = Counter(trigrams), Counter(), Counter()
        for gram in trigrams:  # count distinct preceding words
            self.counts[gram[1:]] += 1
        for gram in [gram for gram in self.counts if len(gram) == 2]:
            self.counts[gram[1:]] += 1
        for gram, count in self.counts.items():
            key = (len(gram), gram[:-1])
            self.totals[key] += count
            self.kinds[key] += 1

    def _loss(self, sentences, discounts):
        return _mean_loss(self._probability(gram, discounts) for gram in _grams(sentences))

    def _probability(self, gram, discounts):
        p = 1 / self.vocab_size
        for length, discount in zip((1, 2, 3), reversed(discounts), strict=True):
            part = gram[3 - length :]
            key = (length, part[:-1])
            if self.totals[key]:
                kept = max(self.counts[part] - discount, 0)
                p = (kept + discount * self.kinds[key] * p) / self.totals[key]
        return p


def _mean_loss(probabilities):
    """Return the mean of -log p, or 0 if there are no probabilities."""
    total, count = 0.0, 0
    for p in probabilities:
        total -= math.log(p)
        count += 1
    return total / max(count, 1)


def _grams(sentences):
    """For each word of a sentence except the first, yield the trigram that ends with the word."""
    for sentence in sentences:
        padded = (-1, *sentence)
        yield from zip(padded, padded[1:], padded[2:])  # noqa: B905


def _split(sentences):
    """Return the sentences for counting (nine in ten) and for tuning (every tenth)."""
    kept = [sentence for number, sentence in enumerate(sentences) if number % 10 != 3]
    return kept, [sentence for number, sentence in enumerate(sentences) if number % 10 == 3]


def _fit_mixture(rows, rounds=30):
    """Fit mixture weights to each word's probabilities (`rows`) by expectation-maximization."""
    weights, parts = np.full(4, 0.25), np.array([[p or 0.0 for p in row] for row in rows])
    for _ in range(rounds):
        joint = weights * parts.reshape(-1, 4)  # (word, part)
        shares = 1e-9 + (joint / joint.sum(1, keepdims=True)).sum(0)
        weights = shares / shares.sum()
    return weights.tolist()
