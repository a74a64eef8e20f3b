# %% [markdown]
# # MAE: hide three quarters of an image and reconstruct them
#
# A masked autoencoder learns from images without labels: it sees a quarter of the patches and
# predicts the rest. How are patches hidden and put back in order, why does the loss include only
# hidden patches, and is the reconstruction better than simple baselines?
#
# *Prerequisites:* BERT (lesson 18), ViT (lesson 21). The FLOW deck ("SELF-SUPERVISION. MASKED
# AUTOENCODER") introduces MAE; `docs/decks.md` lists the decks.
#
# The digit images come with scikit-learn: `python -m pip install scikit-learn`.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.inpainting import painting_baselines
from minitorch_attn.models.mae import MaskedAutoencoder, patchify, random_masking

digits, _, test_digits, test_labels = mt.data.digits_split()
print(f"{len(digits)} digits of 8 x 8 pixels to learn from, {len(test_digits)} to test")

# %% [markdown]
# ## Hide random patches, and undo the shuffle
#
# Give each patch a random number, sort the patches by these numbers, and keep the first quarter.
# `order` says which patch comes first, second, ... after the shuffle. `restore`, the argsort of
# `order`, says where each patch went, so it undoes the shuffle. Here is an example with 6 patches,
# 2 of which are kept:

# %%
noise = np.array([0.7, 0.1, 0.9, 0.3, 0.8, 0.5])
order = noise.argsort()
restore = order.argsort()
names = np.array(list("ABCDEF"))
shuffled = names[order]
print("patch          ", *names)
print("random number  ", *noise)
print("shuffled       ", *shuffled, "  kept:", *shuffled[:2])
print("restore        ", *restore)
filled = np.append(shuffled[:2], ["-"] * 4)  # kept patches, then one mask token per gap
print("kept, then gaps", *filled)
print("back in order  ", *filled[restore])
assert (shuffled[restore] == names).all()
assert "".join(filled[restore]) == "-B-D--"
kept, where_to, hidden = random_masking(mt.tensor(noise).unsqueeze(0), 2)
assert (kept.numpy()[0] == order[:2]).all() and (where_to.numpy()[0] == restore).all()

# %% [markdown] tags=["your-turn"]
# ## Your turn: undo a shuffle without sorting again
#
# `order.argsort()` sorts a second time, although `order` already contains all the information: the
# patch that is now at place $p$ came from place `order[p]`. Write `inverse(order)` with NumPy and
# without sorting, for one shuffle per image: `order` has shape (image, patch), and each row is a
# permutation. Return `restore` of the same shape.
#
# *Hint:* In each row, `restore[order[p]]` must be `p`. This is an assignment: which array is
# indexed, and which values does it get? To index each row separately, use a column of image
# numbers, of shape (image, 1), as the first index.


# %% tags=["answer"]
def inverse(order):
    """Return the inverse of the permutation in each row, shape (image, patch)."""
    images, patches = order.shape
    restore = np.empty_like(order)
    restore[np.arange(images)[:, None], order] = np.arange(patches)
    return restore


# %% tags=["check"]
check(
    inverse,
    cases=[
        np.array([[2, 0, 1], [1, 2, 0]]), np.array([[3, 1, 0, 4, 2]]), np.array([[0], [0]]),
        np.random.default_rng(0).random((3, 16)).argsort(1),
    ],
    expected=lambda order: order.argsort(1),
    properties={
        "shuffling, then restoring, changes nothing": lambda restore, order: (
            np.take_along_axis(order, restore, 1) == np.arange(order.shape[1])
        ).all()
    },
)  # fmt: skip

# %% [markdown] tags=["your-turn"]
# ## Your turn: fill the gaps
#
# The decoder needs all patches in their original order. Write
# `fill_gaps(visible, mask_token, restore)` with tensors. `visible` has shape (batch, seen, dim) and
# holds the first patches after the shuffle. `mask_token` has shape (dim,) and takes the place of
# each hidden patch. `restore` has shape (batch, patch). Return the patches in order, with shape
# (batch, patch, dim).
#
# *Hint:* Do the same as in the example with letters, but for a batch of vectors: append one mask
# token per gap, then index each image's patches with its row of `restore`.


