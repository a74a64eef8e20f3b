"""Base classes for recipes on handwritten digits: the data split, batches and test accuracy."""

import numpy as np

from ...autograd import no_grad
from ...backend import to_host
from ...data.digits import digits_split
from ...data.examples import ShuffledBatches, in_batches
from ...nn.functional import cross_entropy
from ...tensor import tensor
from .base import Recipe, Target, digest

__all__ = ["DigitClassifier", "DigitRecipe"]

_SHOWN = 20


class DigitRecipe(Recipe):
    """Recipe whose data are scikit-learn's digits, split 80/20 with a fixed seed.

    Attributes
    ----------
    training, test : (images, labels)
        float32 images of shape (image, 1, 8, 8) with values from 0 to 1, and int64 labels.
    """

    unit = "images"
    noun = "data set"
    data_hint = "use the same version of scikit-learn as before"
    betas = (0.9, 0.99)
    log_every = 20

    def prepare(self):
        """Split the digits."""
        images, labels, test_images, test_labels = digits_split()
        self.training, self.test = (images, labels), (test_images, test_labels)
        return {
            "name": f"scikit-learn's digits: {len(images):,} images to train on, "
            f"{len(test_images)} to test",
            "sha256": digest(images, labels, test_images, test_labels),
        }

    def test_batches(self):
        """Return batches of the test images in order."""
        return in_batches(self.test, 120, self.options["device"], self.options["dtype"])


class NoisyBatches(ShuffledBatches):
    """Batches of labeled images with noise added to every pixel.

    The images and the noise of batch n depend only on (seed, n).

    Parameters
    ----------
    noise : float
        Standard deviation of the noise. Pixels are between 0 and 1.
    *arguments
        Arguments of `ShuffledBatches`.
    """

    def __init__(self, noise, *arguments):
        super().__init__(*arguments)
        self.noise = noise

    def __next__(self):
        generator = np.random.default_rng([self.seed, 1, self.position])
        images, labels = super().__next__()
        noise = generator.normal(0, self.noise, images.shape).astype(images.dtype)
        return images + tensor(noise, device=self.device), labels


class DigitClassifier(DigitRecipe):
    """Recipe whose model returns logits for the ten digits."""

    target = Target("accuracy", 0.975, "test accuracy")

    def batches(self):
        """Return batches of training images with noise. Each epoch contains each image once."""
        options = self.options
        return NoisyBatches(
            options["noise"], self.training, options["batch"], options["seed"], options["device"],
            options["dtype"],
        )  # fmt: skip

    def loss(self, model, batch):
        """Return the cross-entropy loss of the digits in a batch."""
        images, labels = batch  # (batch, 1, 8, 8), (batch,)
        return cross_entropy(
            model(centred(images)), labels, label_smoothing=self.options["smoothing"]
        )

    def evaluate(self, model):
        """Return the loss (without label smoothing) and accuracy on the test images."""
        logits = self.test_logits()  # (image, digit)
        labels = self.test[1]
        top = logits.max(1, keepdims=True)
        log_sum = top[:, 0] + np.log(np.exp(logits - top).sum(1))
        loss = log_sum - logits[np.arange(len(labels)), labels]
        accuracy = (logits.argmax(1) == labels).mean()
        return {"validation_loss": float(loss.mean()), "accuracy": float(accuracy)}

    def test_logits(self):
        """Return the logits for the test images, a float64 array of shape (image, digit)."""
        with no_grad():
            parts = [to_host(self.model(centred(x)).array) for x, _ in self.test_batches()]
        return np.concatenate(parts).astype(np.float64)

    def measure(self, metrics):
        """Return the accuracy on the test images after the last step."""
        self.model.eval()
        return self.evaluate(self.model)

    def show(self, page, measured):
        """Show the accuracy, the confusion matrix and a figure of the mistakes."""
        self.model.eval()
        logits, labels = self.test_logits(), self.test[1]
        answers = logits.argmax(1)
        wrong = np.flatnonzero(answers != labels)
        page.text(
            f"{self.target.show(measured['accuracy'])} of {len(labels)} test images are read "
            f"correctly; {len(wrong)} are not.\n"
        )
        table = np.zeros((10, 10), dtype=int)
        np.add.at(table, (labels, answers), 1)
        rows = [[str(digit), *(str(n) if n else "." for n in table[digit])] for digit in range(10)]
        page.table([("", *map(str, range(10))), *rows])
        page.text("\nRow: the correct digit. Column: the predicted digit.")
        page.draw_loss(f"{type(self).__name__} on handwritten digits", unit="nats per image")
        self._draw_mistakes(page, logits, wrong)
        return True

    def _draw_mistakes(self, page, logits, wrong):
        """Plot 20 to 40 images: the mistakes, then the images with the least certain answers."""
        images, labels = self.test
        answers = logits.argmax(1)
        right = np.sort(logits, 1)
        margin = np.where(answers == labels, right[:, -1] - right[:, -2], -1)
        hard = np.argsort(margin, kind="stable")[: max(_SHOWN, min(len(wrong), 2 * _SHOWN))]
        captions = [
            f"{labels[i]}" if answers[i] == labels[i] else f"{labels[i]}, read {answers[i]}"
            for i in hard
        ]
        pictures = [images[i, 0] for i in hard]
        cuts = range(0, len(hard), 10)
        figure = page.viz.image_rows_figure(
            [pictures[c : c + 10] for c in cuts],
            [""] * len(cuts),
            f"{len(wrong)} mistakes, then the images that were read with the least certainty",
            [captions[c : c + 10] for c in cuts],
        )
        page.save("mistakes.png", figure, "wrong and uncertain predictions")


def centred(images):
    """Map pixels from [0, 1] to [-1, 1]."""
    return 2 * images - 1
