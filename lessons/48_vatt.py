# %% [markdown]
# # VATT: three modalities, one network
#
# "Just patch it, encode it and throw it in a Transformer", says a slide. "You can tokenize
# anything", says another. VATT does it with video, sound and text at once, and learns from clips
# that nobody has labeled. How can one network compare three modalities, and what does it cost to
# tokenize anything?
#
# *Prerequisites:* ViT (lesson 21), Transformers for video (lesson 41). The slides are
# in the decks KROL ("Different input domains") and COMP541 ("Tokenizing the input data");
# `docs/decks.md` lists the decks.

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.audio import log_mel_spectrogram
from minitorch_attn.data.moving_digits import DIRECTIONS, draw_clips
from minitorch_attn.data.spoken_digits import draw_speakers, say_digits
from minitorch_attn.models.vatt import VATT, drop_token, mil_nce_loss, nce_loss
from minitorch_attn.models.vatt_tokens import AudioTokens, TextTokens, VideoTokens
from minitorch_attn.nn.init import skip_init
from minitorch_attn.viz.style import new_figure

mt.manual_seed(0)

# %% [markdown]
# ## Clips with sound and text
#
# In our clips a square moves in one of eight directions. A voice names the key that lies in this
# direction from the middle of a computer's numeric keypad: "nine" for up right, "four" for left. A
# sentence describes the direction. Video, voice and sentence belong together because they come from
# the same clip. There are no labels.

# %%
KEYS = np.array([8, 9, 6, 3, 2, 1, 4, 7])  # up, up right, right, ... as in DIRECTIONS
NAMES = list(DIRECTIONS)
WORDS = ["<padding>", "it", "moves", "goes", "now", "up", "down", "left", "right"]
SQUARE = [np.ones((1, 6, 6), np.float32)]
FRAMES, BANDS = 48, 24  # of a spectrogram: 0.6 s


def spectrogram(key, speaker, rng):
    waveform = say_digits([key], speaker, rng, gap=(0.02, 0.05))[0][:5000]
    waveform = np.pad(waveform, (0, 5000 - len(waveform))) + 0.003 * rng.standard_normal(5000)
    return log_mel_spectrogram(waveform, 8000, BANDS, window_size=200, hop=100)[:FRAMES]


def record(speakers, takes, seed):
    """Return spectrograms (direction, take, frame, band)."""
    rng = np.random.default_rng(seed)
    voices = draw_speakers(speakers, rng)
    return np.array([
        [spectrogram(key, voices[take % speakers], rng) for take in range(takes)] for key in KEYS
    ])  # fmt: skip


def sentence(direction, rng):
    words = [*rng.choice(["it moves", "it goes", "now it goes"]).split(), *NAMES[direction].split()]
    return [WORDS.index(word) for word in words] + [0] * (5 - len(words))


def draw(count, voices, rng):
    """Return video, audio, text and directions of random clips. No loss uses the directions."""
    clips = draw_clips(count, SQUARE, np.zeros(1, int), rng, side=12, noise=0.05)
    audio = (voices[clips.directions, rng.integers(voices.shape[1], size=count)] + 6) / 4
    text = [sentence(direction, rng) for direction in clips.directions]
    parts = clips.frames, audio.astype(np.float32), np.array(text)
    return [*map(mt.tensor, parts), clips.directions]


voices, new_voices = record(8, pick(16, 8), 1), record(4, 4, 2)
video, audio, text, directions = draw(8, voices, np.random.default_rng(3))
print("video", video.shape, " audio", audio.shape, " text", text.shape)
print("first clip:", " ".join(WORDS[i] for i in text[0].tolist() if i), "| key",
      KEYS[directions[0]])  # fmt: skip

# %% tags=["plot"]
show(
    mt.viz.image_rows_figure(
        [[*video[i, 0].numpy(), audio[i].numpy().T[::-1] / 4 + 0.5] for i in range(3)],
        [NAMES[d] for d in directions[:3]],
        "Three clips: four frames, and the spectrogram of a spoken key",
    ),
    "Each row is a clip. The network gets the frames, the spectrogram and a sentence.",
)

# %% [markdown]
# ## Everything becomes tokens
#
# Video, sound and text are three *modalities*. Each modality is cut into pieces, and a matrix
# projects each piece to a vector (Akbari et al. 2021, arXiv:2104.11178v3, "Tokenization and
# Positional Encoding"). Video is cut into boxes of $t \times h \times w$ pixels, sound into
# segments, and text into words. An *aggregation token* comes first and plays the role of the class
# token.

