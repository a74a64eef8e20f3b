"""CLIP recipe: an image tower and a text tower learn digits from sentences about scenes."""

import numpy as np

from ... import ops
from ...autograd import no_grad
from ...backend import as_dtype, get_rng_state, manual_seed, set_rng_state, to_host
from ...data.digit_scenes import DIGIT_WORDS, cell_of, draw_scenes
from ...data.digit_sentences import LONGEST, WORDS, as_ids, draw_sentences, prompts
from ...data.digits import digits_split
from ...models.clip import CLIP, ImageTower, TextTower, contrastive_loss
from ...models.relevance import patch_relevance
from ...optim import AdamW
from ...tensor import tensor
from .base import Recipe, Target, digest
from .options import Option, common_options
from .phases import RecipeStream

__all__ = ["Clip"]

SIDE, CELL, GRID = 30, 10, 3  # numbers per side: image pixels, patch pixels, patches
GALLERY = 100  # number of candidates in a retrieval test
_BOTH = ("image_to_text", "text_to_image")


class SentenceBatches(RecipeStream):
    """Scenes of two or three digits with sentences. Batch n depends only on (seed, n).

    Parameters
    ----------
    recipe : Clip
    places : bool, default False
        Whether the sentences name the position of each digit, such as "top-left".
    """

    def __init__(self, recipe, places=False):
        super().__init__(recipe)
        self.places = places

    def __next__(self):
        """Return images (batch, 1, side, side) and ids (batch, token)."""
        generator = np.random.default_rng([self.seed, self.position])
        noise = self.recipe.options["noise"]
        scenes = draw_scenes(
            self.batch_size, *self.recipe.training, generator, noise=noise, least=2
        )
        ids = as_ids(draw_sentences(scenes, generator, self.places))
        self.position += 1
        images = pixels_of(scenes).astype(self.dtype)
        return tensor(images, device=self.device), tensor(ids, device=self.device)


def pixels_of(scenes):
    """Return the images without their margin, so that each cell is one patch."""
    first = (scenes.images.shape[-1] - SIDE) // 2
    return scenes.images[..., first : first + SIDE, first : first + SIDE]


def galleries(scenes, count, generator):
    """Return `count` sets of scenes, as indices (count, `GALLERY`).

    No two scenes in a set have the same digits.
    """
    found = []
    for _ in range(count):
        chosen = {}
        for i in generator.permutation(len(scenes.digits)):
            chosen.setdefault(tuple(sorted(scenes.digits[i])), i)
        found.append([*chosen.values()][:GALLERY])
    return np.array(found)


def ranked_first(logits):
    """Return the fractions of images and of texts whose correct partner has the largest logit."""
    correct = np.arange(len(logits))
    return (logits.argmax(1) == correct).mean(), (logits.argmax(0) == correct).mean()