# %% tags=["answer"]
def fill_gaps(visible, mask_token, restore):
    """Return all patches in order, shape (batch, patch, dim)."""
    batch, seen, dim = visible.shape
    gaps = mask_token.expand(batch, restore.shape[1] - seen, dim)
    shuffled = mt.cat([visible, gaps], 1)  # (batch, patch, dim)
    return shuffled[mt.arange(batch).unsqueeze(1), restore]


# %% tags=["check"]
check(
    fill_gaps,
    cases=[
        (mt.randn(2, 2, 3), mt.randn(3), mt.tensor([[2, 0, 1, 4, 3], [1, 4, 2, 3, 0]])),
        (mt.randn(1, 1, 5), mt.randn(5), mt.tensor([[1, 2, 0]])),
        (mt.randn(3, 2, 2), mt.randn(2), mt.tensor([[1, 0]] * 3)),
    ],
    expected=lambda visible, mask_token, restore: mt.stack([
        mt.stack([visible[i, r] if r < visible.shape[1] else mask_token for r in row])
        for i, row in enumerate(restore.tolist())
    ]),
    properties={
        "each image has one mask token per gap": lambda y, visible, mask_token, restore: (
            (y.numpy() == mask_token.numpy()).all(2).sum(1) == restore.shape[1] - visible.shape[1]
        ).all()
    },
)  # fmt: skip

# %% [markdown]
# ## The model
#
# A digit has 4 x 4 patches of 2 x 2 pixels, and 12 of 16 are hidden. The encoder is a ViT that gets
# only the class token and the 4 visible patches. It does not process any token for a hidden patch,
# which is why MAE is cheap. The decoder is small and gets all 16 positions, with one learned *mask
# token* in each gap.


# %%
def new_model(seed=0):
    mt.manual_seed(seed)
    return MaskedAutoencoder(
        image_size=8, patch_size=2, embed_dim=48, num_layers=2, num_heads=4, mlp_dim=96,
        in_channels=1, decoder_dim=32, decoder_layers=1, decoder_heads=4, decoder_mlp_dim=64,
        mask_ratio=0.75, normalise_pixels=False,
    )  # fmt: skip


def scaled(pixels):
    """Map pixels from [0, 1] to [-1, 3], so that strokes have large values."""
    return mt.tensor(4 * pixels - 1)


def forward(model, images, noise):
    """Run the forward pass step by step. Return the predictions and the mask of hidden patches."""
    batch = len(images)
    rows = mt.arange(batch).unsqueeze(1)
    encoder, decoder = model.encoder, model.decoder
    tokens = encoder.patch_embedding(images)  # (batch, 16, 48)
    table = encoder.positions.weight  # (1 + 16, 48): the class token first
    tokens = tokens + table[1:]  # before hiding: a patch must keep its position
    order = noise.argsort(dim=1)
    restore = order.argsort(dim=1)
    visible = tokens[rows, order[:, :4]]  # (batch, 4, 48)
    first = (encoder.class_token + table[:1]).expand(batch, 1, 48)
    encoded = encoder.encode(mt.cat([first, visible], 1))  # (batch, 5, 48)

    encoded = decoder.embedding(encoded)  # (batch, 5, 32)
    gaps = decoder.mask_token.expand(batch, 12, 32)
    patches = mt.cat([encoded[:, 1:], gaps], 1)[rows, restore]  # (batch, 16, 32), in order
    everything = mt.cat([encoded[:, :1], patches], 1) + decoder.positions.weight
    return decoder.decode(everything), restore >= 4  # (batch, 16, 4), (batch, 16)


model = new_model()
images, noise = scaled(test_digits[:5]), mt.rand(5, 16)
mine, hidden = forward(model, images, noise)
library, same_hidden = model(images, noise)
print(f"steps and library differ by {(mine - library).abs().max().item():.1e}")
print(f"hidden patches of each image: {hidden.sum(1).numpy()} of 16")
assert (mine - library).abs().max().item() < 1e-5 and (hidden == same_hidden).all()