# %%
cut = {
    "video": (VideoTokens((4, 12, 12), (2, 4, 4), 32, in_channels=1), video),
    "audio": (AudioTokens(FRAMES, 4, 32, BANDS), audio),
    "text": (TextTokens(len(WORDS), 5, 32, num_heads=2), text),
}
for sense, (tokens, x) in cut.items():
    print(f"{sense:6} {x.shape!s:20} -> {tokens(x).shape}")

# %% [markdown]
# A box of a video has a position on three axes. A table with a vector for each of the $T H W$
# positions would be large. VATT has $T + H + W$ vectors and adds three of them:
# $e_{ijk} = e^{time}_i + e^{row}_j + e^{column}_k$ (Eq. 1).

# %% [markdown] tags=["your-turn"]
# ## Your turn: a position on three axes
#
# Write `positions(time, row, column)`. The three arguments are tables of vectors, of shapes (T, d),
# (H, d) and (W, d). The function returns the vectors of all positions, of shape (T * H * W, d). The
# column index changes fastest.
#
# *Hint:* With axes of size 1 in the right places, broadcasting gives (T, H, W, d).


# %% tags=["answer"]
def positions(time, row, column):
    """Return the sum of three vectors for each place."""
    total = time[:, None, None] + row[None, :, None] + column[None, None]
    return total.reshape(-1, time.shape[-1])


# %% tags=["check"]
check(
    positions,
    cases=[(mt.randn(2, 3), mt.randn(5, 3), mt.randn(7, 3)), (mt.randn(1, 1),) * 3],
    expected=lambda time, row, column: mt.stack(
        [a + b + c for a in time for b in row for c in column]
    ),
    properties={"there is a row for each place": lambda found, time, row, column: (
        found.shape[0] == time.shape[0] * row.shape[0] * column.shape[0]
    )},
)  # fmt: skip

# %% [markdown]
# ## What "tokenize anything" costs
#
# The paper's clips have 32 frames of 224 x 224 pixels and 3.2 s of sound at 48 kHz. How many tokens
# is that, and how many operations does a layer of the base size ($d = 768$) need for them? The
# projections and the feed-forward network need $12 n d^2$ multiply-adds for $n$ tokens, and
# attention needs $2 n^2 d$.


# %%
def layer_cost(n, d=768):
    """Return the multiply-adds of one layer: (linear layers, attention)."""
    return 12 * n * d**2, 2 * n**2 * d


