# %% [markdown]
# # Positions: sinusoidal, learned, relative, rotary
#
# Attention computes a weighted sum of the values, and a sum does not depend on the order of its
# terms. How does a Transformer know that "dog bites man" is not "man bites dog"?
#
# *Prerequisites:* the gradient of a table lookup (lesson 3), queries, keys and values (lesson 8),
# multiple heads (lesson 11).

# %%
import math

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.errors import IndexRangeError
from minitorch_attn.viz.style import COLOURS, new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Without positions, attention treats tokens as a set
#
# If you permute the tokens, the outputs are the same vectors in the permuted order. This is
# permutation equivariance: $f(Px) = P f(x)$ for the layer $f$ and every permutation $P$. The output
# for a word contains no information about the word's position.

# %%
words = "dog bites man".split()
order = mt.tensor([2, 1, 0])  # man bites dog
x = mt.randn(1, 3, 16)  # (batch, token, features): one vector for each word
attention = mt.nn.Attention(16, 4)
with mt.no_grad():
    output, permuted = attention(x), attention(x[:, order])
difference = (permuted - output[:, order]).abs().max().item()
print("output of dog as the 1st word:", output[0, 0, :4].numpy())
print("output of dog as the 3rd word:", permuted[0, 2, :4].numpy())
print(f"largest difference between f(Px) and P f(x): {difference:.1e}")
assert difference < 1e-6

with mt.no_grad():
    output, permuted = attention(x, is_causal=True), attention(x[:, order], is_causal=True)
broken = (permuted - output[:, order]).abs().max().item()
print(f"the same with a causal mask: {broken:.1e}")
assert broken > 1e-3  # the mask itself contains information about the order

# %% [markdown]
# The last printed line matters: a decoder without positions still has some information about the
# order, since token $t$ sees exactly $t + 1$ tokens. An encoder without positions has none.
#
# ## Sinusoidal: a shift is a rotation
#
# The original Transformer adds this table to the token vectors:
#
# $$PE_{p,2i} = \sin(p f_i), \quad PE_{p,2i+1} = \cos(p f_i), \quad f_i = 10000^{-2i/d}.$$

# %% [markdown] tags=["your-turn"]
# ## Your turn: the table of sines and cosines
#
# Write `sinusoids(places, d)`, which returns this table for the positions 0 to `places - 1`, as a
# tensor of shape (position, d); d is even. Compute in float64 (`mt.arange(..., dtype="float64")`).
#
# *Hint:* A column of positions times a row of the d / 2 frequencies gives all angles. In the table,
# sine and cosine alternate: `mt.stack([...], -1)` forms pairs, and `flatten(-2)` joins the pairs of
# each row.


# %% tags=["answer"]
def sinusoids(places, d):
    """Return the sines and cosines of positions 0 to places - 1, shape (position, d)."""
    frequencies = 10000.0 ** (-mt.arange(0, d, 2, dtype="float64") / d)  # (d / 2,)
    angles = mt.arange(places, dtype="float64").unsqueeze(1) * frequencies  # (position, d / 2)
    return mt.stack([angles.sin(), angles.cos()], -1).flatten(-2)


# %% tags=["check"]
check(
    sinusoids,
    cases=[(7, 6), (11, 2), (1, 10)],
    expected=lambda places, d: mt.nn.sinusoidal_positions(places, d, dtype="float64"),
    properties={
        "position 0 is 0, 1, 0, 1, ...": lambda table, places, d: np.allclose(
            table[0].numpy(), [0, 1] * (d // 2)
        ),
        "every row has length sqrt(d / 2)": lambda table, places, d: np.allclose(
            table.norm(dim=-1).numpy(), math.sqrt(d / 2)
        ),
    },
)

# %% [markdown]
# Each pair of features is like the hand of a clock; the fast hands come first. To move $k$ places
# further, turn hand $i$ by the angle $k f_i$, for every $i$. The matrix that does this is the same
# for all positions $p$.

# %%
d, places, k = 16, 60, 5
table = mt.nn.sinusoidal_positions(places, d, dtype="float64")  # (position, d)
turn = np.zeros((d, d))
for i in range(d // 2):
    angle = k * 10000 ** (-2 * i / d)
    cos, sin = math.cos(angle), math.sin(angle)
    turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, sin], [-sin, cos]]
turn = mt.tensor(turn)

moved = table[:-k] @ turn.T  # every row turned by the same matrix
print(f"PE[p + {k}] and turn @ PE[p] differ by {(moved - table[k:]).abs().max().item():.1e}")
assert (moved - table[k:]).abs().max() < 1e-12
assert (turn @ turn.T - mt.eye(d, dtype="float64")).abs().max() < 1e-12  # a rotation

