# %% [markdown]
# # Video: space and time separately or together
#
# A clip of eight frames has eight times the patches of an image, so attention between all pairs of
# patches costs 64 times as much. Is it enough to attend first to the same place in all frames, and
# then to all places of the same frame? And how can a model learn from video without labels?
#
# *Prerequisites:* ViT (lesson 21) and MAE (lesson 27). This lesson needs scikit-learn.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.digits import digits_split
from minitorch_attn.data.moving_digits import DIRECTIONS, draw_clips, enlarged_digits
from minitorch_attn.models import TimeSformer
from minitorch_attn.models.video_mae import cubes_of, tube_masking
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## A clip
#
# Each clip shows a handwritten digit that moves in one of eight directions. A single frame does not
# show the direction. The test clips use handwriting that does not occur in training.

# %%
images, labels, test_images, test_labels = digits_split()
training = enlarged_digits(images, (12,))
test = draw_clips(300, enlarged_digits(test_images, (12,)), test_labels, np.random.default_rng(0))
NAMES = list(DIRECTIONS)
print("clips", test.frames.shape, "(clip, channel, frame, row, column)")

# %% tags=["plot"]
show(
    mt.viz.image_rows_figure(
        [[*test.frames[i, 0]] for i in range(3)], [NAMES[i] for i in test.directions[:3]],
        "Moving digits", [[f"frame {t}" for t in range(4)]] * 3,
    ),
    "Compare a frame with the next one: the digit moves by one or two pixels.",
)  # fmt: skip

# %% [markdown]
# ## Three schemes
#
# Cut each of $F$ frames into $N$ patches. The clip then has $NF$ tokens. The paper on TimeSformer
# (Bertasius et al. 2021, arXiv:2102.05095v4, section 3) compares three schemes:
#
# - *space*: a token attends to the tokens of its own frame,
# - *joint*: a token attends to all tokens of the clip,
# - *divided*: a token first attends over time, to the tokens at the same place (patch position) in
#   all frames. Then it attends over space, to the tokens of its own frame.
#
# The tokens are ordered by place: first come the tokens at place 0 in all frames, then those at
# place 1, and so on. So token $i$ has the place $\lfloor i / F \rfloor$ and the frame $i \bmod F$.

# %% [markdown] tags=["your-turn"]
# ## Your turn: who attends to whom?
#
# Write `may_attend(places, frames, scheme)`. It returns a bool array of shape (query, key) for the
# tokens in the order described above: True where the query attends to the key. The scheme is
# "space", "time" (the first half of divided attention) or "joint".
#
# *Hint:* `np.divmod` gives the place and the frame of every token. Put the queries along the first
# axis and the keys along the second, and compare their places or frames by broadcasting.


# %% tags=["answer"]
def may_attend(places, frames, scheme):
    """Return a bool array (query, key) that is True where the query attends to the key."""
    place, frame = np.divmod(np.arange(places * frames), frames)
    if scheme == "time":
        return place[:, None] == place
    if scheme == "space":
        return frame[:, None] == frame
    return np.ones((len(place), len(place)), bool)