# %% [markdown]
# How much does it save to encode only the visible patches? The encoder needs $12ND^2 + 2N^2D$
# multiply-adds per block (lesson 21). ViT-B has 196 patches. If only 49 of them are visible, the
# encoder gets 50 tokens, including the class token, instead of 197:


# %%
def work(tokens, width=768):
    return 12 * tokens * width**2 + 2 * tokens**2 * width


print(f"50 tokens in place of 197: {100 * work(50) / work(197):.0f} % of the encoder's operations")
assert work(50) / work(197) < 0.26

# %% [markdown]
# ## Baselines
#
# An error means little without a comparison. Here are two ways to predict the same hidden pixels
# without a network:
#
# * the **mean** of the training images at each hidden pixel;
# * the **best linear** prediction from the visible pixels: the conditional mean of a Gaussian
#   distribution with the mean and covariance of the training images. It is computed separately
#   for each test image, because each has different hidden pixels.

# %%
test_noise = mt.tensor(np.random.default_rng(5).random((len(test_digits), 16), dtype="float32"))
_, test_hidden = forward(model, scaled(test_digits), test_noise)


def as_pixels(patch_mask):
    """Repeat each patch's entry for all its pixels: (image, 16) -> (image, 8, 8)."""
    return patch_mask.numpy().reshape(-1, 4, 4).repeat(2, 1).repeat(2, 2)


guesses = painting_baselines(
    digits.reshape(-1, 64), test_digits.reshape(-1, 64), as_pixels(test_hidden).reshape(-1, 64)
)
print("mean squared error of hidden pixels (0 is white, 1 black):")
for name in ("mean image", "best linear"):
    print(f"  {name:12} {guesses[name]:.4f}")

# %% [markdown]
# ## Training
#
# The loss is the squared error of the *hidden* patches alone.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the loss of the paper
#
# On photographs, MAE learns better features if each patch's target is normalized: subtract the mean
# of the patch's pixels and divide by their standard deviation (arXiv:2111.06377v3, section 3,
# "Reconstruction target").
#
# Write `hidden_loss(predicted, patches, hidden)`. Return the mean squared error between the
# prediction and the normalized patches over all pixels of all *hidden* patches. `predicted` and
# `patches` have shape (batch, patch, pixel), and `hidden` is a bool tensor of shape (batch, patch).
# Use `patches.var(-1, keepdim=True)` and add 1e-6 to it before you take the square root.
#
# *Hint:* Compute the error of every patch first, with shape (batch, patch). Then take the mean over
# the hidden ones: by which number do you divide?


# %% tags=["answer"]
def hidden_loss(predicted, patches, hidden):
    """Return the mean squared error of the hidden patches' normalized pixels, a scalar."""
    deviation = (patches.var(-1, keepdim=True) + 1e-6).sqrt()  # (batch, patch, 1)
    target = (patches - patches.mean(-1, keepdim=True)) / deviation
    error = ((predicted - target) ** 2).mean(-1)  # (batch, patch)
    return error[hidden].mean()


# %% tags=["check"]
check(
    hidden_loss,
    cases=[
        (mt.randn(2, 5, 3), mt.randn(2, 5, 3), mt.tensor([[1, 0, 1, 1, 0], [0, 0, 1, 0, 0]]) > 0),
        (mt.randn(1, 3, 7), mt.randn(1, 3, 7), mt.tensor([[False, True, False]])),
        (mt.randn(1, 2, 4), 100 + 5 * mt.randn(1, 2, 4), mt.tensor([[True, True]])),
    ],
    expected=lambda predicted, patches, hidden: sum(
        ((predicted[i, j] - (x - x.mean()) / (x.var() + 1e-6).sqrt()) ** 2).mean()
        for i, j in zip(*hidden.numpy().nonzero(), strict=True)
        for x in [patches[i, j]]
    ) / hidden.sum().item(),
    properties={
        "what is predicted for visible patches does not matter": (
            lambda loss, predicted, patches, hidden: np.isclose(
                hidden_loss(predicted + 9 * ~hidden.unsqueeze(-1), patches, hidden).item(),
                loss.item(),
            )
        )
    },
)  # fmt: skip

