# %% [markdown]
# # Reading real weights
#
# A downloaded model is a folder with a few JSON files and one file of numbers. What exactly is in
# it, and how do you know that you read it correctly, when most mistakes still give finite logits?
#
# *Prerequisites:* GPT (lesson 17). No download is needed: the lesson trains a small GPT-2 and
# writes its folder in the layout of Hugging Face's transformers.

# %%
import json
import struct
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.models.pretrained import GPT2LMHeadModel

mt.manual_seed(0)

# %% [markdown]
# ## A trained model
#
# A model with random weights gives meaningless logits, whether you read it correctly or not. So we
# first train a model on a task: to continue a sequence of numbers with a constant step, such as 3 5
# 7 9 ..., modulo 16. The first two numbers are random, and they determine all others.


# %%
def sequences(count, generator):
    start, step = generator.integers(0, 16, (count, 1)), generator.integers(1, 6, (count, 1))
    return (start + step * np.arange(12)) % 16  # (sequence, 12)


model = GPT2LMHeadModel({
    "vocab_size": 16, "n_positions": 12, "n_embd": 32, "n_layer": 2, "n_head": 4,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
})  # fmt: skip
for name, parameter in model.named_parameters():
    if parameter.ndim == 2:
        mt.nn.init.normal_(parameter, std=0.15)  # an std of 0.02 is too small here
    elif name.endswith("bias"):
        mt.nn.init.normal_(parameter, std=0.05)  # so that a forgotten bias is noticed
optimizer = mt.optim.AdamW(model.parameters(), lr=5e-3)
generator = np.random.default_rng(0)
for _ in range(pick(250, 150)):
    ids = mt.tensor(sequences(32, generator))
    loss = model(ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
test = sequences(64, np.random.default_rng(1))
with mt.no_grad():
    expected = model(mt.tensor(test)).logits.numpy()  # (sequence, token, vocabulary)


def loss_of(logits):
    """Return the mean of -log p in nats. The first two numbers of each row do not count."""
    top = logits.max(-1, keepdims=True)
    log_p = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    right = np.take_along_axis(log_p[:, 1:-1], test[:, 2:, None], -1)
    return -right.mean()


print(f"loss {loss_of(expected):.3f} nats; guessing among 16 numbers costs {np.log(16):.3f}")
assert loss_of(expected) < 0.3

# %% [markdown]
# ## The folder

# %%
folder = Path("runs", "lessons", "30", "counting")
model.save_pretrained(folder)
for path in sorted(folder.iterdir()):
    print(f"{path.stat().st_size:8,} bytes  {path.name}")
config = json.loads((folder / "config.json").read_text())
for field in ("architectures", "n_embd", "n_layer", "n_head", "activation_function"):
    print(f"  {field}: {config[field] if field in config else '(default)'}")

# %% [markdown]
# ## safetensors, opened by hand
#
# The format is deliberately simple. A file consists of 8 bytes that give the header's length, a
# JSON header, and then only numbers. Unlike a pickle, it cannot contain executable code.


# %%
def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])  # 64-bit little-endian
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    numbers, tensors = data[8 + length :], {}
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        assert entry["dtype"] == "F32"
        tensors[name] = np.frombuffer(numbers[start:stop], "<f4").reshape(entry["shape"])
    return tensors


tensors = read_safetensors(folder / "model.safetensors")
for name, array in tensors.items():
    if ".h.1." not in name:
        print(f"  {name:38} {array.shape}")
print(f"{len(tensors)} tensors, {sum(array.size for array in tensors.values()):,} numbers")

# %% [markdown] tags=["your-turn"]
# ## Your turn: two-byte numbers
#
# Most large models are published in `BF16` (bfloat16), a type that NumPy does not have. A bfloat16
# is simply the upper half of a float32: the same sign, the same 8 bits of exponent, but 7 bits of
# fraction instead of 23. Write `from_bfloat16(data, shape)`: `data` are the bytes of a tensor, two
# per number, in little-endian order. Return a float32 array of the given shape.
#
# *Hint:* Read the bytes as unsigned 16-bit integers (`"<u2"`), convert them to 32 bits, and shift
# the bits to the upper half. `view` then reads the same bits as a different type.


# %% tags=["answer"]
def from_bfloat16(data, shape):
    """Convert bfloat16 data to a float32 array of the given shape."""
    halves = np.frombuffer(data, "<u2")
    bits = halves.astype("<u4") << 16  # the lower half is 0
    return bits.view("<f4").reshape(shape)


