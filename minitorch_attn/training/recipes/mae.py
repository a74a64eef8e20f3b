"""MAE recipe: a masked autoencoder reconstructs hidden parts of handwritten digits."""

import numpy as np

from ...autograd import no_grad
from ...backend import as_dtype, to_host
from ...data.examples import ShuffledBatches
from ...data.inpainting import painting_baselines
from ...models.mae import MaskedAutoencoder
from ...tensor import tensor
from .base import Target
from .digits import DigitRecipe
from .options import Option, common_options

__all__ = ["MAE"]


class NoisyBatches(ShuffledBatches):
    """Image batches with a random number per patch; patches with the largest numbers are masked.

    The images and the numbers of batch n depend only on (seed, n).

    Parameters
    ----------
    patches : int
        Number of patches in an image.
    *arguments
        Arguments of `ShuffledBatches`.
    """

    def __init__(self, patches, *arguments):
        super().__init__(*arguments)
        self.patches = patches

    def __next__(self):
        """Return images (batch, 1, height, width) and random numbers (batch, patch)."""
        generator = np.random.default_rng([self.seed, 1, self.position])
        (images,) = super().__next__()
        noise = generator.random((images.shape[0], self.patches), dtype=np.float32)
        return images, tensor(noise, device=self.device)


class MAE(DigitRecipe):
    """Train a masked autoencoder on handwritten digits.

    Half of the 2 x 2-pixel patches are hidden. An encoder reads the other patches, and a decoder
    reconstructs the image. The recipe `vit` uses the same data with labels. The error on the
    hidden pixels is compared with the errors of the mean image, the nearest training image and
    the best linear prediction.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] He et al. 2021, arXiv:2111.06377v3.
    """

    name = "mae"
    summary = "a masked autoencoder reconstructs the hidden half of handwritten digits"
    headline = "A masked autoencoder learns to paint the hidden parts of digits."
    target = Target(
        "part of the best linear error",
        0.95,
        "hidden-pixel error relative to best linear prediction",
        higher_is_better=False,
    )
    splits = ("data", "tensor")
    OPTIONS = (
        *common_options(steps=3000, lr=3e-3, batch=64, layers=2, dim=64, weight_decay=0.05),
        Option("hidden", 0.5, "Fraction of the patches that are hidden.", "share"),
        Option("patch", 2, "Height and width of a patch in pixels."),
        Option("decoder_dim", 32, "Width of the decoder."),
        Option("decoder_layers", 1, "Number of Transformer blocks in the decoder."),
    )

    def prepare(self):
        """Load and split the digit images; sample random numbers for the test images' patches.

        The numbers decide which patches are hidden. They are the same in every run.
        """
        data = super().prepare()
        count = (8 // self.options["patch"]) ** 2
        noise = np.random.default_rng(0).random((len(self.test[1]), count), dtype=np.float32)
        self.test_noise = noise
        return data

    def build(self):
        """Create the encoder and the decoder. The targets are unnormalized pixels."""
        options = self.options
        return MaskedAutoencoder(
            image_size=8, patch_size=options["patch"], embed_dim=options["dim"],
            num_layers=options["layers"], num_heads=options["heads"], mlp_dim=2 * options["dim"],
            in_channels=1, decoder_dim=options["decoder_dim"],
            decoder_layers=options["decoder_layers"], decoder_heads=options["heads"],
            decoder_mlp_dim=2 * options["decoder_dim"], mask_ratio=options["hidden"],
            normalise_pixels=False, dropout=options["dropout"],
        )  # fmt: skip

    def batches(self):
        """Return batches of training images with a random number for each patch."""
        options = self.options
        return NoisyBatches(
            self.test_noise.shape[1], self.training[:1], options["batch"], options["seed"],
            options["device"], options["dtype"],
        )  # fmt: skip

    def loss(self, model, batch):
        """Return the mean squared error on the hidden pixels."""
        images, noise = batch
        predicted, mask = model(images, noise)
        return model.loss(images, predicted, mask)

    def paint(self):
        """Reconstruct the test images. Return the images and the mask of hidden pixels.

        Returns
        -------
        painted : array of shape (image, 8, 8)
        hidden : bool array of shape (image, 8, 8)
        """
        device, side = self.options["device"], self.options["patch"]
        images = self.test[0].astype(as_dtype(self.options["dtype"]))
        with no_grad():
            painted, mask = self.model.reconstruct(
                tensor(images, device=device), tensor(self.test_noise, device=device)
            )
        grid = to_host(mask.array).reshape(-1, 8 // side, 8 // side)
        return to_host(painted.array)[:, 0], grid.repeat(side, 1).repeat(side, 2)

    def evaluate(self, model):
        """Return the mean squared error on the hidden pixels of all test images."""
        painted, hidden = self.paint()
        return float(((painted - self.test[0][:, 0]) ** 2)[hidden].mean())

    def baselines(self):
        """Return the errors of predictions without a network; see `data.inpainting`."""
        self.model.eval()
        _, hidden = self.paint()
        count = len(hidden)
        training = self.training[0].reshape(-1, 64)
        return painting_baselines(
            training, self.test[0].reshape(count, 64), hidden.reshape(count, 64)
        )

    def measure(self, metrics):
        """Return the error, and its ratio to the errors of predictions without a network."""
        error, others = metrics[-1]["validation_loss"], self.baselines()
        parts = {f"part of the {name} error": error / other for name, other in others.items()}
        return {"error": error, **parts}

    def preface(self, page):
        """Print the baseline errors."""
        page.text("Mean squared errors on hidden pixels (0 white, 1 black) without a network:\n")
        page.table([(f"{error:.4f}", name) for name, error in page.baselines.items()])
        page.text("")
        super().preface(page)

    def show(self, page, measured):
        """Show the error, the baselines and reconstructed images."""
        self.model.eval()
        rows = [*page.baselines.items(), ("this model", measured["error"])]
        top = page.baselines["mean image"]
        page.table([(f"{v:.4f}", name, f"{100 * v / top:.1f} %") for name, v in rows])
        page.text("\nThird column: relative to the error of the mean image.")
        highest = 1.5 * max(top, measured["error"])
        page.draw_loss(
            "Painting hidden pixels", what="mean squared error", unit="", highest=highest
        )
        painted, hidden = self.paint()
        chosen = [int(np.flatnonzero(self.test[1] == digit)[0]) for digit in range(10)]
        originals = self.test[0][chosen, 0]
        figure = page.viz.image_rows_figure(
            [np.where(hidden[chosen], np.nan, originals), painted[chosen].clip(0, 1), originals],
            ["visible patches", "reconstruction", "original"],
            "Test digits with hidden patches",
        )
        page.save("reconstructions.png", figure, "visible patches, reconstructions and originals")
        return True