# %% [markdown]
# Here the targets are the pixels themselves, because we compare errors in pixels. Later we also
# train with a loss on the visible patches, so the argument `counted` of `train` selects which
# patches the loss includes.


# %%
def patch_errors(model, pixels, noise):
    """Return the squared error of each patch (pixels from 0 to 1), and a mask of hidden patches."""
    predicted, hidden = forward(model, scaled(pixels), noise)
    return ((predicted - patchify(scaled(pixels), 2)) ** 2).mean(-1) / 16, hidden


def errors_of(model):
    """Return the mean squared errors of hidden and of visible patches in the test digits."""
    with mt.no_grad():
        error, hidden = patch_errors(model, test_digits, test_noise)
    error, hidden = error.numpy(), hidden.numpy()
    return error[hidden].mean(), error[~hidden].mean()


def train(counted, steps, rate=5e-3):
    model, generator = new_model(), np.random.default_rng(0)
    optimizer = mt.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95))
    for step in range(steps):
        warm_up, cosine = min(1, (step + 1) / 50), 0.5 * (1 + np.cos(np.pi * step / steps))
        optimizer.param_groups[0]["lr"] = rate * warm_up * cosine
        chosen = digits[generator.integers(0, len(digits), 64)]
        noise = mt.tensor(generator.random((64, 16), dtype="float32"))
        error, hidden = patch_errors(model, chosen, noise)
        counts = (hidden if counted == "hidden" else ~hidden).to(dtype=error.dtype)
        loss = (error * counts).sum() / counts.sum()
        optimizer.zero_grad()
        (16 * loss).backward()
        optimizer.step()
    return model


steps = pick(1800, 500)
model = train("hidden", steps)
error, _ = errors_of(model)
print(f"{steps} steps of 64 images; error of hidden pixels, and relative to the mean image:")
found = {**guesses, "masked autoencoder": error}
for name in ("mean image", "masked autoencoder", "best linear"):
    print(f"  {name:20} {found[name]:.4f} {100 * found[name] / guesses['mean image']:6.1f} %")
assert error < 0.98 * guesses["mean image"]

# %% [markdown]
# The model beats the mean image, so it has learned to use the visible patches. The best linear
# prediction is a harder baseline: it is computed exactly for each image, and on images as small as
# these it is difficult to beat. How close the model comes depends on the number of steps: compare
# the two printed errors. The reconstructed pictures alone do not show which of the two predictions
# is better.


# %%
def reconstructed(model, images):
    """Return the model's predictions as images, and a mask of hidden pixels."""
    with mt.no_grad():
        predicted, hidden = forward(model, scaled(images), test_noise[: len(images)])
    pixels = (predicted.numpy() + 1) / 4  # (image, 16, 4)
    pixels = pixels.reshape(-1, 4, 4, 2, 2).swapaxes(2, 3).reshape(-1, 8, 8)
    return pixels.clip(0, 1), as_pixels(hidden)


count = 10
originals = test_digits[:count, 0]
paint, gaps = reconstructed(model, test_digits[:count])

# %% tags=["plot"]
show(
    mt.viz.image_rows_figure(
        [np.where(gaps, np.nan, originals), np.where(gaps, paint, originals), originals],
        ["input", "reconstruction", "original"],
        "Test digits, three quarters hidden",
    ),  # fmt: skip
    "Cover the lower row and try to read the digits from the upper row, then from the middle row. "
    "The strokes that the model adds are blurred, but mostly in the right place.",
)

