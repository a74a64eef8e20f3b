# %% [markdown]
# # ViT: an image is 16 x 16 words
#
# A Transformer reads a sequence of vectors. How does an image become such a sequence, what changes
# in the Transformer itself, and how many parameters and operations does the model need?
#
# *Prerequisites:* multi-head attention (lesson 11), LayerNorm and residuals (lesson 13), tokens
# (lesson 20). Several lectures show this model, for example the decks GRID ("ViT – Vision
# Transformers") and COMP541 ("Idea #4: Standard Transformer on Patches"); `docs/decks.md` lists the
# decks.
#
# The digit images come with scikit-learn: `python -m pip install scikit-learn`.

# %%
import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.nn.summary import Summary  # the numbers `mt.summary` prints

F = mt.nn.functional
mt.manual_seed(0)

# %% [markdown]
# ## Cut the image into patches
#
# We use the example of the ViT paper: a 224 x 224 image with three color channels and patches of
# 16 x 16 pixels. Indexing is enough to cut out the patches. We flatten every patch to one row of
# numbers, ordered by channel, row and column.

# %%
patch = 16
image = mt.rand(3, 224, 224)  # (channel, row, column)
rows = columns = 224 // patch
words = []
for i in range(rows):
    for j in range(columns):
        square = image[:, i * patch : (i + 1) * patch, j * patch : (j + 1) * patch]
        words.append(square.reshape(-1))  # (3 * 16 * 16,)
words = mt.stack(words)  # (patch, pixel)
print(
    f"grid {rows} x {columns} = {len(words)} patches, each 3 x 16 x 16 = {words.shape[1]} numbers"
)
print(f"numbers in the image {image.numel():,}, numbers in the words {words.numel():,}")
assert words.shape == (196, 768)

# %% [markdown]
# No pixel is lost and none appears twice: cutting only changes the order of the pixels. (768 =
# 3 x 16 x 16 is also the width of ViT-Base. That is a coincidence: the projection below may have
# any width.)
#
# Now we cut the image of a digit, 8 x 8 pixels, into patches of 2 x 2 pixels. This gives a sequence
# of 16 words.

# %%
images, labels, test_images, test_labels = mt.data.digits_split()
digit = images[int(np.flatnonzero(labels == 0)[0]), 0]  # (8, 8), from 0 to 1
pieces = [digit[r : r + 2, c : c + 2] for r in range(0, 8, 2) for c in range(0, 8, 2)]
print(f"{len(pieces)} words of {pieces[0].size} numbers")