class Clip(Recipe):
    """Train an image encoder and a text encoder (two "towers") on scenes and sentences.

    A scene contains two or three digits, and its sentence names the digits. The sentence
    "there is seven and two" does not say where the digits are, so the towers must recognize the
    digits to match a scene with its sentence. There are no labels, and no training scene or
    sentence contains just one digit. In the test, the towers classify scenes with a single digit by
    prompts such as "image of seven". They also find a scene's sentence among 100 sentences, and a
    sentence's scene among 100 scenes. All test scenes show handwriting that does not occur in
    training. A second pair of towers is trained briefly on sentences that also name the digits'
    positions, such as "top-left". This pair can find a sentence by the positions alone.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Radford et al. 2021, arXiv:2103.00020v1.
    """

    name = "clip"
    summary = "two towers learn digits from sentences about scenes, without labels"
    headline = "An image tower and a text tower learn which sentence belongs to which scene."
    target = Target("zero_shot", 0.85, "digits classified by prompts, new handwriting")
    more_targets = (
        Target("image_to_text", 0.85, "scenes whose sentence ranks first among 100"),
        Target("text_to_image", 0.85, "sentences whose scene ranks first among 100"),
        Target(
            "focus", 4.0, "relevance of the cell with a word's digit, relative to a uniform map",
            percent=False,
        ),
    )  # fmt: skip
    unit = "pairs"
    noun = "data set"
    data_hint = "use the same version of scikit-learn as before"
    betas = (0.9, 0.98)
    log_every = 20
    one_process = "its loss compares all pairs of a batch"
    OPTIONS = (
        *common_options(
            ("dropout",), steps=1000, lr=3e-3, batch=128, layers=2, dim=64, warmup=50,
            weight_decay=0.05, eval_every=250,
        ),
        Option("text_layers", 1, "Number of blocks of the text tower."),
        Option("noise", 0.05, "Standard deviation of noise in training scenes.", "from_zero"),
        Option("places_steps", 140, "Number of training steps of the towers with places."),
        Option("galleries", 10, "Number of test sets of 100 scenes."),
        Option("scenes", 2000, "Number of test scenes of several digits."),
    )  # fmt: skip

    def prepare(self):
        """Load and split the digits; generate the test scenes and their sentences."""
        images, labels, *test = digits_split()
        self.training = images, labels
        generator = np.random.default_rng(0)
        self.test = draw_scenes(self.options["scenes"], *test, generator, least=2)
        self.single = draw_scenes(1000, *test, generator, most=1)
        self.chosen = galleries(self.test, self.options["galleries"], generator)
        self.sentences = {
            places: draw_sentences(self.test, np.random.default_rng(1), places)
            for places in (False, True)
        }
        return {
            "name": "scenes of scikit-learn's handwritten digits, with sentences",
            "sha256": digest(images, labels, self.test.images, str(self.sentences)),
        }

    def build(self):
        """Create the two towers."""
        options = self.options
        dim, heads = options["dim"], options["heads"]
        sizes = {"output_dim": dim, "activation": "gelu"}
        return CLIP(
            ImageTower(SIDE, CELL, dim, options["layers"], heads, 2 * dim, in_channels=1, **sizes),
            TextTower(len(WORDS), LONGEST, dim, options["text_layers"], heads, 2 * dim, **sizes),
        )

    def batches(self):
        """Return the stream of scenes and sentences. The sentences do not name positions."""
        return SentenceBatches(self)

    def loss(self, model, batch):
        """Return the contrastive loss. As in CLIP, scenes with equal digits count as different."""
        return contrastive_loss(model(*batch))

    def after_step(self, step):
        """Limit the temperature (section 2.5)."""
        self.model.limit_scale()

    def _images(self, scenes, chosen=slice(None)):
        images = pixels_of(scenes)[chosen].astype(as_dtype(self.options["dtype"]))
        return tensor(images, device=self.options["device"])

    def _ids(self, sentences):
        return tensor(as_ids(sentences), device=self.options["device"])

    def gallery_logits(self, model, chosen, places=False):
        """Return the logits between the scenes `chosen` (rows) and their sentences (columns)."""
        sentences = [self.sentences[places][i] for i in chosen]
        with no_grad():
            logits = model(self._images(self.test, chosen), self._ids(sentences))
        return to_host(logits.array)

    def retrieval(self, model, count=None, places=False):
        """Return the accuracies of image-to-text and text-to-image retrieval, as a dict.

        They are means over the first `count` galleries (default: all). If `places` is True, the
        sentences also name the digits' positions.
        """
        found = [
            ranked_first(self.gallery_logits(model, chosen, places))
            for chosen in self.chosen[:count]
        ]
        return dict(zip(_BOTH, map(float, np.mean(found, 0)), strict=True))

    def class_vectors(self, model, places=False):
        """Compute one vector for each of the ten digits, from the prompts that name the digit."""
        ids = np.stack([as_ids(sentences) for sentences in prompts(places)])
        return model.class_vectors(tensor(ids, device=self.options["device"]))

    def zero_shot(self, model, places=False):
        """Classify the test scenes with a single digit by prompts; return the predicted digits."""
        with no_grad():
            logits = model.classify(self._images(self.single), self.class_vectors(model, places))
        return to_host(logits.array).argmax(1)

    def _read(self, model, places=False):
        return float((self.zero_shot(model, places) == self.single.digits[:, 0]).mean())

    def evaluate(self, model):
        """Return the loss of a batch of test pairs, and the accuracies.

        Retrieval is tested on only one gallery, a set of 100 test scenes (see `galleries`).
        """
        count = self.options["batch"]
        with no_grad():
            batch = self._images(self.test, slice(count)), self._ids(self.sentences[False][:count])
            loss = contrastive_loss(model(*batch)).item()
        return {
            "validation_loss": loss, "accuracy": self._read(model), **self.retrieval(model, 1),
        }  # fmt: skip

    def measure(self, metrics):
        """Return the accuracies of both pairs of towers, and the `focus`.

        The first pair was trained on sentences without positions. The second pair is trained here,
        on sentences with positions, and is tested on such sentences.
        """
        model = self.model.eval()
        places = self.train_with_places()
        return {
            "zero_shot": self._read(model), **self.retrieval(model), "focus": self.focus(),
            **{f"{name} with places": x for name, x in self.retrieval(places, None, True).items()},
            "zero_shot with places": self._read(places, True),
            "layout alone": self.layout_alone(),
            "temperature": 1 / model.logit_scale.exp().item(),
        }  # fmt: skip

    def baselines(self):
        """Return the losses of guessing, and of a model that recognizes every digit correctly.

        The second loss is not 0, because scenes with the same digits cannot be distinguished.
        """
        count = self.options["batch"]
        digits = np.sort(self.test.digits[:count], 1)
        *_, same = np.unique(digits, axis=0, return_inverse=True, return_counts=True)
        mean = (same * np.log(same)).sum() / len(digits)
        return {"guessing": float(np.log(count)), "all digits read": float(mean)}

    def train_with_places(self):
        """Train new towers for `places_steps` steps on sentences that also name positions."""
        options, random_state = self.options, get_rng_state()
        manual_seed(options["seed"])
        model = self.build()
        model.to(as_dtype(options["dtype"])).to(options["device"])
        optimizer = AdamW(
            model.parameters(), lr=options["lr"], betas=self.betas,
            weight_decay=options["weight_decay"],
        )  # fmt: skip
        batches = SentenceBatches(self, places=True)
        for step in range(options["places_steps"]):
            optimizer.param_groups[0]["lr"] = options["lr"] * min(1.0, (step + 1) / 50)
            optimizer.zero_grad()
            self.loss(model, next(batches)).backward()
            optimizer.step()
            model.limit_scale()
        set_rng_state(random_state)
        return model.eval()

    def layout_alone(self):
        """Return the accuracy of a random guess among sentences that name the correct positions."""
        cells = np.array(
            [[cell_of(c)[0] * GRID + cell_of(c)[1] for c in scene] for scene in self.test.corners]
        )
        shares = []
        for chosen in self.chosen:
            _, layout, count = np.unique(
                cells[chosen], axis=0, return_inverse=True, return_counts=True
            )
            shares.append((1 / count[layout.ravel()]).mean())
        return float(np.mean(shares))

    def relevance(self, count):
        """Return a relevance map for each digit's word, of shape (scene, digit, row, column)."""
        scenes = self.test
        with no_grad():
            words = self.class_vectors(self.model)  # (class, output)
        images = self._images(scenes, slice(count))
        digits = np.maximum(scenes.digits[:count], 0)
        maps = [
            patch_relevance(self.model, images, words[tensor(column, device=images.device)])
            for column in digits.T
        ]
        return to_host(ops.stack(maps, 1).array)

    def focus(self, count=500):
        """Return the relevance of a digit's cell for the digit's word, relative to a uniform map.

        The result is the mean over the digits of the first `count` test scenes.
        """
        maps, found = self.relevance(count), []
        for scene, place in np.argwhere(self.test.digits[:count] >= 0):
            found.append(maps[scene, place][cell_of(self.test.corners[scene, place])])
        return float(np.mean(found)) * GRID**2

    def preface(self, page):
        """Print a few sentences, and the target values of the metrics."""
        page.text("Sentences of some test scenes, without and with places:\n")
        for i in range(3):
            page.text("  " + " | ".join(" ".join(self.sentences[p][i]) for p in (False, True)))
        page.text("")
        super().preface(page)
        page.text("\n".join(f"Also: {target}." for target in self.more_targets))

    def show(self, page, measured):
        """Show the accuracies of both pairs of towers, the loss, and relevance maps."""
        for target in (self.target, *self.more_targets):
            value = measured[target.metric]
            reached = "reached" if target.reached(value) else "missed"
            page.text(f"{target.meaning}: {target.show(value)} ({target.bound}: {reached})")
        steps = self.options["places_steps"]
        rows = [("", "digits alone", f"with places, {steps} steps", "chance")]
        chance = {"zero_shot": "10.0 %", **dict.fromkeys(_BOTH, "1.0 %")}
        for name, guess in chance.items():
            own, other = measured[name], measured[f"{name} with places"]
            label = name.replace("_", " ")
            rows.append((label, f"{100 * own:.1f} %", f"{100 * other:.1f} %", guess))
        page.table(rows)
        page.text(
            "With places, a guess among the sentences with the correct layout is correct in "
            f"{100 * measured['layout alone']:.1f} %,\nso retrieval does not need the digits. "
            f"Temperature: {measured['temperature']:.3f}\n"
        )
        self._write_mistakes(page)
        page.draw_loss("Scenes and sentences", unit="nats per pair")
        self._draw_words(page)
        return True

    def _write_mistakes(self, page):
        lines = []
        for chosen in self.chosen[:1]:
            logits = self.gallery_logits(self.model, chosen)
            for i in np.flatnonzero(logits.argmax(1) != np.arange(len(chosen))):
                texts = [self.sentences[False][chosen[j]] for j in (logits[i].argmax(), i)]
                lines.append("{!r} instead of {!r}".format(*map(" ".join, texts)))
        page.write("mistakes.txt", "\n".join(lines) + "\n", "wrong sentences of one gallery")

    def _draw_words(self, page, count=5):
        """Plot a relevance map for each digit of the first `count` test scenes.

        The map shows which cells of the scene make it similar to the digit's word.
        """
        maps, scenes = self.relevance(count), []
        for i in range(count):
            digits = self.test.digits[i]
            present = np.flatnonzero(digits >= 0)
            words = [DIGIT_WORDS[digit] for digit in digits[present]]
            scenes.append((pixels_of(self.test)[i, 0], words, maps[i, present]))
        figure = page.viz.caption_figure(
            scenes, "The evidence for each word (new handwriting)", smooth=False
        )
        page.save("words.png", figure, "which cell makes a scene similar to each word")