# %% [markdown]
# ## What goes wrong with the loss on visible patches, and with patches left in shuffled order
#
# **The loss on the visible patches.** An autoencoder reproduces its input, so it is tempting to
# compute the loss on the visible patches only.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# We train the same model with the loss on visible patches. How large are its errors on the visible
# and on the hidden patches? Will its error on the hidden patches be smaller than, about the same as
# or larger than that of the mean image, which needs no training at all? Write down your answers,
# then run the next cell.

# %%
copyist = train("visible", pick(400, 150))
of_hidden, of_visible = errors_of(copyist)
print("mean squared error             visible patches   hidden patches")
print(f"  loss on visible patches {of_visible:15.5f} {of_hidden:16.4f}")
print(f"  loss on hidden patches  {errors_of(model)[1]:15.5f} {error:16.4f}")
print(f"  the mean image                          {guesses['mean image']:16.4f}")
assert of_visible < 0.005  # its own loss is tiny
assert of_hidden > 2 * guesses["mean image"]  # but it has learned nothing about images

# %% [markdown]
# Training looks very successful: the error on visible patches is tiny. But on hidden patches the
# model is several times worse than the mean image. Copying visible patches does not require
# knowledge of images, and this loss never included the decoder's output for a mask token.

# %%
copied, _ = reconstructed(copyist, test_digits[:count])

# %% tags=["plot"]
show(
    mt.viz.image_rows_figure(
        [np.where(gaps, np.nan, originals), paint, copied],
        ["input", "loss: hidden", "loss: visible"],
        "All patches as predicted",
    ),  # fmt: skip
    "Compare the pictures of the lower row: except for the copied patches, every image gets the "
    "same pattern.",
)

# %% [markdown]
# (In the middle row of the figure, the model was trained on hidden patches, so its predictions for
# the visible patches are wrong. This does no harm, because the visible patches are known.)
#
# **The wrong order.** Without `[rows, restore]`, the visible patches are put at the first four
# positions, wherever they came from. All shapes stay the same.


# %%
def without_restore(model, images, noise):
    order = noise.argsort(dim=1)
    predicted, hidden = forward(model, images, noise)
    return predicted[mt.arange(len(images)).unsqueeze(1), order], hidden  # in shuffled order


with mt.no_grad():
    mixed, hidden = without_restore(model, scaled(test_digits), test_noise)
    target = patchify(scaled(test_digits), 2)
mixed_error = (((mixed - target) ** 2).mean(-1) / 16).numpy()[hidden.numpy()].mean()
print(f"error of hidden patches: in order {error:.4f}, as shuffled {mixed_error:.4f}")
assert mixed_error > 1.3 * guesses["mean image"]

# %% [markdown]
# ## In the library

# %%
from minitorch_attn.models.mae import Decoder

where(
    random_masking, patchify, MaskedAutoencoder.hide, Decoder.fill, MaskedAutoencoder.loss,
    painting_baselines,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Hide a quarter, a half and three quarters of the patches: set `mask_ratio` in `new_model`, and
# change the numbers 4 and 12 in `forward` to match. For each ratio, compare the model with the mean
# image and the best linear prediction for the same hidden pixels. You are done when you have a
# table of three rows and can say at which ratio a hidden patch's visible neighbors reveal most
# about it.
#
# ## Three questions
#
# 1. Four patches get the random numbers 0.4, 0.2, 0.6 and 0.1, and two patches are kept. Which
#    patches are visible, and what is `restore`?
# 2. A run reports a reconstruction loss far below all others. Which second number would you ask for
#    before you believe it?
# 3. Why are positions added before patches are hidden?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The order is 3, 1, 0, 2 (counted from 0), so patches 3 and 1 are visible, and `restore` is 2,
#    1, 3, 0: patch 0 is now at position 2, and so on, as in the table with letters.
# 2. Ask for the error on *hidden* patches, and compare it with the mean image's error. The copying
#    model above has a tiny error on the visible patches, but its error on the hidden ones is much
#    larger than the mean image's.
# 3. The encoder gets a set of 4 patches. If their positions were not added before hiding, the model
#    could not tell where a visible patch belongs. See the comment in `forward`.