# %% tags=["check"]
check(
    from_bfloat16,
    cases=[
        (bytes.fromhex("803f 00c0 003f 4940 0000 80c2"), (2, 3)),  # 1, -2, 0.5, 3.14, 0, -64
        (bytes.fromhex("2dbe 9a3e cd3c 7f7f 8000"), (5,)),
        (b"", (0, 7)),
    ],
    expected=lambda data, shape: np.array([
        struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)
    ]).reshape(shape),
    properties={
        "the result is float32": lambda y, data, shape: (
            from_bfloat16(data, shape).dtype == "float32"
        )
    },
)  # fmt: skip

# %% [markdown]
# Note three things before you use the tensors:
#
# 1. **Transposed.** GPT-2's layers are `Conv1D`. Their weights have shape (in, out) and are used as
#    `x @ w`. The weights of a `Linear`, as in BERT, have shape (out, in) and are used as `x @ w.T`.
# 2. **Fused.** `c_attn` holds the weights of query, key and value side by side: 96 = 3 x 32
#    columns.
# 3. **Tied.** There is no `lm_head.weight`: the logits use the token embeddings `wte` again.

# %%
prefix = "transformer."
assert tensors[prefix + "h.0.attn.c_attn.weight"].shape == (32, 96)
assert not any("lm_head" in name for name in tensors)

# %% [markdown] tags=["your-turn"]
# ## Your turn: the gradient of a tied table
#
# Because `wte` is used twice, its gradient has two parts. Write
# `tied_gradient(ids, grad_input, x, grad_logits)` with NumPy for one sequence. At the input, the
# tokens `ids` (token,) look up their rows, and `grad_input` (token, embed) is the gradient of these
# rows. At the output, the logits are `x @ wte.T` with the last hidden states `x` (token, embed),
# and `grad_logits` has shape (token, vocabulary). Return the gradient of `wte`, of shape
# (vocabulary, embed).
#
# *Hint:* The second part is a matrix product. For the first part, add `grad_input[t]` to row
# `ids[t]` for every position `t`. If a token is repeated, `gradient[ids] += ...` adds only one of
# its gradients, but `np.add.at` adds all of them.


# %% tags=["answer"]
def tied_gradient(ids, grad_input, x, grad_logits):
    """Return the gradient of the token embeddings, shape (vocabulary, embed)."""
    gradient = grad_logits.T @ x  # as the output layer
    np.add.at(gradient, ids, grad_input)  # as the input table
    return gradient


# %% tags=["check"]
check(
    tied_gradient,
    cases=[
        (np.array([2, 0, 2]), *(mt.randn(3, n).numpy() for n in (5, 5, 7))),
        (np.array([1, 1, 1, 1, 1]), *(mt.randn(5, n).numpy() for n in (2, 2, 3))),
        (np.array([0]), *(mt.randn(1, n).numpy() for n in (3, 3, 1))),
    ],
    expected=lambda ids, grad_input, x, grad_logits: mt.autograd.grad(
        [
            (
                wte := mt.zeros(
                    grad_logits.shape[1], x.shape[1], dtype=mt.float64, requires_grad=True
                )
            )[mt.tensor(ids)],
            mt.tensor(x) @ wte.T,
        ],
        wte,
        [mt.tensor(grad_input), mt.tensor(grad_logits)],
    )[0],
    properties={
        "if x is 0, only the gradient of the input embedding remains": (
            lambda y, ids, grad_input, x, grad_logits: np.allclose(
                tied_gradient(ids, grad_input, 0 * x, grad_logits).sum(0), grad_input.sum(0)
            )
        )
    },
)

# %% [markdown]
# ## GPT-2 in NumPy, rebuilt from the file alone
#
# The best way to test that you read a file correctly is to rebuild the model from the file alone.


# %%
def norm(x, t, name):
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * t[name + ".weight"] + t[name + ".bias"]


def conv1d(x, t, name):
    return x @ t[name + ".weight"] + t[name + ".bias"]  # (..., in) @ (in, out)


def gelu(x):  # "gelu_new": with tanh
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def in_thirds(qkv):
    """Split (batch, token, 96) into query, key and value, each in 32 consecutive columns."""
    return np.split(qkv, 3, axis=-1)


