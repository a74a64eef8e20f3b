"""Words recipe: word2vec and ELMo read the same text; only ELMo distinguishes meanings."""

import math
from collections import Counter
from functools import lru_cache

import numpy as np

from ... import nn
from ...autograd import no_grad
from ...backend import manual_seed, to_host
from ...data.help_words import KEYWORD, HelpWords
from ...data.trigrams import InterpolatedTrigram, KneserNeyTrigram
from ...models.elmo import BiLM, ELMo, bilm_loss, losses_by_direction
from ...models.word2vec import SkipGram
from .base import Recipe, Target, digest
from .options import Option, common_options
from .two_meanings import probe_accuracy
from .word_stream import SentencesAndPairs, sentence_batch

__all__ = ["Words"]

_UNKNOWN = "<unk>"
_ANCHORS = (
    "class", "list", "import", "exception", "left", "string", "true", "integer", "key", "loop",
)  # fmt: skip
_PICTURED = ("class", "import", "in", "as")
_EVALUATION_BATCH = 32
_UNUSED = ("layers", "heads")


class Words(Recipe):
    """Train word2vec and ELMo's bidirectional language model on the same text, side by side.

    Skip-gram with negative sampling gives each word one vector. ELMo gives each occurrence its own
    vector. Words such as "class" and "import" occur with two meanings, as Python keywords and as
    English words; see `data.help_words`. The accuracy is that of a nearest-centroid classifier,
    which infers the meaning of an occurrence from its vector.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Mikolov et al. 2013, arXiv:1310.4546v1.
    .. [2] Peters et al. 2018, arXiv:1802.05365v2.
    """

    name = "words"
    summary = "word2vec and ELMo; ELMo tells two meanings of a word apart"
    headline = "Two models learn word vectors: one per word, and one per occurrence."
    target = Target("accuracy", 0.92, "meanings of words classified correctly")
    unit = "sentences"
    noun = "text"
    data_hint = "use the same version of Python as before"
    betas = (0.9, 0.98)
    OPTIONS = (
        *common_options(
            _UNUSED, steps=1700, lr=6e-3, batch=16, dim=64, dropout=0.2, eval_every=425, warmup=50
        ),
        Option("fewest", 2, "Minimum number of occurrences of a known word in the training text."),
        Option("cells", 128, "Number of cells of each LSTM."),
        Option("characters", 14, "Maximum number of characters of a word, including two marks."),
        Option("pairs", 48, "Number of skip-gram pairs for each sentence of a batch."),
        Option("window", 5, "Maximum distance between the two words of a pair."),
        Option("negatives", 5, "Number of negative samples per pair."),
    )

    def prepare(self):
        """Split the text into sentences and build the vocabulary. Rare words become `<unk>`."""
        self.text, self.counted = _read_text(), None
        kept = self.text.is_validation
        pairs = list(zip(self.text.sentences, kept, strict=True))
        self.training = [sentence for sentence, held_out in pairs if not held_out]
        self.validation = [sentence for sentence, held_out in pairs if held_out]
        counts = Counter(word for sentence in self.training for word in sentence)
        words = sorted(word for word in counts if counts[word] >= self.options["fewest"])
        self.words = [_UNKNOWN, *words]
        self.vocabulary = "\n".join(self.words)
        self.index = {word: number for number, word in enumerate(self.words)}
        self.ids = [self.encode(sentence) for sentence in self.training]
        self.counts = np.bincount(np.concatenate(self.ids), minlength=len(self.words)).tolist()
        self.mean_length = np.mean([len(row) - 1 for row in self.ids])
        return {
            "name": f"Python's help topics: {sum(self.counts):,} words and marks, "
            f"{len(self.words):,} different",
            "sha256": digest(*(" ".join(sentence) for sentence in self.text.sentences)),
        }

    def encode(self, sentence):
        """Return the ids of a sentence's words. The id of an unknown word is 0."""
        return [self.index.get(word, 0) for word in sentence]

    def build(self):
        """Create a skip-gram model, and a small biLM with two LSTM layers in each direction."""
        options = self.options
        elmo = ELMo(
            filters=[(1, 16), (2, 32), (3, 48)], num_highway=1, embed_dim=options["dim"],
            hidden_dim=options["cells"], dropout=options["dropout"],
        )  # fmt: skip
        count = len(self.words)
        return nn.ModuleDict(
            {"skip_gram": SkipGram(count, options["dim"]), "bilm": BiLM(count, elmo)}
        )

    def batches(self):
        """Return batches of sentences and word pairs."""
        options = self.options
        settings = {name: options[name] for name in ("window", "negatives", "characters")}
        return SentencesAndPairs(
            self.training, self.ids, self.counts, options["pairs"],
            {**settings, "threshold": 1e-3}, options["batch"], options["seed"], options["device"],
        )  # fmt: skip

    def loss(self, model, batch):
        """Return word2vec's loss plus the biLM's loss. The models do not share parameters.

        The biLM's loss is a mean over the sentences of the batch. The loss of a sentence is the sum
        of -log p over its predictions, in both directions, divided by the mean length of the
        training sentences.
        """
        characters, ids, padding_mask, center, context, negatives = batch
        logits = model["bilm"](characters, padding_mask)
        predicted = int(padding_mask.logical_not().sum().item()) - len(ids)
        share = predicted / (len(ids) * self.mean_length)
        pairs = (center.flatten(), context.flatten(), negatives.flatten(0, 1))
        word2vec = model["skip_gram"].negative_sampling_loss(*pairs)
        return word2vec + bilm_loss(*logits, ids, padding_mask) * share

    # Evaluation

    def baselines(self):
        """Return the losses of count-based models, averaged over both directions."""
        if self.counted is not None:  # counting takes a few seconds
            return self.counted
        validation = [self.encode(sentence) for sentence in self.validation]
        found = {}
        for name, kind in _TRIGRAMS.items():
            losses = [
                kind([row[::way] for row in self.ids], len(self.words)).loss(
                    [row[::way] for row in validation]
                )
                for way in (1, -1)
            ]
            found[name] = sum(losses) / 2
        self.counted = found
        return found

    def evaluate(self, model):
        """Return the mean of -log p over the validation words, for each direction and for both."""
        totals, count = np.zeros(2), 0
        order = sorted(self.validation, key=len)
        with no_grad():
            for start in range(0, len(order), _EVALUATION_BATCH):
                characters, ids, padding = self.batch_of(order[start : start + _EVALUATION_BATCH])
                logits = model["bilm"](characters, padding)
                predicted = int(padding.logical_not().sum().item()) - len(ids)
                losses = losses_by_direction(*logits, ids, padding)
                totals += np.array([loss.item() for loss in losses]) * predicted
                count += predicted
        to_right, to_left = (float(total) / count for total in totals)
        return {
            "validation_loss": (to_right + to_left) / 2,
            "loss_to_right": to_right, "loss_to_left": to_left,
        }  # fmt: skip

    def batch_of(self, sentences):
        """Return character ids, word ids and the padding mask of sentences."""
        ids = [self.encode(sentence) for sentence in sentences]
        parts = sentence_batch(sentences, ids, self.options["characters"])
        return tuple(part.to(self.options["device"]) for part in parts)

    def occurrences(self):
        """Return each use of a word with two meanings: (sentence, position, word, meaning)."""
        return [
            (sentence, place, word, meaning)
            for word, found in self.text.occurrences.items()
            for sentence, place, meaning in found
        ]

    def contextual_vectors(self, elmo):
        """Return the outputs of ELMo's layers at each occurrence of a word with two meanings.

        Parameters
        ----------
        elmo : ELMo

        Returns
        -------
        array of shape (layer, occurrence, 2 * embed)
        """
        places = self.occurrences()
        numbers = sorted({sentence for sentence, *_ in places})
        found = {}
        with no_grad():
            for start in range(0, len(numbers), _EVALUATION_BATCH):
                part = numbers[start : start + _EVALUATION_BATCH]
                characters, _, padding = self.batch_of([self.text.sentences[n] for n in part])
                layers = to_host(elmo(characters, padding).array)
                found |= {number: layers[:, row] for row, number in enumerate(part)}
        return np.stack([found[sentence][:, place] for sentence, place, *_ in places], 1)

    def static_vectors(self):
        """Return word2vec's vectors of all words, as an array of shape (word, embed)."""
        return to_host(self.model["skip_gram"].input.weight.array)

    def measure(self, metrics):
        """Return the accuracies of the kinds of word vectors, and the models' perplexities.

        An accuracy is the fraction of the occurrences of words with two meanings whose meaning is
        classified correctly from the vector; see `probe_accuracy`.
        """
        self.model.eval()
        self.layers = self.contextual_vectors(self.model["bilm"].elmo)
        manual_seed(self.options["seed"])
        untrained = self.build()["bilm"].elmo.to(self.layers.dtype).to(self.options["device"])
        static, neighbors = self._static_occurrences()
        kinds = {
            "accuracy": self.layers.mean(0),  # equal weights, as in a new ScalarMix
            "word2vec: accuracy": static,
            "word2vec, mean of four neighbors: accuracy": neighbors,
            "untrained ELMo: accuracy": self.contextual_vectors(untrained.eval()).mean(0),
            **{f"ELMo layer {k}: accuracy": layer for k, layer in enumerate(self.layers)},
        }
        places = self.occurrences()
        words, meanings = [place[2] for place in places], np.array([place[3] for place in places])
        paragraphs = self.text.paragraphs[[place[0] for place in places]]
        found = {
            name: probe_accuracy(vectors, words, meanings, paragraphs)
            for name, vectors in kinds.items()
        }
        measured = {name: accuracy for name, (accuracy, _) in found.items()}
        by_word = {f"accuracy of {word}": a for word, a in found["accuracy"][1].items()}
        losses = {"biLM": metrics[-1]["validation_loss"], **self.baselines()}
        perplexities = {f"perplexity: {name}": math.exp(loss) for name, loss in losses.items()}
        return {**measured, **by_word, **perplexities}

    def _static_occurrences(self):
        """Return two arrays with word2vec's vectors for the occurrences, one row per occurrence.

        The first contains the vector of the word itself. The second contains the mean vector of the
        words next to it in the sentence, up to two on each side.
        """
        table, own, around = self.static_vectors(), [], []
        for sentence, place, *_ in self.occurrences():
            ids = self.encode(self.text.sentences[sentence])
            own.append(table[ids[place]])
            near = [*range(max(place - 2, 0), place), *range(place + 1, min(place + 3, len(ids)))]
            around.append(table[[ids[i] for i in near]].mean(0))
        return np.stack(own), np.stack(around)

    # Report

    def model_text(self):
        """Describe the size of both models."""
        options = self.options
        sizes = [
            sum(parameter.array.size for parameter in self.model[name].parameters())
            for name in ("skip_gram", "bilm")
        ]
        return (
            f"word2vec, width {options['dim']}: {sizes[0]:,} parameters; biLM, 2 x 2 LSTMs of "
            f"{options['cells']} cells: {sizes[1]:,} parameters"
        )

    def preface(self, page):
        """Print the words with two meanings and the perplexities of the trigram models."""
        counts = {word: len(found) // 2 for word, found in self.text.occurrences.items()}
        listed = ", ".join(f"{word} {count}" for word, count in counts.items())
        page.text(f"Words with two meanings, and occurrences of each meaning:\n  {listed}\n")
        page.text("Perplexity on the validation sentences, mean of both directions:\n")
        page.table([(f"{math.exp(v):.1f}", name) for name, v in page.baselines.items()])
        page.text("")
        super().preface(page)

    def show(self, page, measured):
        """Show neighbors, accuracies and perplexities, and plot words that have two meanings."""
        page.text("Nearest neighbors of word2vec's vectors (cosine):\n")
        anchors = [word for word in _ANCHORS if word in self.index]
        page.table([(word, ", ".join(self.neighbors(word))) for word in anchors])
        page.heading("Which meaning does an occurrence have?")
        names = [name for name in measured if name.endswith("accuracy")]
        page.table(
            [
                (f"{100 * measured[name]:.1f} %", name.removesuffix(": accuracy"))
                for name in names
                if name != "accuracy"
            ]
            + [(f"{100 * measured['accuracy']:.1f} %", "ELMo, mean of its layers")]
        )
        page.heading("Perplexity on the validation sentences")
        perplexities = [name for name in measured if name.startswith("perplexity")]
        page.table([(f"{measured[n]:.1f}", n.removeprefix("perplexity: ")) for n in perplexities])
        validation = [entry for entry in page.metrics if "validation_loss" in entry]
        curve = [{k: e[k] for k in ("step", "validation_loss")} for e in validation]
        curve = curve[1:] or curve  # without the loss before training, which is much larger
        page.draw_loss("A bidirectional language model", curve, unit="nats per word")
        self._draw(page, anchors)
        return True

    def neighbors(self, word, count=5):
        """Return the frequent words whose vectors have the largest cosine with that of `word`."""
        table = self.static_vectors()
        frequent = np.array(self.counts) >= 10
        unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
        cosine = np.where(frequent, unit @ unit[self.index[word]], -2.0)
        is_word = [self.words[i] for i in np.argsort(-cosine) if self.words[i].isalpha()]
        return [other for other in is_word if other != word][:count]

    def _draw(self, page, anchors):
        groups = {word: self.neighbors(word, 4) for word in anchors}
        table = self.static_vectors()
        figure = page.viz.word_map_figure(
            {word: table[self.index[word]] for word in self.index},
            groups, "Neighbors in word2vec's space",
        )  # fmt: skip
        page.save("neighbors.png", figure, "words and their nearest neighbors")
        places, panels = self.occurrences(), {}
        vectors = self.layers.mean(0)
        for word in [word for word in _PICTURED if word in self.text.occurrences]:
            chosen = [i for i, place in enumerate(places) if place[2] == word]
            contexts = [self._context(*places[i][:2]) for i in chosen]
            is_keyword = np.array([places[i][3] == KEYWORD for i in chosen])
            panels[f'"{word}"'] = (vectors[chosen], is_keyword, contexts)
        figure = page.viz.meanings_figure(
            panels, ("English word", "Python keyword"),
            "One word, two meanings: ELMo's vectors of each occurrence (word2vec has one vector)",
        )  # fmt: skip
        page.save("meanings.png", figure, "two meanings of a word in two dimensions")

    def _context(self, sentence, place):
        words = self.text.sentences[sentence]
        near = words[max(place - 2, 1) : min(place + 3, len(words) - 1)]
        return " ".join(near)

    def last_words(self, folder):
        """Suggest which files to look at and read next."""
        return (
            f"Look at {folder / 'meanings.png'}, then read minitorch_attn/models/word2vec.py,\n"
            "minitorch_attn/models/elmo.py and lesson 36."
        )


_TRIGRAMS = {"interpolated trigram": InterpolatedTrigram, "Kneser-Ney trigram": KneserNeyTrigram}


@lru_cache(maxsize=1)
def _read_text():
    return HelpWords()
