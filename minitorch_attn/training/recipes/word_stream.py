"""Word stream: batches of sentences for a biLM and word pairs for skip-gram."""

import numpy as np

from ... import ops
from ...backend.generator import Generator
from ...data.batch_stream import BatchStream
from ...models.elmo import character_ids
from ...models.word2vec import discard_probability, noise_distribution
from ...models.word2vec_samples import skip_gram_pairs, subsample
from ...tensor import tensor

__all__ = ["SentencesAndPairs", "sentence_batch"]

_POOL = 8  # sentences of this many batches are sorted together by length
_ROUND = 100  # frequent words are subsampled again after this many batches


class SentencesAndPairs(BatchStream):
    """Batches of sentences of similar length, each with word pairs and negative samples.

    Batch n depends only on (seed, n). In an epoch, every sentence occurs at most once.

    Parameters
    ----------
    sentences : list of list of str
    ids : list of list of int
        Ids of the words of each sentence.
    counts : list of int
        Number of occurrences of each word.
    pairs : int
        Number of skip-gram pairs for each sentence of a batch.
    settings : dict
        "window", "negatives" and "threshold" of word2vec, and "characters", the maximum number of
        characters of a word.
    batch_size, seed, device
        Arguments of `BatchStream`.
    """

    def __init__(self, sentences, ids, counts, pairs, settings, batch_size, seed=0, device=None):
        super().__init__(min(batch_size, len(sentences)), seed, device)
        self.sentences, self.ids, self.pairs = sentences, ids, pairs
        self.settings = settings
        self.discard = discard_probability(counts, settings["threshold"])
        self.noise = np.cumsum(noise_distribution(counts).numpy())
        self.stream = tensor(np.concatenate([np.array(row[1:-1]) for row in ids]), dtype="int64")
        self._order = self._epoch = self._all_pairs = self._round = None

    def __next__(self):
        """Return characters, ids, padding mask, centers, contexts and negatives, batch first."""
        per_epoch = len(self.sentences) // self.batch_size
        epoch, place = divmod(self.position, per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffled(epoch)
        rows = self._order[place]
        parts = sentence_batch(
            [self.sentences[row] for row in rows], [self.ids[row] for row in rows],
            self.settings["characters"],
        )  # fmt: skip
        parts = (*parts, *self._word_pairs())
        self.position += 1
        return tuple(part if self.device is None else part.to(self.device) for part in parts)

    def _shuffled(self, epoch):
        """Return sentence indices for each batch of an epoch, grouped by similar length."""
        generator = np.random.default_rng([self.seed, 0, epoch])
        order, size = generator.permutation(len(self.sentences)), self.batch_size
        batches = []
        for start in range(0, len(order), _POOL * size):
            pool = sorted(order[start : start + _POOL * size], key=lambda row: len(self.ids[row]))
            batches += [pool[i : i + size] for i in range(0, len(pool) - size + 1, size)]
        return [batches[i] for i in generator.permutation(len(batches))]

    def _word_pairs(self):
        """Return centers and contexts (batch, pair) and negatives (batch, pair, negative)."""
        number = self.position // _ROUND
        if number != self._round:
            self._round, self._all_pairs = number, self._pairs_of(number)
        generator = np.random.default_rng([self.seed, 1, self.position])
        center, context = self._all_pairs
        shape = (self.batch_size, self.pairs)
        chosen = generator.integers(len(center), size=shape)
        drawn = generator.random((*shape, self.settings["negatives"]))
        negatives = np.searchsorted(self.noise, drawn).clip(max=len(self.noise) - 1)
        return tensor(center[chosen]), tensor(context[chosen]), tensor(negatives)

    def _pairs_of(self, number):
        """Return all skip-gram pairs of the text, after discarding frequent words at random.

        `number` is the number of a round of `_ROUND` batches. Each round discards other words.
        """
        generator = Generator().manual_seed((self.seed * 1_000_003 + number) % 2**63)
        kept = subsample(self.stream, self.discard, generator)
        window = self.settings["window"]
        sizes = ops.randint(1, window + 1, (len(kept),), generator=generator)
        return [part.numpy() for part in skip_gram_pairs(kept, window, sizes)]


def sentence_batch(sentences, ids, characters):
    """Return character ids, word ids and the padding mask of some sentences.

    Parameters
    ----------
    sentences : list of list of str
    ids : list of list of int
    characters : int
        Maximum number of characters of a word, including its begin and end markers.

    Returns
    -------
    characters : int64 Tensor of shape (batch, token, characters)
    ids : int64 Tensor of shape (batch, token)
    padding_mask : bool Tensor of shape (batch, token)
        True at padding.

    Examples
    --------
    >>> _, ids, padding_mask = sentence_batch([["a"], ["to", "b"]], [[5], [7, 8]], 5)
    >>> ids, padding_mask
    (tensor([[5, 0],
            [7, 8]]), tensor([[False,  True],
            [False, False]]))
    """
    longest = max(map(len, ids))
    table = np.zeros((len(ids), longest), dtype=np.int64)
    padding = np.ones((len(ids), longest), dtype=bool)
    for row, words in enumerate(ids):
        table[row, : len(words)], padding[row, : len(words)] = words, False
    return character_ids(sentences, characters), tensor(table), tensor(padding)