counts = {"video": 8 * 14 * 14, "audio": 153_600 // 128, "text": 16}
for sense, n in counts.items():
    linear, attention = layer_cost(1 + n)
    print(f"{sense:6} {n:5} tokens: {(linear + attention) / 1e9:6.2f} billion multiply-adds, "
          f"{100 * attention / (linear + attention):4.1f} % of them attention")  # fmt: skip

# %% [markdown]
# Text needs very few operations. The pixels and the waveform need a hundred times as many, though
# they may contain no more information than the sentence. Neighboring patches of a video are very
# similar, and so are segments of a sound. *DropToken* therefore leaves out a random half of the
# video and audio tokens in training.

# %% [markdown] tags=["your-turn"]
# ## Your turn: DropToken
#
# Write `kept(noise, rate)`. `noise` contains a random number for each token, and has shape
# (batch, token). For each row, return the indices of the `max(1, int(token * (1 - rate)))` tokens
# with the smallest noise, in ascending order.
#
# *Hint:* `argsort` sorts by noise. Keep the first indices of each row, and sort these, because the
# tokens keep their order.


# %% tags=["answer"]
def kept(noise, rate):
    """Return the indices (batch, kept) of the tokens that stay."""
    count = max(1, int(noise.shape[1] * (1 - rate)))
    return noise.argsort(dim=1)[:, :count].sort(dim=1).values


# %% tags=["check"]
check(
    kept,
    cases=[(mt.rand(3, 7), 0.5), (mt.rand(2, 5), 0.9), (mt.rand(2, 3), 0.0)],
    expected=lambda noise, rate: drop_token(mt.zeros(*noise.shape, 1), noise, rate)[1],
    properties={"at least one token stays": lambda index, noise, rate: index.shape[1] >= 1},
)

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# DropToken with a rate of 0.5 halves the number of tokens. By how much does it reduce the
# multiply-adds of a layer that processes video: by less than half, by half, or by more than half?
# And the parameters? Write down your answer, then run the next cell.

# %%
full, half = sum(layer_cost(1 + counts["video"])), sum(layer_cost(1 + counts["video"] // 2))
print(f"DropToken 0.5 leaves {100 * half / full:.1f} % of the multiply-adds of a layer")
assert half < full / 2

# %% [markdown]
# The number of multiply-adds falls by more than half: the cost of the linear layers is halved, and
# the cost of attention falls to a quarter. The number of parameters stays the same, because all
# tokens use the same matrices. DropToken is used only in training: at test time, the model reads
# all tokens.
#
# ## Two common spaces
#
# Which clip belongs to which sound? The outputs of two modalities are projected to a common space:
# clip $i$ gets a vector $v_i$ for its video and a vector $a_i$ for its sound. The loss asks each
# clip to find its own sound among those of the batch, at the temperature $T$ (*noise-contrastive
# estimation*, NCE, Eq. 5):
#
# $$-\log \frac{\exp(v_i \cdot a_i / T)}{\sum_j \exp(v_i \cdot a_j / T)}$$
#
# Video and sound are compared in a first common space. A further projection maps this space to a
# second one, in which video and text are compared. Text contains the least detail of the three
# modalities, so its space comes last.
#
# Sentences are less reliable than sounds: someone may talk about something else while the clip
# runs. *MIL-NCE* (MIL: multiple instance learning, Eq. 6) uses several sentences that were spoken
# at about the time of the clip. The loss asks only that the *sum* over these sentences is large
# compared with the sum over the sentences of the other clips.

# %% [markdown] tags=["your-turn"]
# ## Your turn: MIL-NCE
#
# Write `mil_nce(video, text, T)`. `video` contains embeddings of shape (batch, d), and `text`
# contains embeddings of shape (batch, sentence, d). The function returns the mean over the clips of
# -log(A / B). A is the sum of $\exp(v \cdot t / T)$ over the vectors $t$ of the clip's own
# sentences, where $v$ is the clip's vector. B is the same sum over the sentences of all clips. The
# products may be so large that `exp` overflows.
#
# *Hint:* The logarithm of a quotient is a difference of two `mt.logsumexp`.


# %% tags=["answer"]
def mil_nce(video, text, T):
    """Return the mean loss of the clips, a scalar tensor."""
    scores = mt.einsum("id,jsd->ijs", video, text) / T
    own = mt.stack([scores[i, i] for i in range(len(video))])
    return (mt.logsumexp(scores, (1, 2)) - mt.logsumexp(own, 1)).mean()


# %% tags=["check"]
check(
    mil_nce,
    cases=[
        (mt.randn(3, 5), mt.randn(3, 2, 5), 0.7),
        (mt.randn(1, 2), mt.randn(1, 3, 2), 0.07),
        (30 * mt.randn(2, 3), 30 * mt.randn(2, 2, 3), 0.07),
    ],
    expected=mil_nce_loss,
    properties={
        "with one sentence for each clip, the loss is NCE": lambda loss, video, text, T: (
            abs(mil_nce(video, text[:, :1], T) - nce_loss(video, text[:, 0], T)) < 1e-3
        )
    },
)

# %% [markdown]
# ## One network for three modalities
#
# VATT has three Transformers, or one that all modalities share. In the shared version, only
# tokenizers, positions and projections are separate. Sharing saves parameters, not computation:
# each modality still runs through all layers.


# %%
def make(shared, drop_rate=0.5):
    mt.manual_seed(1)
    return VATT(
        (4, 12, 12), (2, 4, 4), FRAMES, 4, len(WORDS), 5, 32, 2, 2, 64, in_channels=1,
        audio_channels=BANDS, shared=shared, common_dim=32, text_common_dim=16,
        drop_rate=drop_rate,
    )  # fmt: skip


for shared in (False, True):
    network = make(shared)
    inside = sum(p.numel() for p in network.transformers.parameters())
    print(f"shared={shared}: {inside:,} parameters in {len(network.transformers)} Transformer(s)")
with skip_init():
    medium = mt.models.vatt_ma_medium().transformers
print(f"parameters of the paper's shared network: {sum(p.numel() for p in medium.parameters()):,}")

# %% [markdown]
# We train the shared network, and test retrieval with new voices. There are eight clips, one for
# each direction, and their eight sounds or sentences. A random guess is correct 1 time in 8.


# %%
def test_rows(rng):
    """Return one clip for each direction, in order."""
    *parts, directions = draw(100, new_voices, rng)
    first = [int(np.flatnonzero(directions == d)[0]) for d in range(8)]
    return [part[first] for part in parts]


def similarities(network):
    """Return the mean video-audio and video-text similarities, and both hit rates."""
    rng, found = np.random.default_rng(5), []
    with mt.no_grad():
        for _ in range(20):
            video, audio, text = test_rows(rng)
            e = network.eval()(video, audio, text, text == 0)
            pairs = (e.video_audio, e.audio), (e.video_text, e.text)
            found.append([(a @ b.transpose(0, 1)).numpy() for a, b in pairs])
    found = np.array(found)  # (repeat, sense, clip, candidate)
    return found.mean(0), (found.argmax(-1) == np.arange(8)).mean((0, 2))


def train(network, steps, lr=3e-3):
    optimizer = mt.optim.AdamW(network.parameters(), lr=lr)
    for step in range(steps):
        video, audio, text, _ = draw(16, voices, np.random.default_rng([6, step]))
        optimizer.param_groups[0]["lr"] = lr * min((step + 1) / 20, 2 * (1 - step / steps), 1)
        optimizer.zero_grad()
        network.loss(network.train()(video, audio, text, text == 0)).backward()
        optimizer.step()
    return network


network = make(shared=True)
_, before = similarities(network)
train(network, pick(400, 40))
matrices, hits = similarities(network)
for sense, a, b in zip(("audio", "text"), before, hits, strict=True):
    print(f"video to {sense:5}: {100 * a:3.0f} % before, {100 * b:3.0f} % after training")
assert hits.min() > pick(0.6, 0)

# %% tags=["plot"]
figure = new_figure(7.5, 3.4)
for axes, matrix, sense in zip(figure.subplots(1, 2), matrices, ("sound", "text"), strict=True):
    axes.imshow(matrix, cmap="Blues")
    axes.set_title(f"video and {sense}", fontsize=10)
    axes.set_xticks(range(8), KEYS if sense == "sound" else NAMES, rotation=90, fontsize=8)
    axes.set_yticks(range(8), NAMES, fontsize=8)
show(
    figure,
    "Mean similarity of clips (rows) with sounds and sentences (columns). The pairs with "
    "the same direction are on the diagonal. Dark means similar.",
)

# %% [markdown]
# No label told the network what a direction is, or which direction a spoken digit stands for. The
# network found the directions because a clip, its sound and its sentence have the direction in
# common. Other properties, such as the voice or the place of the square, do not help to lower the
# loss. Each direction is also most similar to its two neighbors, so the network has arranged the
# directions on a circle.
#
# ## What goes wrong if the tokens lose their positions
#
# DropToken leaves gaps. So the vector of a token must contain its position, and positions are added
# *before* tokens are dropped. The Transformer then accepts the shortened sequence, because it
# accepts any number of tokens. The tokenizer does not accept a recording with missing frames:

# %%
with fails(mt.errors.ShapeError):
    network.tokens["audio"](mt.zeros(1, FRAMES - 4, BANDS))

# %% [markdown]
# ## In the library

# %%
where(VATT, VideoTokens, AudioTokens, TextTokens, drop_token, nce_loss, mil_nce_loss)

# %% [markdown]
# ## Exercise
#
# Train `make(shared=False)` and `make(shared=True, drop_rate=0.0)` with the same number of steps.
# Compare their retrieval accuracies and training times with those of the network above. Which of
# the differences are larger than the difference between two random seeds?
#
# ## Three questions
#
# 1. Two clips of a batch show the same direction. What does the loss ask for, and is it right?
# 2. Why does DropToken not drop any text tokens?
# 3. Why can a shared Transformer not use T5's position bias, which depends on the distance between
#    two words?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. The loss asks each clip to reject the other's sound. That is wrong, and keeps the loss from
#    reaching 0, but it does not favor a wrong answer: the two sounds remain equally good matches.
# 2. Text has few tokens, so there is little to save, and the information in a word is not repeated
#    by other words.
# 3. T5's bias depends on the distance along one axis. Boxes of a video have distances along three
#    axes, so one table cannot serve all modalities.