products = (table @ table.T).numpy()  # (position, position)
at_distance = [products[p, p + 5] for p in (0, 10, 50)]
print("PE[p] . PE[p + 5] for p = 0, 10, 50:", *(f"{product:.6f}" for product in at_distance))
assert np.allclose(products[0, 5], products[50, 55])  # depends on the distance only

# %% tags=["plot"]
show(
    mt.viz.sinusoidal_figure(60, 32),
    "Left: the first features change from row to row, the last ones hardly at all. Middle: fast "
    "and slow clock hands. Right: the dot product of two positions is constant along a diagonal.",
)

# %% [markdown]
# But the scores are not $PE_p \cdot PE_q$. The token and its position are added and then multiplied
# by $W^Q$ and $W^K$. The score of two equal tokens at distance 5 now depends on where they are:

# %%
query_map, key_map = mt.randn(d, d, dtype="float64"), mt.randn(d, d, dtype="float64")
token = mt.randn(d, dtype="float64")
scores = ((token + table) @ query_map) @ ((token + table) @ key_map).T / math.sqrt(d)
at_distance = [scores[p, p + 5].item() for p in (0, 10, 50)]
print("scores at distance 5, from p = 0, 10, 50:", *(f"{score:.2f}" for score in at_distance))
assert max(at_distance) - min(at_distance) > 0.1

# %% [markdown]
# ## Learned: one row for each position
#
# BERT, GPT-2 and ViT learn the table instead of computing it. (Deck FLOW, "LEARNABLE POSITIONAL
# EMBEDDING", shows this form and the 2-D form below; `docs/decks.md` lists the decks.) A position
# beyond the last row raises an error.

# %%
learned = mt.nn.LearnedPositionalEmbedding(max_len=16, embed_dim=8)
with fails(IndexRangeError):
    learned(mt.zeros(1, 17, 8))
print("sinusoidal continues:", mt.nn.sinusoidal_positions(17, 8)[16, :4])

# %% [markdown]
# ## 2-D positions: half of the vector for the row, half for the column
#
# Image patches have two coordinates. With one table for rows and one for columns, two patches in
# the same column share half of their position vector. The dot product of two position vectors is
# the similarity of the rows plus the similarity of the columns.