# %% tags=["check"]
check(
    may_attend,
    cases=[
        (3, 2, "space"), (2, 5, "time"), (5, 3, "joint"), (1, 3, "space"), (7, 1, "time"),
        (5, 3, "time"),
    ],
    expected=lambda places, frames, scheme: mt.tensor(
        [
            [
                scheme == "joint"
                or (scheme == "time" and i // frames == j // frames)
                or (scheme == "space" and i % frames == j % frames)
                for j in range(places * frames)
            ]
            for i in range(places * frames)
        ]
    ),
    properties={
        "over space, each token attends to one token of each place": lambda _, n, f, scheme: (
            may_attend(n, f, "space").sum(1) == n
        ).all()
    },
)  # fmt: skip

# %% tags=["plot"]
side, query_frame, query = 5, 1, (2, 3)
time_map = np.zeros((4, side, side))
time_map[:, query[0], query[1]] = 0.5
space_map = np.zeros((4, side, side))
space_map[query_frame] = 0.5
scheme_maps = {"space": space_map, "time": time_map, "joint": np.full((4, side, side), 0.5)}
for one in scheme_maps.values():
    one[query_frame, query[0], query[1]] = 1.0
show(
    mt.viz.image_rows_figure(
        list(scheme_maps.values()), list(scheme_maps), "To which tokens does the black one attend?",
        [[f"frame {t}" for t in range(4)]] * 3,
    ),
    "Gray tokens are keys. Divided attention first attends over time (second row), then over space "
    "(first row). Together, the two steps connect the token with every token of the clip.",
)  # fmt: skip

# %% [markdown]
# With divided attention, a query receives information from every token, but in two steps. The
# information first moves over time into the query's frame, and then over space to the query. Change
# one patch of a clip, and see which tokens change after one block.


# %%
def tokens_changed(kind):
    """Change one patch. Return how many of the 4 x 16 tokens change after one block."""
    model = TimeSformer(
        24, 6, num_frames=4, embed_dim=16, num_layers=1, num_heads=2, mlp_dim=32, in_channels=1,
        attention=kind,
    )  # fmt: skip
    for parameter in model.parameters():  # large values make changes visible
        if parameter.ndim == 2:
            mt.nn.init.normal_(parameter, std=0.3)
    clip = test.frames[:1]
    changed = clip.copy()
    changed[..., 1, 6:12, 12:18] += np.linspace(0, 1, 36, dtype="float32").reshape(6, 6)
    with mt.no_grad():
        first, second = (model.encode(model.embed(mt.tensor(x)), 4) for x in (clip, changed))
    moved = (first - second).abs().max(-1).values > 1e-6
    return int(moved[:, 1:].sum().item())  # without class tokens


for kind in ("space", "joint", "divided"):
    print(f"{kind:8} a change of one patch reaches {tokens_changed(kind):2} of 64 tokens")
assert tokens_changed("space") == 16 and tokens_changed("divided") == 64

# %% [markdown] tags=["your-turn"]
# ## Your turn: attention over time
#
# A mask would still compute all $(NF)^2$ scores. Write `over_time(query, key, value, frames)` for
# one head without a mask. The three tensors have shape (token, dim), in the order described above.
# The result must equal full attention with the "time" mask. You may use
# `mt.nn.functional.scaled_dot_product_attention`, which treats leading axes as batch axes.
#
# *Hint:* The tokens of a place are consecutive. One reshape turns the places into a batch axis.


# %% tags=["answer"]
def over_time(query, key, value, frames):
    """Return the attention over time, among tokens at the same place, shape (token, dim)."""
    parts = (x.reshape(-1, frames, x.shape[-1]) for x in (query, key, value))
    context = mt.nn.functional.scaled_dot_product_attention(*parts)  # (place, frame, dim)
    return context.flatten(0, 1)


# %% tags=["check"]
check(
    over_time,
    cases=[
        (mt.randn(6, 5), mt.randn(6, 5), mt.randn(6, 5), 2),
        (mt.randn(15, 2), mt.randn(15, 2), mt.randn(15, 2), 5),
        (mt.randn(3, 2), mt.randn(3, 2), mt.randn(3, 2), 1),
    ],
    expected=lambda query, key, value, frames: mt.nn.functional.scaled_dot_product_attention(
        query, key, value,
        mt.arange(len(query)).unsqueeze(1) // frames == mt.arange(len(query)) // frames,
    ),
    properties={
        "with one frame, the output is value": lambda y, query, key, value, frames: np.allclose(
            over_time(query, key, value, 1).numpy(), value.numpy()
        )
    },
)  # fmt: skip

# %% [markdown]
# ## What the schemes cost
#
# With a class token, joint attention compares $(NF + 1)^2$ pairs. Divided attention compares
# $N F^2$ pairs over time and $F (N + 1)^2$ over space, which is about $NF(N + F + 2)$ (the paper's
# section 3 counts $N + F + 2$ comparisons per patch).

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# A frame of 224 x 224 pixels has 196 patches. We take 32 frames instead of 8: four times as many
# tokens. By what factor does the number of compared pairs grow for joint attention? And for divided
# attention? Write down two numbers, then run the next cell.

# %%
print("frames    tokens    joint pairs  divided pairs")
pairs = {}
for frames in (8, 16, 32, 96):
    tokens = 196 * frames
    pairs[frames] = (tokens + 1) ** 2, tokens * (196 + frames + 2)
    print(f"{frames:6} {tokens:9,} {pairs[frames][0]:14,} {pairs[frames][1]:14,}")
growth = [pairs[32][k] / pairs[8][k] for k in (0, 1)]
print(f"from 8 to 32 frames: joint x {growth[0]:.1f}, divided x {growth[1]:.1f}")
assert growth[0] > 15 and growth[1] < 5

# %% [markdown]
# For joint attention, the number of pairs grows with the square of the clip's length, here by a
# factor of 16. For divided attention, most pairs lie within a frame. So the number of pairs grows
# by a factor of 4.5, only a little faster than the number of tokens.
#
# The number of pairs alone does not determine the cost. For a short clip, linear layers cost more
# than the scores, and divided attention has twice as many attention layers. The library counts the
# operations of every layer while it runs (`mt.profile`), so we count the operations of one block of
# the paper's size, with 196 patches per frame and vectors of 768 numbers.


# %%
def block_flops(kind, frames):
    """Count the FLOPs of a block of width 768 for one clip with the library, in units of 10^9."""
    sizes = (224, 16, frames, 0, 768, 1, 12, 3072)
    model = TimeSformer(*sizes, in_channels=1, attention=kind).eval()
    with mt.no_grad():
        tokens = model.embed(mt.zeros(1, 1, frames, 224, 224))
        with mt.profile() as profile:
            model.encode(tokens, frames)
    return sum(event.flops for event in profile.events) / 1e9


def formula(kind, frames, n=196, d=768):
    """Compute the FLOPs of `block_flops` from the sizes. A multiply-add counts as two."""
    places, by_frame, clip = n * frames, (n + 1) * frames, n * frames + 1
    if kind == "joint":
        return (24 * clip * d**2 + 4 * clip**2 * d) / 1e9
    over_space = 8 * by_frame * d**2 + 4 * by_frame * (n + 1) * d
    if kind == "space":
        return (over_space + 16 * by_frame * d**2) / 1e9
    time = 10 * places * d**2 + 4 * places * frames * d  # two more for the linear layer after it
    return (time + over_space + 16 * clip * d**2) / 1e9


KINDS = ("space", "joint", "divided")
counted = {kind: block_flops(kind, pick(4, 2)) for kind in KINDS}
for kind, flops in counted.items():
    print(f"{kind:8} {flops:6.2f} GFLOPs counted, {formula(kind, pick(4, 2)):6.2f} by the formula")
    assert abs(flops / formula(kind, pick(4, 2)) - 1) < 1e-9

# %% [markdown]
# The formula agrees with the count, so we can use it for long clips, for which the model would take
# minutes.

# %%
print("GFLOPs of one block      space    joint  divided")
for frames in (1, 8, 32, 96):
    costs = [formula(kind, frames) for kind in KINDS]
    print(f"{frames:6} frames      " + "".join(f"{cost:9.1f}" for cost in costs))
assert formula("joint", 8) < formula("divided", 8) and formula("joint", 32) > formula("divided", 32)

# %% tags=["plot"]
figure = new_figure(6.2, 3.2)
axes = figure.subplots()
frames = np.arange(1, 97)
for kind, style in zip(KINDS, ("--", "-", "-"), strict=True):
    axes.plot(frames, [formula(kind, f) / f for f in frames], style, label=kind)
axes.set(xlabel="frames", ylabel="GFLOPs per frame", ylim=(0, None))
axes.legend(title="one block, 196 patches")
show(
    figure,
    "With divided attention, the cost per frame hardly depends on the number of frames. With "
    "joint attention, the cost per frame grows with every further frame. Find the point at which "
    "the two lines cross.",
)

# %% [markdown]
# For eight frames of 224 x 224 pixels, divided attention costs *more* than joint attention, because
# of its additional linear layers. It pays off for longer clips or larger frames.
#
# ## Which frames does a patch look at?
#
# We train a small TimeSformer with divided attention to recognize the direction of a digit, and the
# same model with attention over space only.


# %%
def train(kind, steps):
    mt.manual_seed(0)
    model = TimeSformer(
        24, 6, num_frames=4, num_classes=8, embed_dim=32, num_layers=2, num_heads=2, mlp_dim=64,
        in_channels=1, attention=kind,
    )  # fmt: skip
    optimizer = mt.optim.AdamW(model.parameters(), lr=4e-3)
    for step in range(steps):
        clips = draw_clips(32, training, labels, np.random.default_rng([1, step]))
        optimizer.param_groups[0]["lr"] = 4e-3 * min((step + 1) / 20, 1) * (1 - step / steps)
        optimizer.zero_grad()
        logits = model(mt.tensor(clips.frames))
        mt.nn.functional.cross_entropy(logits, mt.tensor(clips.directions)).backward()
        optimizer.step()
    return model.eval().requires_grad_(False)


def accuracy(model):
    return (model(mt.tensor(test.frames)).argmax(1).numpy() == test.directions).mean()


models = {"divided": train("divided", pick(300, 150)), "space": train("space", pick(150, 40))}
found = {kind: accuracy(model) for kind, model in models.items()}
for kind, share in found.items():
    print(f"{kind:8} tells the direction of {100 * share:.0f} % of the test clips")
assert found["divided"] > pick(0.9, 0.7) and found["space"] < 0.5

# %%
watched = []
layer = models["divided"].blocks[0].time_attention
with mt.nn.watch_attention(layer, lambda _, weights: watched.append(weights.numpy())):
    models["divided"](mt.tensor(test.frames))
weights = watched[0].mean(1).reshape(300, 16, 4, 4)  # (clip, place, query frame, key frame)
ink = cubes_of(mt.tensor(test.frames), 1, 6).numpy().sum((2, 3)).reshape(300, 4, 16)
is_empty = (ink == 0).all(1)  # (clip, place): the digit never comes here
spread = {True: [], False: []}
for place in range(16):
    for empty in (True, False):
        chosen = weights[is_empty[:, place] == empty, place]
        if len(chosen) > 1:
            spread[empty].append(chosen.std(0).mean())
differences = {empty: np.mean(values) for empty, values in spread.items()}
print("how much the weights of a place differ from clip to clip (standard deviation):")
print(
    f"  places that no digit reaches {differences[True]:.3f}, other places {differences[False]:.3f}"
)
assert differences[True] < 1e-3 < 0.02 < differences[False]

# %% tags=["plot"]
rows, row_labels = [], []
for clip in (np.flatnonzero(test.directions == NAMES.index(name))[0] for name in ("up", "right")):
    rows += [[*test.frames[clip, 0]], weights[clip, :, 0].T.reshape(4, 4, 4)]
    row_labels += [NAMES[test.directions[clip]], "attention"]
show(
    mt.viz.image_rows_figure(
        rows, row_labels, "Attention over time, from each place of frame 0",
        [[f"frame {t}" for t in range(4)]] * 4,
    ),
    "Each square of a map is one place. Its shade shows how much of the place's attention goes to "
    "that frame. Compare the two clips: places that the digit never reaches have equal squares, "
    "and the other squares depend on the digit.",
)  # fmt: skip

# %% [markdown]
# A place that the digit never reaches has the same tokens in every clip, so its attention weights
# depend on the position embeddings alone. Where the digit passes, the weights depend on what is in
# each frame. In this first block, they never depend on *other* places, because only the attention
# over space after it combines places.
#
# ## What goes wrong without time
#
# The model that attends over space alone reads each frame separately and averages the results. If
# you play a clip backwards, the digit moves in the opposite direction, but the mean stays the same.
# So no training can teach this model to tell left from right.

# %%
clips = mt.tensor(test.frames[:50])
backwards = mt.tensor(np.ascontiguousarray(test.frames[:50, :, ::-1]))
change = {}
for kind, model in models.items():
    change[kind] = (model(clips) - model(backwards)).abs().max().item()
    print(f"{kind:8} played backwards, the logits change by {change[kind]:.1e}")
assert change["space"] < 1e-4 and change["divided"] > 0.1

# %% [markdown]
# Attention over time also needs position embeddings: attention treats its keys as a set, so only
# the embedding of each frame's position (`time_positions`) tells it the order of the frames.
# Without these embeddings, divided attention cannot tell a direction from the opposite one.

# %%
models["divided"].time_positions.weight.data *= 0
without = models["divided"]
change = (without(clips) - without(backwards)).abs().max().item()
print(f"without time positions: the logits change by {change:.1e}")
assert change < 1e-4

# %% [markdown]
# ## VideoMAE: tubes
#
# MAE hides 75 % of an image's patches and predicts them (lesson 27). In a video, the content of a
# hidden patch may be visible in the next frame, shifted by a pixel or two. A model could copy it
# without understanding anything. VideoMAE (Tong et al. 2022, arXiv:2203.12602v3, section 3.3) hides
# *tubes*: it hides 90 % of the places, and the same ones in every frame.

# %% [markdown] tags=["your-turn"]
# ## Your turn: a tube mask
#
# Write `tubes(noise, frames, hidden)`. `noise` has shape (place,). The number `hidden` says how
# many places to hide: those with the largest noise, and the same ones in all frames. Return a bool
# tensor of shape (frame, place), True where a patch is hidden.
#
# *Hint:* `mt.argsort` of an argsort gives the rank of each number. Which ranks are hidden?


# %% tags=["answer"]
def tubes(noise, frames, hidden):
    """Hide the same places in all frames. Return a bool array (frame, place)."""
    rank = noise.argsort().argsort()  # 0 for the smallest
    return (rank >= len(noise) - hidden).expand(frames, len(noise))


# %% tags=["check"]
check(
    tubes,
    cases=[
        (mt.rand(7), 3, 5),
        (mt.tensor([0.4, 0.9, 0.1]), 2, 1),
        (mt.rand(11), 1, 0),
        (mt.rand(3), 5, 3),
    ],
    expected=lambda noise, frames, hidden: mt.tensor(
        [[bool((noise > x).sum() < hidden) for x in noise]] * frames
    ),
    properties={
        "each frame hides the given number of places": lambda mask, noise, frames, hidden: (
            mask.sum(1) == hidden
        ).all()
    },
)

# %% [markdown]
# How well does copying work? We take larger digits, so that frames resemble each other, as in a
# real video. For each hidden patch, copy the patch at the same place from the nearest frame in
# which this patch is visible. If it is hidden in all frames, use the mean of all pixels. The error
# shows how much of the task cannot be solved by copying.

# %%
large = enlarged_digits(test_images, (16,))
slow = draw_clips(300, large, test_labels, np.random.default_rng(0)).frames
patches = cubes_of(mt.tensor(slow), 1, 4).numpy().reshape(300, 4, 36, 16)
generator = np.random.default_rng(4)


def copy_error(hidden):
    """Return the ratio of the copy's error to the mean's error, and the share of copied patches."""
    # hidden: (clip, frame, place)
    steps = abs(np.arange(4)[:, None] - np.arange(4))  # (to, from)
    distance = steps[:, :, None] + 9 * hidden[:, None]  # (clip, to, from, place)
    nearest = distance.argmin(2)  # (clip, to, place)
    copied = np.take_along_axis(patches, nearest[..., None], 1)
    is_visible = np.broadcast_to(~hidden.all(1, keepdims=True), hidden.shape)
    guess = np.where(is_visible[..., None], copied, patches.mean())
    errors = [((x - patches) ** 2)[hidden].mean() for x in (guess, patches.mean())]
    return errors[0] / errors[1], is_visible[hidden].mean()


masks = {}
for share in (0.5, 0.75):
    count = int(36 * share)
    noise = generator.random((300, 4, 36))
    anywhere = noise.argsort(-1).argsort(-1) >= 36 - count
    tube = tube_masking(mt.tensor(noise[:, 0]), 4, share).reshape(300, 4, 36).numpy()
    for name, mask in (("anywhere", anywhere), ("tubes", tube)):
        error, visible = copy_error(mask)
        masks[name, share] = mask, error
        print(f"{100 * share:.0f} % hidden, {name:8}: {100 * visible:3.0f} % visible in another "
              f"frame, error of a copy / error of the mean: {error:.2f}")  # fmt: skip
assert masks["anywhere", 0.5][1] < 0.8 < 0.99 < masks["tubes", 0.5][1]

# %% tags=["plot"]
rows = [[*slow[3, 0]]]
for name in ("anywhere", "tubes"):
    hidden = masks[name, 0.75][0][3].reshape(4, 6, 6).repeat(4, 1).repeat(4, 2)
    rows.append([*np.where(hidden, np.nan, slow[3, 0])])
show(
    mt.viz.image_rows_figure(
        rows, ["clip", "anywhere", "tubes"], "75 % of the patches are hidden",
        [[f"frame {t}" for t in range(4)]] * 3,
    ),
    "Follow one hidden place from frame to frame. If the mask is drawn for each frame separately, "
    "the place is often visible in another frame. With tubes, it is hidden in all frames.",
)  # fmt: skip

# %% [markdown]
# ## In the library

# %%
from minitorch_attn.models import timesformer, video_mae

where(
    TimeSformer, timesformer.DividedBlock.over_time, timesformer.DividedBlock.over_space,
    video_mae.tube_masking, video_mae.VideoMAE,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# The paper also tries *axial* attention: over time, then along the rows, then along the columns of
# a frame. How many pairs does it compare for $F$ frames of $H \times W$ patches? Write
# `over_rows(query, key, value, frames, width)` and compare its result with that of attention under
# a mask, as the check of `over_time` does. After how many blocks has a change of one patch reached
# all tokens?
#
# Then train a model that recognizes both the digit and its direction: `mta train mvit`.
#
# ## Three questions
#
# 1. Divided attention cannot compare a patch with another place in another frame. How does it
#    follow a digit that moves?
# 2. For which clips is divided attention cheaper than joint attention, and why not for all?
# 3. Why does VideoMAE hide 90 % of the patches, while MAE hides 75 %?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. It takes two steps. Attention over time tells each place what was there in the other frames.
#    Attention over space then passes this information between the places, so a patch learns where
#    the digit was before.
# 2. Divided attention is cheaper for long clips and large frames, where the scores cost more than
#    the linear layers. But it has more linear layers, so it costs more for eight frames of 196
#    patches.
# 3. Frames are similar to each other. With 75 % of the places hidden, the visible tubes still show
#    much of the motion and of the image, and the task is too easy. Fewer tokens also make training
#    cheaper.