# %% tags=["plot"]
figure = plt.figure(figsize=(10, 2.1), layout="constrained")
grid = figure.add_gridspec(1, 2, width_ratios=(1, 4.2))
left = figure.add_subplot(grid[0])
left.imshow(digit, cmap="gray_r", vmin=0, vmax=1)
left.set_xticks(np.arange(-0.5, 8, 2), labels=[])
left.set_yticks(np.arange(-0.5, 8, 2), labels=[])
left.grid(color="#D55E00", linewidth=1.5)
left.tick_params(length=0)
for number in range(16):
    place = (2 * (number % 4) + 0.5, 2 * (number // 4) + 0.5)
    left.text(*place, number + 1, color="#D55E00", ha="center", va="center", weight="bold")
left.set_title("image and grid", fontsize=10)
right = figure.add_subfigure(grid[1])
right.suptitle("the same image as a sequence: the Transformer's input", fontsize=10)
for number, (axes, piece) in enumerate(zip(right.subplots(1, 16), pieces, strict=True)):
    axes.imshow(piece, cmap="gray_r", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[], xlabel=str(number + 1))
show(
    figure,
    "Find words 2 and 6: 2 is directly above 6 in the image, but they are four words apart in the "
    "sequence.",
)

# %% [markdown]
# ## Patch embedding: one matrix product, three names
#
# One matrix $E$ projects each word to the model's width $D$: $z_n = E\,x_n + b$. Papers call it a
# *linear projection*. Code often writes it as a *convolution* whose stride equals its kernel size,
# or as `unfold` followed by a `Linear`. All three are the same computation.

# %%
width = 64
kernel = mt.randn(width, 3, patch, patch) * 0.02  # (embed, channel, row, column)
bias = mt.randn(width) * 0.02
batch = image.unsqueeze(0)  # (1, channel, row, column)

by_hand = words @ kernel.reshape(width, -1).transpose(0, 1) + bias  # (patch, embed)

unfolded = F.unfold(batch, patch, stride=patch)  # (1, pixel, patch)
by_linear = F.linear(unfolded.transpose(1, 2), kernel.reshape(width, -1), bias)[0]

map_of_tokens = F.conv2d(batch, kernel, bias, stride=patch)  # (1, embed, row, column)
by_convolution = map_of_tokens.flatten(2).transpose(1, 2)[0]  # (patch, embed)

for name, tokens in (("unfold + linear", by_linear), ("convolution", by_convolution)):
    difference = (tokens - by_hand).abs().max().item()
    print(f"{name:16} {tokens.shape}  largest difference from the loop {difference:.1e}")
    assert difference < 1e-5

# %% [markdown] tags=["your-turn"]
# ## Your turn: embed the patches of a batch without a loop
#
# Write `patch_embed(images, kernel, bias)` with `reshape`, `permute` and one matrix product: no
# loop, no `unfold`, no convolution. `images` has shape (batch, channel, height, width), where
# height and width may differ. `kernel` has shape (embed, channel, p, p) and `bias` (embed,). The
# result has shape (batch, patch, embed), with the patches in reading order.
#
# *Hint:* Split the height into (row of the grid, row in the patch), and the width in the same way.
# You then have six axes. Move them into the order batch, grid row, grid column, channel, row in the
# patch, column in the patch.


# %% tags=["answer"]
def patch_embed(images, kernel, bias):
    """Return the tokens of all patches, shape (batch, patch, embed)."""
    batch, channels, height, width = images.shape
    p = kernel.shape[-1]
    x = images.reshape(batch, channels, height // p, p, width // p, p)
    x = x.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * p * p)  # (batch, patch, pixel)
    return x @ kernel.reshape(len(kernel), -1).transpose(0, 1) + bias


# %% tags=["check"]
check(
    patch_embed,
    cases=[
        (mt.randn(2, 3, 4, 6), mt.randn(5, 3, 2, 2), mt.randn(5)),
        (mt.randn(1, 1, 9, 3), mt.randn(7, 1, 3, 3), mt.zeros(7)),
        (mt.randn(3, 2, 5, 5), mt.randn(2, 2, 5, 5), mt.randn(2)),
    ],
    expected=lambda images, kernel, bias: (
        F.conv2d(images, kernel, bias, stride=kernel.shape[-1]).flatten(2).transpose(1, 2)
    ),
    properties={
        "an image of zeros gives the bias": lambda tokens, images, kernel, bias: np.allclose(
            patch_embed(0 * images, kernel, bias).numpy(), bias.numpy()
        )
    },
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the gradient of the image
#
# How should each pixel change to lower the loss? Every pixel belongs to exactly one patch, so the
# backward pass of the patch embedding is short. Write `image_gradient(grad, kernel, rows, columns)`
# with NumPy arrays. `grad` has shape (patch, embed) and holds $\partial L / \partial z_n$ for a
# single image with a grid of `rows` x `columns` patches; `kernel` is as above. Return the image's
# gradient, of shape (channel, height, width). (Libraries call this a *transposed convolution*.)
#
# *Hint:* The equation $z_n = E\,x_n + b$ implies
# $\partial L / \partial x_n = E^T\, \partial L / \partial z_n$. That gives one row of pixels for
# each patch. Then put each patch back where it was cut out.


# %% tags=["answer"]
def image_gradient(grad, kernel, rows, columns):
    """Return the gradient of the image, shape (channel, height, width)."""
    embed, channels, p, _ = kernel.shape
    words = grad @ kernel.reshape(embed, -1)  # (patch, pixel)
    words = words.reshape(rows, columns, channels, p, p)
    return words.transpose(2, 0, 3, 1, 4).reshape(channels, rows * p, columns * p)


# %% tags=["check"]
check(
    image_gradient,
    cases=[
        (np.random.default_rng(0).normal(size=(6, 5)), mt.randn(5, 3, 2, 2).numpy(), 2, 3),
        (np.random.default_rng(1).normal(size=(3, 2)), mt.randn(2, 1, 7, 7).numpy(), 3, 1),
        (np.ones((1, 3)), mt.randn(3, 2, 5, 5).numpy(), 1, 1),
    ],
    expected=lambda grad, kernel, rows, columns: F.conv_transpose2d(
        mt.tensor(grad.T.reshape(1, -1, rows, columns)),
        mt.tensor(kernel),
        stride=kernel.shape[-1],
    )[0],
    properties={
        "if the tokens' gradient is zero, the image's gradient is zero": (
            lambda result, grad, *rest: (image_gradient(0 * grad, *rest) == 0).all()
        )
    },
)

# %% [markdown]
# ## The rest of ViT is a standard Transformer encoder
#
# The paper describes the model, with pre-norm blocks, in four equations (arXiv:2010.11929, Eqs. 1
# to 4):
#
# $$z_0 = [x_{class};\ x_1 E;\ \dots;\ x_N E] + E_{pos}$$
# $$z'_l = MSA(LN(z_{l-1})) + z_{l-1}, \qquad z_l = MLP(LN(z'_l)) + z'_l, \qquad y = LN(z_L)^0$$
#
# Here $x_{class}$ is a learned vector, the **class token**. $MSA$ is multi-head self-attention,
# $LN$ is LayerNorm, and $MLP$ is the feed-forward network. The superscript 0 selects token 0, the
# class token. The next cell evaluates these equations step by step, with the parameters of a small
# ViT.

# %%
model = mt.models.VisionTransformer(
    image_size=8, patch_size=2, num_classes=10, embed_dim=32, num_layers=2, num_heads=4,
    mlp_dim=64, in_channels=1,
)  # fmt: skip
mt.nn.init.normal_(model.head.weight, std=0.1)  # its default is zero, which would hide mistakes


def norm(x, layer):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + 1e-6).sqrt() * layer.weight + layer.bias


def self_attention(x, layer, heads=4):
    n, width = x.shape  # (token, embed)
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    query, key, value = (p(x).reshape(n, heads, -1).transpose(0, 1) for p in projections)
    # each (heads, token, head_dim)
    scores = query @ key.transpose(1, 2) / (width / heads) ** 0.5  # (heads, token, token)
    return layer.out_proj((mt.softmax(scores, -1) @ value).transpose(0, 1).reshape(n, width))


def vit(image, model):
    projection = model.patch_embedding.projection
    words = F.unfold(image.unsqueeze(0), 2, stride=2)[0].transpose(0, 1)  # (16, 4)
    x = words @ projection.weight.reshape(32, -1).transpose(0, 1) + projection.bias  # (16, 32)
    x = mt.cat([model.class_token[0], x]) + model.positions.weight  # (17, 32), Eq. 1
    for block in model.blocks:
        x = x + self_attention(norm(x, block.norm1), block.attention)  # Eq. 2
        x = x + block.feed_forward(norm(x, block.norm2))  # Eq. 3
    return model.head(norm(x, model.norm)[0])  # Eq. 4: only token 0 is used


example = mt.tensor(digit).unsqueeze(0)  # (channel, row, column)
mine, library = vit(example, model), model(example.unsqueeze(0))[0]
print("logits by these steps     ", mine[:4].detach().numpy().round(4), "...")
print("logits of the library     ", library[:4].detach().numpy().round(4), "...")
assert (mine - library).abs().max().item() < 1e-5

# %% [markdown]
# Nothing in `self_attention` or in a block depends on rows, columns or pixels. Only two steps are
# specific to images: cutting them into words, and adding a position to each word.
#
# ## Training on digits
#
# The next cell trains this small model on images of digits, 8 x 8 pixels each.

# %%
steps = pick(300, 200)
rate = 4e-3
optimizer = mt.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
generator = np.random.default_rng(0)
for step in range(steps):
    warm_up, cosine = min(1, (step + 1) / 30), 0.5 * (1 + np.cos(np.pi * step / steps))
    optimizer.param_groups[0]["lr"] = rate * warm_up * cosine
    chosen = generator.integers(0, len(labels), 64)
    logits = model(2 * mt.tensor(images[chosen]) - 1)
    loss = F.cross_entropy(logits, mt.tensor(labels[chosen]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with mt.no_grad():
    answers = model(2 * mt.tensor(test_images) - 1).argmax(1).numpy()
accuracy = (answers == test_labels).mean()
parameters = sum(p.numel() for p in model.parameters())
print(f"{steps} steps of 64 digits, {parameters:,} parameters")
print(f"test digits read correctly: {100 * accuracy:.1f} % (guessing: 10 %)")
assert accuracy > 0.8

# %% [markdown]
# ## Parameter counts and FLOPs of the published ViT sizes
#
# A layer of width $D$ with a feed-forward width of $4D$ and $N$ tokens needs:
#
# * parameters: $4D^2$ for query, key, value and output, $8D^2$ for the feed-forward part, and $13D$
#   for biases and norms;
# * multiply-adds: $12ND^2$ for the products with these matrices, and $2N^2D$ for the scores and the
#   weighted sum.
#
# One multiply-add is *two* floating-point operations. Papers that report 17.6 G for ViT-B/16 count
# it as one operation; tables that report 35.1 G count it as two.

# %% [markdown] tags=["your-turn"]
# ## Your turn: the parameters of a block of any shape
#
# Some models use a feed-forward width other than $4D$. Write `block_parameters(width, hidden)`: the
# number of parameters of one block of width $D$ whose feed-forward part has `hidden` units. All
# linear layers have biases, and the block has two LayerNorms. The result is compared with the sum
# of `p.numel()` over the library's block.
#
# *Hint:* Go through the block in order and write down how many numbers each layer's weight and bias
# have: first norm, four projections, second norm, two linear layers. For `hidden` $= 4D$ the sum
# must be $12D^2 + 13D$.


# %% tags=["answer"]
def block_parameters(width, hidden):
    """Return the number of parameters of a ViT block with `hidden` feed-forward units."""
    norms = 2 * 2 * width  # a weight and a bias each
    attention = 4 * (width * width + width)
    feed_forward = (width * hidden + hidden) + (hidden * width + width)
    return norms + attention + feed_forward


# %% tags=["check"]
check(
    block_parameters,
    cases=[(7, 28), (11, 13), (3, 1), (64, 256)],
    expected=lambda width, hidden: sum(
        p.numel() for p in mt.models.vit.Block(width, 1, hidden).parameters()
    ),
    properties={
        "one more hidden unit costs 2 D + 1 parameters": lambda count, width, hidden: (
            block_parameters(width, hidden + 1) - count == 2 * width + 1
        )
    },
)

# %%
SIZES = {  # name: (D, layers, patch)
    "Ti/16": (192, 12, 16), "S/16": (384, 12, 16), "B/32": (768, 12, 32), "B/16": (768, 12, 16),
    "L/16": (1024, 24, 16), "H/14": (1280, 32, 14),
}  # fmt: skip


def count(width, layers, patch, size=224):
    words = (size // patch) ** 2
    tokens = words + 1  # the class token
    pixels = 3 * patch**2
    parameters = layers * (12 * width**2 + 13 * width)
    parameters += (pixels + 1) * width + width + tokens * width + 2 * width  # E, class, E_pos, norm
    matrices, scores = layers * 12 * tokens * width**2, layers * 2 * tokens**2 * width
    return parameters, 2 * (matrices + scores + words * pixels * width), 2 * scores


print("        width layers tokens  parameters  GFLOPs  library: parameters  GFLOPs")
for name, (width, layers, patch) in SIZES.items():
    parameters, flops, _ = count(width, layers, patch)
    with mt.nn.init.skip_init():  # sizes only: values are left undefined
        full = mt.models.vit_sizes.vision_transformer(name, num_classes=0)
        found = Summary(full, (1, 3, 224, 224))  # a dry run
    tokens = (224 // patch) ** 2 + 1
    print(
        f"{name:7} {width:5} {layers:6} {tokens:6} {parameters:11,} {flops / 1e9:7.1f}"
        f" {found.parameters:20,} {found.flops / 1e9:7.1f}"
    )
    assert parameters == found.parameters and flops == found.flops
print(f"B/16 in multiply-adds: {count(768, 12, 16)[1] / 2e9:.1f} G")

# %% [markdown]
# Our counts and the library's, both without the classification head, agree exactly. Compare with
# the tables of the lectures. In the TAPASWI deck ("ViT sizes") B/16 has the same 86 M and 35.1
# GFLOPs. B/32 has *more* parameters than B/16, because its $E$ is larger. But its cost is only
# about a quarter, because it has a quarter of the tokens. For ViT-Large, TAPASWI gives 303 M and
# the GRID deck ("ViT – in Numbers") 307 M:

# %%
with mt.nn.init.skip_init():
    large = mt.models.vit_l_32()
millions = sum(p.numel() for p in large.parameters()) / 1e6
print(f"ViT-L/16 without a head {count(1024, 24, 16)[0] / 1e6:.1f} M")
print(f"ViT-L/32 with 1000 classes {millions:.1f} M")
assert round(millions) == 307 and round(count(1024, 24, 16)[0] / 1e6) == 303

# %% [markdown]
# A parameter count means little unless you also know the patch size, and whether the classification
# head is counted.
#
# ## At what image size does the quadratic cost of attention dominate?
#
# "Attention is quadratic" is true only for the term $2N^2D$, the scores and the weighted sum. The
# other term, $12ND^2$, grows linearly with the number of tokens.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# For a 224 x 224 image, ViT-B/16 has 197 tokens, and each of its 144 heads computes 197 x 197
# scores. What share of the model's operations belongs to the quadratic term: about 5 %, 25 % or
# 50 %? And for which of the image sides 384, 512, 1024 and 2048 does this share first exceed one
# half? Write down both, then run the next cell.

# %%
sides = (224, 384, 512, 1024, 2048)
shares, totals = [], []
for side in sides:
    _, flops, scores = count(768, 12, 16, side)
    shares.append(scores / flops)
    totals.append(flops / 1e9)
    tokens = (side // 16) ** 2 + 1
    print(f"B/16 at {side:4} px: {tokens:6,} tokens {flops / 1e9:9.1f} GFLOPs", end="")
    print(f"   share of the scores {100 * shares[-1]:4.1f} %")
assert shares[0] < 0.05 and shares[-1] > 0.5
growth = totals[1] / totals[0]
print(f"224 -> 384 px: {(384 / 224) ** 2:.2f} times the pixels, {growth:.2f} times the operations")

# %% [markdown]
# At 224 px, less than 5 % of the operations depend on the square of the number of tokens. The two
# terms, $12ND^2$ and $2N^2D$, are equal only at $N = 6D$. For ViT-B that is 4,608 tokens, or an
# image of about 1,086 pixels on each side. Up to 512 px, ViT-B spends most of its operations on
# products with weight matrices, and its cost is nearly proportional to the number of pixels.

# %% tags=["plot"]
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
places = np.arange(len(sides))
rest = [100 * (1 - share) for share in shares]
axes.barh(places, rest, color="#56B4E9", label="matrices (grow with N)")
of_scores = [100 * share for share in shares]
axes.barh(places, of_scores, left=rest, color="#D55E00", hatch="//", label="scores (grow with N²)")
axes.set_yticks(places, [f"{side} px" for side in sides])
axes.invert_yaxis()
axes.set(xlabel="share of the operations of ViT-B/16, %", xlim=(0, 100))
axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
axes.spines[["top", "right"]].set_visible(False)
show(
    figure,
    "The orange part, the quadratic cost, is hardly visible at 224 px and reaches half only a "
    "little above 1024 px.",
)

# %% [markdown]
# ## What goes wrong when patches are cut with a single reshape
#
# The patches have the shape 196 x 768, so it is tempting to reshape the image to that shape. The
# result has the correct shape, and the rest of the code runs.

# %%
reshaped = image.reshape(196, 768)
print("shape of the patches       ", words.shape)
print("shape of the reshaped image", reshaped.shape)
place = mt.arange(3 * 224 * 224).reshape(3, 224, 224)  # each pixel's own number


def extent(numbers):
    channel, rest = np.divmod(numbers, 224 * 224)
    row, column = np.divmod(rest, 224)
    spans = [f"{values.min()} to {values.max()}" for values in (channel, row, column)]
    return "channels {}, rows {}, columns {}".format(*spans)


print("word 1 as patch:", extent(place[:, :16, :16].numpy().ravel()))
print("word 1 reshaped:", extent(place.reshape(196, 768)[0].numpy()))

# %% [markdown]
# After the reshape, word 1 is a strip of a little more than three rows, from the red channel only.
# You can also find the mistake without looking at pixels: move the image by one patch to the right.
# Every word must move by one position in its row of the grid, and its contents must not change.


# %%
def moved_words(cut):
    before = cut(image).reshape(14, 14, 768)
    after = cut(mt.roll(image, 16, 2)).reshape(14, 14, 768)
    return (after[:, 1:] - before[:, :-1]).abs().max().item()


def cut(image):
    return F.unfold(image.unsqueeze(0), 16, stride=16)[0].transpose(0, 1)


right_way, wrong_way = moved_words(cut), moved_words(lambda image: image.reshape(196, 768))
print("largest change in a word when the image moves by one patch:")
print(f"  patches {right_way:.3f}, reshaped {wrong_way:.3f}")
assert right_way == 0
assert wrong_way > 0.5  # the reshaped words are different words

# %% [markdown]
# A network trained on such strips still learns something, which is why this mistake can go
# unnoticed. But weights trained on patches produce meaningless results on strips.

# %%
strips = 2 * mt.tensor(test_images).reshape(-1, 16, 4) - 1  # 4 pixels of one row each
as_kernel = model.patch_embedding.projection
with mt.no_grad():
    x = strips @ as_kernel.weight.reshape(32, -1).transpose(0, 1) + as_kernel.bias
    x = model.positions(model.with_prefix(x))
    wrong = model.head(model.pool(model.encode(x))).argmax(1).numpy()
wrong_accuracy = (wrong == test_labels).mean()
print("test digits read correctly by the trained model:")
print(f"  from patches of 2 x 2 {100 * accuracy:5.1f} %")
print(f"  from strips of 1 x 4  {100 * wrong_accuracy:5.1f} %")
assert wrong_accuracy < accuracy - 0.3

# %% [markdown]
# ## In the library

# %%
where(
    mt.models.vit.PatchEmbedding, mt.models.vit.Block.forward, mt.models.VisionTransformer.embed,
    mt.models.vit_sizes.vision_transformer, mt.summary,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Write `overlapping(image, patch, stride)`. It uses two loops to cut patches with a stride smaller
# than the patch, and projects them with `kernel`. You are done when its result agrees with
# `F.conv2d(batch, kernel, bias, stride=stride)` to within `1e-5`, for example with stride 8. How
# many words (patches) does a 224 x 224 image have at stride 8, and how many GFLOPs does ViT-B need
# for them and the class token? (Change `words` in `count`; at stride 16 it must still return the
# numbers in the table above.)
#
# ## Three questions
#
# 1. A ViT with patches of 32 x 32 pixels has more parameters than the same model with patches of
#    16 x 16. Why, and why is it cheaper anyway?
# 2. A colleague wants to speed up ViT-B/16 at 224 px. Suppose that computing the scores and the
#    weighted sums took no time at all. How much would that save at most? At which image size would
#    it be worth trying?
# 3. `image.reshape(196, 768)` has the correct shape. Name two printed results that show that it is
#    wrong.

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The matrix $E$ has $3p^2$ inputs, four times as many for $p = 32$: the table shows 87 instead
#    of 86 million parameters. But there are only 50 tokens instead of 197, and the operations are
#    nearly proportional to the number of tokens: 8.8 instead of 35.1 GFLOPs.
# 2. It would save at most the operations of the scores and the weighted sums, which are less than
#    5 % of the total at 224 px. At 2048 px they are more than half of all operations, so it would
#    be worth trying there.
# 3. First, after this reshape, word 1 covers rows 0 to 3 and all columns of one channel, instead of
#    16 x 16 pixels in three channels. Second, when the image moves by one patch, the contents of
#    the reshaped words change, while correct patches only move in the grid. The trained model also
#    reads fewer digits correctly when its words are strips.