# %%
height, width, d2 = 3, 5, 8
grid = mt.nn.LearnedPositionalEmbedding2d(height, width, d2, std=1.0)
full = grid.table().reshape(height, width, d2)  # (row, column, features)
print("parameters:", sum(p.numel() for p in grid.parameters()), "instead of", height * width * d2)
assert (full[0, 2, : d2 // 2] == full[0, 4, : d2 // 2]).all()  # same row: same first half
assert (full[0, 2, d2 // 2 :] == full[2, 2, d2 // 2 :]).all()  # same column: same second half
rows, columns = grid.row_weight, grid.column_weight
product = (full[0, 1] * full[2, 3]).sum().item()
parts = ((rows[0] * rows[2]).sum().item(), (columns[1] * columns[3]).sum().item())
print(f"(0, 1) . (2, 3) = {product:.3f} = {parts[0]:.3f} (rows) + {parts[1]:.3f} (columns)")
assert abs(product - sum(parts)) < 1e-5

# %% [markdown]
# ## Relative: a number for each distance, added to the scores
#
# Nothing is added to the tokens. Instead, a learned number for the distance, $b_{j-i}$, is added to
# the score of query $i$ and key $j$, as in T5. (Swin has one number for each offset in two
# dimensions.) All distances beyond a maximum share the number for that maximum.


# %%
class RelativeBias(mt.nn.Module):
    def __init__(self, farthest):
        super().__init__()
        self.farthest = farthest
        self.numbers = mt.nn.Parameter(mt.zeros(2 * farthest + 1))

    def forward(self, tokens):
        places = mt.arange(tokens)
        distance = places - places.unsqueeze(1)  # (query, key): j - i
        return self.numbers[distance.clamp(-self.farthest, self.farthest) + self.farthest]


bias = RelativeBias(2)
bias.numbers.data = mt.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])
print("b[j - i] for 5 tokens, clipped at 2: the same along each diagonal")
print(bias(5).detach().numpy())

# %% [markdown] tags=["your-turn"]
# ## Your turn: the gradient of a number that is used many times
#
# Each number of the relative bias is used along an entire diagonal of the scores. Each of the two
# outermost numbers is used in an entire corner, because all greater distances share it. Write the
# backward pass of the bias with NumPy: `bias_gradient(gradient, farthest)` is given the gradient of
# the bias, an array of shape (query, key), and returns the gradient of the `2 * farthest + 1`
# numbers. The first one belongs to the distance `-farthest`.
#
# *Hint:* A number that is used several times gets the **sum** of the gradients from all its uses,
# like a row of a table that is looked up several times (lesson 3). Careful: if `index` contains the
# same position twice, `numbers[index] += gradient` adds only one of the two gradients for this
# position. `np.add.at(numbers, index, gradient)` adds both.


# %% tags=["answer"]
def bias_gradient(gradient, farthest):
    """Return the gradient of the number for each distance, shape (2 * farthest + 1,)."""
    places = np.arange(len(gradient))
    distance = np.clip(places - places[:, None], -farthest, farthest)  # (query, key): j - i
    numbers = np.zeros(2 * farthest + 1)
    np.add.at(numbers, distance + farthest, gradient)
    return numbers


# %% tags=["check"]
check(
    bias_gradient,
    cases=[
        (np.ones((5, 5)), 2),  # counts how often each number is used
        (np.random.default_rng(0).normal(size=(7, 7)), 3),
        (np.random.default_rng(1).normal(size=(1, 1)), 2),
    ],
    expected=lambda gradient, farthest: mt.autograd.grad(
        (module := RelativeBias(farthest).double())(len(gradient)),
        module.numbers,
        mt.tensor(gradient),
    )[0],
    properties={
        "both gradients have the same sum": lambda numbers, gradient, farthest: np.allclose(
            numbers.sum(), gradient.sum()
        ),
    },
)

# %% [markdown]
# ## Rotary: rotate queries and keys according to their positions
#
# We use the clock hands again, but now we rotate the query and the key themselves. Feature pair $i$
# of a query at position $m$ is rotated by the angle $m f_i$, and that of a key at position $n$ by
# $n f_i$. The dot product depends only on the difference of the two angles, $(m - n) f_i$. This is
# exact for all $W^Q$ and $W^K$.

# %% [markdown] tags=["your-turn"]
# ## Your turn: rotary positions
#
# Write `rotated(x, start)` for x of shape (token, d), whose tokens are at the positions `start`,
# `start + 1`, and so on. Pair $i$ consists of the neighboring features $2i$ and $2i + 1$. In a
# token at position $p$, this pair is rotated by the angle $\theta = p f_i$:
#
# $$(a, b) \mapsto (a \cos\theta - b \sin\theta,\; a \sin\theta + b \cos\theta).$$
#
# The check tests a property that you cannot get by adding a table of positions: if all tokens move
# by 3 places, all dot products between tokens stay the same. Compute in float64.
#
# *Hint:* `x[:, 0::2]` holds the first element of all pairs and `x[:, 1::2]` the second. Compute the
# angles and restore the order of the features as in `sinusoids`.


# %% tags=["answer"]
def rotated(x, start):
    """Return x with each pair of features rotated, shape (token, d)."""
    tokens, d = x.shape
    frequencies = 10000.0 ** (-mt.arange(0, d, 2, dtype="float64") / d)  # (d / 2,)
    angles = mt.arange(start, start + tokens, dtype="float64").unsqueeze(1) * frequencies
    a, b = x[:, 0::2], x[:, 1::2]
    cos, sin = angles.cos(), angles.sin()
    return mt.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


# %% tags=["check"]
check(
    rotated,
    cases=[(mt.randn(5, 6), 0), (mt.randn(3, 2), 7), (mt.randn(1, 10), 2)],
    expected=lambda x, start: mt.nn.RotaryEmbedding(x.shape[1], interleaved=True)(x, offset=start),
    properties={
        "each token keeps its length": lambda y, x, start: np.allclose(
            y.norm(dim=-1).numpy(), x.norm(dim=-1).numpy()
        ),
        "moving all tokens by 3 places keeps all dot products": lambda y, x, start: np.allclose(
            (y @ y.T).numpy(), (rotated(x, start + 3) @ rotated(x, start + 3).T).numpy()
        ),
    },
)

# %% [markdown]
# The function `rotate` below always starts at position 0. It supports two conventions for pairing
# the features.


# %%
def rotate(x, interleaved=True):
    """Rotate x of shape (token, d); the row index is the token's position."""
    half = x.shape[-1] // 2
    frequencies = 10000.0 ** (-mt.arange(half, dtype="float64") / half)
    angles = mt.arange(x.shape[0], dtype="float64").unsqueeze(1) * frequencies  # (token, d / 2)
    cos, sin = angles.cos(), angles.sin()
    a, b = (x[:, 0::2], x[:, 1::2]) if interleaved else (x[:, :half], x[:, half:])
    turned = (a * cos - b * sin, a * sin + b * cos)
    return mt.stack(turned, -1).flatten(-2) if interleaved else mt.cat(turned, -1)


query, key = (mt.randn(d, dtype="float64").expand(places, d) for _ in range(2))  # at every place
scores = rotate(query) @ rotate(key).T  # (place of the query, place of the key)
at_distance = [scores[p, p + 5].item() for p in (0, 10, 50)]
print("scores at distance 5, from p = 0, 10, 50:", *(f"{score:.6f}" for score in at_distance))
assert max(at_distance) - min(at_distance) < 1e-9

library = mt.nn.RotaryEmbedding(d, interleaved=True)(query.unsqueeze(0))[0]
assert (rotate(query) - library).abs().max() < 1e-9
lengths = rotate(query).norm(dim=-1)
print(f"length of the query at position 0 and 59: {lengths[0].item():.6f} {lengths[59].item():.6f}")
assert (lengths - lengths[0]).abs().max() < 1e-9  # rotation does not change lengths

# %% [markdown]
# Which features form a pair is a convention. The RoFormer paper (arXiv:2104.09864v5, section 3.2.2)
# pairs neighbors; the published Llama weights pair $i$ with $i + d/2$. Either works, but only if
# query and key use the same convention:

# %%
mixed = rotate(query) @ rotate(key, interleaved=False).T
at_distance = [mixed[p, p + 5].item() for p in (0, 10, 50)]
print("two conventions mixed, distance 5:", *(f"{score:.3f}" for score in at_distance))
assert max(at_distance) - min(at_distance) > 0.1

# %% [markdown]
# ## Comparison: train on 16 tokens, test on 48
#
# The task is to predict, at each position, the token **two places before**. The model is one
# attention layer (without a mask), followed by one linear map. All models train on texts of 16
# random letters and are then tested on texts of 48.

# %%
LETTERS, SHORT, LONG, WIDTH = 8, 16, 48, 32


class Reader(mt.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.letters = mt.nn.Embedding(LETTERS, WIDTH)
        self.attention = mt.nn.Attention(WIDTH, 1)
        self.answer = mt.nn.Linear(WIDTH, LETTERS)
        if kind == "sinusoidal":
            self.places = mt.nn.SinusoidalPositionalEncoding(WIDTH)
        elif kind == "learned":  # a table of 48 rows, of which training uses 16
            self.places = mt.nn.LearnedPositionalEmbedding(LONG, WIDTH, std=0.3)
        elif kind == "relative":
            self.places = RelativeBias(8)
        elif kind == "rotary":
            self.places = mt.nn.RotaryEmbedding(WIDTH)

    def forward(self, ids):
        x, extra = self.letters(ids), {}  # (batch, token, width)
        if self.kind in ("sinusoidal", "learned"):
            x = self.places(x)
        elif self.kind == "relative":
            extra = {"bias": self.places(ids.shape[1])}
        elif self.kind == "rotary":
            extra = {"rotary": self.places}
        return self.answer(self.attention(x, **extra))  # (batch, token, letter)


def examples(count, length, generator):
    ids = mt.tensor(generator.integers(LETTERS, size=(count, length)))
    return ids, ids[:, :-2]  # the letter two places before


def train(kind, steps):
    mt.manual_seed(1)
    model, generator = Reader(kind), np.random.default_rng(0)
    optimizer = mt.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(steps):
        ids, wanted = examples(32, SHORT, generator)
        logits = model(ids)[:, 2:]  # the first two positions have no answer
        loss = mt.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# All models with positions solve the task on 16 tokens. Which of the four (sinusoidal, learned,
# relative, rotary) still work at three times the length? For each one, write down "yes" or "no" and
# a reason, then run the next cell.

# %%
models, short, long = {}, {}, {}
print(f"correct letters          {SHORT} tokens   {LONG} tokens")
for kind in ("none", "sinusoidal", "learned", "relative", "rotary"):
    model = models[kind] = train(kind, pick(300, 250))
    for length, result in ((SHORT, short), (LONG, long)):
        ids, wanted = examples(100, length, np.random.default_rng(9))
        with mt.no_grad():
            right = model(ids)[:, 2:].argmax(-1) == wanted
        result[kind] = right.float().mean().item()
    print(f"{kind:<22}{100 * short[kind]:11.1f} %{100 * long[kind]:10.1f} %")
print(f"guessing              {100 / LETTERS:11.1f} %{100 / LETTERS:10.1f} %")

# %% [markdown]
# Relative and rotary positions work at three times the length, because they use only distances, and
# the letter to find is two places back in a text of any length. The models with absolute positions
# saw only the first 16 positions in training. (The model without positions is better than guessing,
# because it can see which letter is the most frequent one.)

# %%
assert min(short[kind] for kind in ("sinusoidal", "learned", "relative", "rotary")) > 0.95
assert long["relative"] > 0.9
assert long["rotary"] > 0.9
assert long["learned"] < 0.6
assert long["sinusoidal"] < 0.8

# %% tags=["plot"]
ids, _ = examples(1, 40, np.random.default_rng(9))
figure = new_figure(9.5, 2.9)
panels = figure.subplots(1, 5, sharey=True)
for panel, (kind, model) in zip(panels, models.items(), strict=True):
    with mt.no_grad(), mt.nn.collect_attention(model.attention) as found:
        model(ids)
    image = panel.imshow(found[0][1].numpy()[0, 0], cmap="Blues", vmin=0, vmax=1)
    panel.plot([-0.5, 15.5, 15.5], [15.5, 15.5, -0.5], color=COLOURS[1], linewidth=1)
    panel.set_title(kind, fontsize=11)
    panel.set(xlabel="key", xticks=(0, 15, 39), yticks=(0, 15, 39))
panels[0].set_ylabel("query")
figure.colorbar(image, ax=panels, shrink=0.7, label="weight")
show(
    figure,
    "Attention to 40 tokens; the orange square is the trained length. Outside it, relative and "
    "rotary continue their diagonal, sinusoidal and learned do not. Without positions there is no "
    "diagonal. The relative map is pale, because many other keys keep a little weight.",
)

# %% [markdown]
# ## What goes wrong without positions
#
# Without positions this layer cannot solve the task, because of the equivariance shown at the
# beginning: two equal letters in one text get the same output, wherever they are.

# %%
text = mt.tensor([[0, 1, 2, 3, 2, 5]])  # the letter 2 at positions 2 and 4; before them 0 and 2
with mt.no_grad():
    blind, seeing = models["none"](text)[0], models["rotary"](text)[0]
for name, logits in (("none", blind), ("rotary", seeing)):
    difference = (logits[2] - logits[4]).abs().max().item()
    print(f"{name:<7} the logits at the two positions differ by {difference:.1e}")
assert (blind[2] - blind[4]).abs().max() < 1e-5
assert seeing[2].argmax().item() == 0
assert seeing[4].argmax().item() == 2
assert short["none"] < 0.35

# %% [markdown]
# ## In the library

# %%
where(mt.nn.sinusoidal_positions, mt.nn.SinusoidalPositionalEncoding)
where(mt.nn.LearnedPositionalEmbedding, mt.nn.LearnedPositionalEmbedding2d)
where(mt.models.t5.RelativePositionBias, mt.models.t5.relative_position_bucket)
where(mt.nn.RotaryEmbedding, mt.ops.apply_rotary, mt.models.rotary.rotary_frequencies)

# %% [markdown]
# ## Exercise
#
# Give `Reader` a sixth kind, "causal": no positions, but `is_causal=True`. Train it like the
# others. You are done when you can say how much a mask alone helps: whether it beats "none" at 16
# tokens, and at which positions (the accuracy at each position is `right.float().mean(0)`).
#
# Then practice:
#
# ```sh
# mta exercise start 02
# ```
#
# ## Three questions
#
# 1. With the causal mask, the permutation test at the beginning fails. What does a token learn from
#    the mask that it could not know otherwise?
# 2. The dot product of two rows of the sinusoidal table depends only on the distance between their
#    positions. Why does the model with sinusoids still lose accuracy at 48 tokens?
# 3. The model with learned positions had a table of 48 rows and raised no error on 48 tokens. Why
#    does it fail there?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The mask tells the token how many tokens come before it: the first token sees only itself, and
#    the second sees two tokens. So the outputs change with the order, as the printed difference
#    shows.
# 2. The scores are not these dot products: token and position are added, and the sum is multiplied
#    by $W^Q$ and $W^K$. So the printed scores at distance 5 differ between p = 0, 10 and 50. The
#    matrices were fitted to 16 positions. In the figure the diagonal breaks off outside the orange
#    square.
# 3. The training texts have 16 tokens, so rows 16 to 47 of the position table received no gradient
#    and still hold their random initial values. The figure shows attention without a pattern at
#    these positions, and the printed results show the accuracy.