def gpt2(ids, t, split=in_thirds, activation=gelu, heads=4):
    batch, n = ids.shape
    x = t["wte.weight"][ids] + t["wpe.weight"][:n]  # (batch, token, embed)
    future = np.triu(np.full((n, n), -np.inf), 1)
    for i in range(2):
        h = f"h.{i}."
        qkv = conv1d(norm(x, t, h + "ln_1"), t, h + "attn.c_attn")  # (batch, token, 3 embed)
        q, k, v = (a.reshape(batch, n, heads, -1).swapaxes(1, 2) for a in split(qkv))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + future
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        context = (weights @ v).swapaxes(1, 2).reshape(batch, n, -1)
        x = x + conv1d(context, t, h + "attn.c_proj")
        hidden = activation(conv1d(norm(x, t, h + "ln_2"), t, h + "mlp.c_fc"))
        x = x + conv1d(hidden, t, h + "mlp.c_proj")
    return norm(x, t, "ln_f") @ t["wte.weight"].T  # tied


bare = {name.removeprefix(prefix): array for name, array in tensors.items()}
logits = gpt2(test, bare)
print(f"largest difference from the library's logits {np.abs(logits - expected).max():.1e}")
assert np.abs(logits - expected).max() < 1e-3
again = mt.models.from_pretrained(folder)
with mt.no_grad():
    difference = np.abs(again.eval()(mt.tensor(test)).logits.numpy() - expected).max()
print(f"written, read by `from_pretrained`, and run again: {difference:.1e}")
assert difference == 0

# %% [markdown]
# ## What goes wrong when tensors are misread: an error, or only a different output
#
# Some mistakes raise an error. `c_attn` is not square, so its transpose does not fit:

# %%
transposed = {**bare, "h.0.attn.c_attn.weight": bare["h.0.attn.c_attn.weight"].T}
with fails(ValueError):
    gpt2(test, transposed)

# %% [markdown]
# Other mistakes do not raise an error. `attn.c_proj` is square, so its transpose fits. The columns
# of `c_attn` could also be read head by head, as other model families store them. Query and key
# could be swapped. And two formulas share the name GELU.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# If you read the file correctly, the model's loss is close to 0. Uniform guessing has a loss of
# 2.77 nats. Predict for each of the four mistakes: does it produce NaN or infinities? Is its loss
# close to 0, clearly higher, or even worse than guessing? Then run the next cell.


# %%
def by_head(qkv):
    """Split the columns as if they were ordered head by head. This is wrong for GPT-2."""
    parts = qkv.reshape(*qkv.shape[:2], 4, 3, 8)  # (batch, token, head, three, head_dim)
    return [parts[:, :, :, i].reshape(*qkv.shape[:2], 32) for i in range(3)]


def swapped(qkv):
    query, key, value = in_thirds(qkv)
    return key, query, value


def gelu_erf(x):
    return x * 0.5 * (1 + mt.erf(mt.tensor(x / np.sqrt(2))).numpy())


square = {
    name: array.T if name.endswith("attn.c_proj.weight") else array for name, array in bare.items()
}
readings = {
    "correct": gpt2(test, bare),
    "attn.c_proj transposed": gpt2(test, square),
    "c_attn read head by head": gpt2(test, bare, split=by_head),
    "query and key swapped": gpt2(test, bare, split=swapped),
    "GELU with erf, not tanh": gpt2(test, bare, activation=gelu_erf),
}
print("reading                    finite   largest error of a logit    loss")
errors, losses = {}, {}
for name, result in readings.items():
    errors[name], losses[name] = np.abs(result - expected).max(), loss_of(result)
    finite = "yes" if np.isfinite(result).all() else "no"
    print(f"{name:26} {finite:6} {errors[name]:26.1e} {losses[name]:7.3f}")
wrong = ["attn.c_proj transposed", "c_attn read head by head", "query and key swapped"]
for name in wrong:
    assert np.isfinite(readings[name]).all() and losses[name] > losses["correct"] + 0.3
assert 1e-4 < errors["GELU with erf, not tanh"] < 0.1

# %% [markdown]
# All logits are finite, so a check for NaN finds nothing. With a transposed or regrouped matrix,
# the loss is higher than that of uniform guessing, because the model is confident and wrong.
#
# The wrong GELU, in the last line of the table, is the most dangerous mistake: the loss hardly
# changes, so you cannot find the mistake by looking at the loss or at samples. Only a comparison of
# the logits with those of the original finds it. That is why the library's tests compare every
# model family with recorded logits from Hugging Face's transformers, to within round-off, and do
# not rely on the loss.

# %% tags=["plot"]
figure, axes = plt.subplots(1, 3, figsize=(8.5, 2.7), layout="constrained", sharey=True)
shown = ("correct", "GELU with erf, not tanh", "attn.c_proj transposed")
low, high = expected.min(), expected.max()
for axis, name in zip(axes, shown, strict=True):
    axis.plot([low, high], [low, high], color="0.6", linewidth=1)
    axis.plot(expected[:8].ravel(), readings[name][:8].ravel(), ".", color="#0072B2", markersize=3)
    axis.set_title(name, fontsize=10)
    axis.set_xlabel("logit of the original model")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("logit of the rebuilt model")
show(
    figure,
    "If the file is read correctly, all points lie on the diagonal. The middle picture looks the "
    "same as the left one, although its GELU is wrong.",
)

# %% [markdown] tags=["your-turn"]
# ## Your turn: convert to the order of another family
#
# GPT-NeoX stores the weights of query, key and value head by head: all three for head 0, then all
# three for head 1, and so on. To load GPT-2's weights into such a model, the columns must be
# reordered. Write `to_by_head(weight, heads)`: it takes a `c_attn.weight` of shape (in, 3 * embed),
# whose columns hold the queries of all heads first, then the keys, then the values, and returns the
# same columns ordered head by head.
#
# *Hint:* Three numbers identify a column: query, key or value (0 to 2), the head, and the index
# within the head. Reshape the last axis of `weight` into three axes in this order. Which two of
# them must be swapped?


# %% tags=["answer"]
def to_by_head(weight, heads):
    """Reorder the columns head by head, shape (in, 3 * embed)."""
    rows, columns = weight.shape
    parts = weight.reshape(rows, 3, heads, columns // (3 * heads))  # (in, three, head, head_dim)
    return parts.transpose(1, 2).reshape(rows, columns)


# %% tags=["check"]
check(
    to_by_head,
    cases=[(mt.randn(5, 12), 2), (mt.randn(2, 45), 5), (mt.randn(7, 9), 1)],
    expected=lambda weight, heads: mt.cat([
        third.chunk(heads, 1)[head] for head in range(heads) for third in weight.chunk(3, 1)
    ], 1),
    properties={
        "head 0's query comes first": lambda y, weight, heads: (
            y[:, : y.shape[1] // (3 * heads)] == weight[:, : y.shape[1] // (3 * heads)]
        ).all()
    },
)  # fmt: skip

# %% [markdown]
# Code that reads a file can turn some silent mistakes into errors if it checks what it reads. The
# library raises an error if the tensors in a folder are not exactly the tensors of the model.

# %%
from minitorch_attn.serialization import read_safetensors as library_read
from minitorch_attn.serialization import write_safetensors

found = library_read(folder / "model.safetensors")[1]
assert all((found[name] == array).all() for name, array in tensors.items())
del found[prefix + "ln_f.bias"]
damaged = folder.with_name("damaged")
model.save_pretrained(damaged)
write_safetensors(damaged / "model.safetensors", found)
with fails(mt.errors.CheckpointError):
    mt.models.from_pretrained(damaged)

# %% [markdown]
# ## In the library

# %%
from minitorch_attn.models.pretrained import folder as folders
from minitorch_attn.models.pretrained import gpt2 as family
from minitorch_attn.models.pretrained import names

where(
    library_read, folders.read_tensors, names.Transposed, names.Stacked,
    family.GPT2PreTrainedModel.names, family.GPT2PreTrainedModel.tied, mt.models.from_pretrained,
)  # fmt: skip

# %% [markdown]
# ## Exercise
#
# Now rebuild BERT from its file: save a `mt.models.pretrained.BertModel` in a folder (its config
# needs `vocab_size`, `hidden_size`, `num_hidden_layers`, `num_attention_heads` and
# `intermediate_size`), list its tensors, and rebuild the encoder in NumPy. In BERT, query, key and
# value are not fused, weights are (out, in), each norm follows a residual sum and has eps 1e-12,
# and GELU uses erf. You are done when your `last_hidden_state` agrees with the model's to `1e-4`.
# Then make each of the mistakes above and see which of them changes a shape.
#
# ## Three questions
#
# 1. Why does a wrong transpose of `c_attn` raise an error, while a wrong transpose of `attn.c_proj`
#    does not?
# 2. The file does not contain a tensor for the output layer. Where do the logits come from?
# 3. You have written GPT-2 in another framework, and its loss is correct to two digits. Which of
#    the mistakes above may your code still contain, and which test finds this mistake?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. `c_attn.weight` is (32, 96). Its transpose is (96, 32), which does not fit an input of 32
#    features. `attn.c_proj.weight` is (32, 32): its transpose has the same shape, the logits are
#    finite, and the loss is far higher.
# 2. The logits come from the transposed token embeddings, `wte.weight`: input and output are tied,
#    and the list of tensors does not contain `lm_head`.
# 3. Your code may still use the wrong one of the two formulas for GELU. Its loss is then correct to
#    about two digits, but the largest error of a logit is far above round-off. To find the mistake,
#    compare the logits, not the losses, with those of the original.
