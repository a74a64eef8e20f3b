# %% [markdown]
# # Training an encoder-decoder
#
# An encoder reads one text, and a decoder writes another. How does information get from the encoder
# to the decoder, and which encoder layer does each decoder layer read?
#
# *Prerequisites:* cross-entropy (lesson 5), masks (lesson 10), positions (lesson 12), residuals and
# norms (lesson 13).

# %%
import functools

import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.lesson import pick, show, where
from minitorch_attn.course.your_turn import check
from minitorch_attn.data.dates import characters_of_dates, date_pair, split_days
from minitorch_attn.data.pairs import GeneratedBatches, PairTokenizer
from minitorch_attn.generation import translate

mt.manual_seed(0)

# %% [markdown]
# ## The task, and the model
#
# The task is to read a date in one of two formats and to write it in ISO format, one character at a
# time. The dates in the test set do not occur in the training examples, in either format. The
# encoder has three layers, the decoder two.

# %%
tokenizer = PairTokenizer(characters_of_dates())
training_days, test_days = split_days()
FORMS = (4, 13)


def make_pair(generator):
    day = training_days[generator.integers(len(training_days))]
    return date_pair(day, FORMS[generator.integers(len(FORMS))])


test_pairs = [date_pair(day, FORMS[i % 2]) for i, day in enumerate(test_days[:150])]
for source, target in test_pairs[:3]:
    print(f"{source:>30} -> {target}")

model = mt.models.Transformer(
    len(tokenizer), embed_dim=64, num_heads=4, ff_dim=128, num_encoder_layers=3,
    num_decoder_layers=2, dropout=0.0, norm_first=True, pad_id=tokenizer.PAD, max_len=64,
)  # fmt: skip
print(f"{sum(p.numel() for p in model.parameters()):,} parameters")

# %% [markdown]
# ## Every decoder layer reads the encoder's last output
#
# Diagrams of encoder-decoder models often show an arrow from each encoder layer to a decoder layer,
# as if decoder layer 1 read encoder layer 1, and so on. (Deck COMP541, "Misconceptions about
# Transformers (2)", shows such a picture and the correct one; `docs/decks.md` lists the decks.) In
# the Transformer the whole encoder runs first. **Every** layer of the decoder reads the encoder's
# **last** output, the memory:
#
# ```
# memory = encoder(source)                   # (batch, source, d), once
# for layer in decoder.layers:
#     x = x + self_attention(norm(x))            # causal, to the target so far
#     x = x + cross_attention(norm(x), memory)   # queries from x, keys and values from memory
#     x = x + feed_forward(norm(x))
# ```
#
# To check this, we register a hook on each cross-attention module, which stores the module's
# inputs, and a hook on each encoder layer, which stores the layer's output.

# %%
sources, targets = (
    mt.tensor(tokenizer.encode(texts)) for texts in zip(*test_pairs[:3], strict=True)
)
received, handles = [], []
for layer in model.decoder.layers:
    hook = layer.cross_attention.register_forward_pre_hook(
        lambda module, arguments: received.append(arguments)
    )
    handles.append(hook)

with mt.no_grad(), mt.nn.collect_outputs(model.encoder.layers) as found:
    memory = model.encode(sources, model.padding_mask(sources))  # (batch, source, d)
    model.decode(targets, memory, model.padding_mask(sources))
for handle in handles:
    handle.remove()

encoder_outputs = [output for _, output in found]
print("source", sources.shape, "  target", targets.shape, "  memory", memory.shape)
for i, (queries, given) in enumerate(received, 1):
    print(f"decoder layer {i} got queries {queries.shape} and memory {given.shape}:", end=" ")
    print("the same tensor as the encoder's output:", given is memory)
assert all(given is memory for _, given in received)

last = model.encoder.norm(encoder_outputs[-1])
for i, output in enumerate(encoder_outputs, 1):
    distance = (model.encoder.norm(output) - memory).abs().max().item()
    print(f"memory and the normalized output of encoder layer {i} differ by {distance:.2g}")
assert (last - memory).abs().max() == 0
assert (model.encoder.norm(encoder_outputs[0]) - memory).abs().max() > 0.1

# %% [markdown]
# A one-to-one connection of the layers is not even possible here, because there are three encoder
# layers and two decoder layers. Each decoder layer has its own queries, and its own matrices
# $W^K, W^V$ that it applies to the memory.

# %%
first, second = (layer.cross_attention for layer in model.decoder.layers)
assert first.k_proj.weight is not second.k_proj.weight
with mt.no_grad():
    query, key = first.q_proj(received[0][0]), first.k_proj(memory)
print("cross-attention: queries", query.shape, "keys", key.shape)
scores = (first.num_heads, query.shape[1], key.shape[1])
print("scores of each example (heads, target, source):", scores)
assert query.shape[1] == targets.shape[1] != key.shape[1] == sources.shape[1]

# %% [markdown] tags=["your-turn"]
# ## Your turn: cross-attention
#
# Write one head of cross-attention, `cross_attention(x, memory, attend, wq, wk, wv)`, without
# biases. The arguments are:
#
# * `x`, the decoder's tokens, of shape (batch, target, d);
# * `memory`, the encoder's output, of shape (batch, source, e);
# * `attend`, a boolean mask of shape (batch, source), which is True where the source has a
#   character, and False where it is padding;
# * `wq` of shape (width, d), `wk` and `wv` of shape (width, e): the weights, as in `nn.Linear`.
#
# *Hint:* Write down the shape of the scores first: a row for each target token, a column for each
# source token. Which axis does the softmax go over? And where does the mask of shape
# (batch, source) need an axis of size 1?


# %% tags=["answer"]
def cross_attention(x, memory, attend, wq, wk, wv):
    """Return what each target token reads from the memory, shape (batch, target, width)."""
    query, key, value = x @ wq.T, memory @ wk.T, memory @ wv.T
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5  # (batch, target, source)
    scores = scores.masked_fill(~attend.unsqueeze(1), -float("inf"))
    return scores.softmax(-1) @ value


# %% tags=["check"]
check(
    cross_attention,
    cases=[
        (
            *(mt.randn(2, 3, 5), mt.randn(2, 7, 2), mt.arange(7) < mt.tensor([[4], [7]])),
            *(mt.randn(11, 5), mt.randn(11, 2), mt.randn(11, 2)),
        ),
        (
            *(mt.randn(3, 1, 2), mt.randn(3, 5, 3), mt.arange(5) < mt.tensor([[1], [3], [2]])),
            *(mt.randn(7, 2), mt.randn(7, 3), mt.randn(7, 3)),
        ),
    ],
    expected=lambda x, memory, attend, wq, wk, wv: mt.ops.scaled_dot_product_attention(
        x @ wq.T, memory @ wk.T, memory @ wv.T, attend.unsqueeze(1)
    ),
    properties={
        "padding has no influence": lambda y, x, memory, attend, *w: np.allclose(
            cross_attention(x, memory + 9 * ~attend.unsqueeze(-1), attend, *w).numpy(), y.numpy()
        ),
        "the order of the memory does not matter": lambda y, x, memory, attend, *w: np.allclose(
            cross_attention(x, memory.flip(1), attend.flip(1), *w).numpy(), y.numpy()
        ),
    },
)

# %% [markdown]
# The order of the memory does not matter to the decoder: the second property in the check reverses
# the memory and its mask, and the result stays the same. The decoder knows the order of the source
# only because the encoder added positions to its tokens.
#
# ## Training: teacher forcing
#
# The decoder receives the correct answer shifted by one place to the right. It starts with START
# and must predict the first character. Then it receives the first character and must predict the
# second, and so on. The causal mask hides the later characters, so one forward pass trains all
# positions at once.


# %%
def decoder_input(target):
    start = mt.full((target.shape[0], 1), tokenizer.START, dtype="int64")
    return mt.cat([start, target[:, :-1]], 1)  # (batch, target)


def shown(ids):
    names = {tokenizer.PAD: "_", tokenizer.START: "<", tokenizer.END: ">"}
    return "".join(names.get(i) or tokenizer.decode([i]) for i in ids.tolist())


print("decoder reads ", shown(decoder_input(targets)[0]))
print("must write    ", shown(targets[0]))

# %% [markdown] tags=["your-turn"]
# ## Your turn: the loss of a padded batch
#
# The answers of a batch have different lengths and are padded. Write
# `character_loss(logits, target, pad)`: the mean of $-\log p(\text{target})$ over all characters of
# the batch that are not padding. The logits have shape (batch, target, vocabulary), the target
# holds ids of shape (batch, target), and `pad` is the id of the padding.
#
# *Hint:* `log_softmax(-1)` gives the log-probabilities of all characters. To pick one entry from
# each row, give the ids an axis at the end: `log_p.gather(-1, target.unsqueeze(-1))`. What must you
# divide the sum by?


# %% tags=["answer"]
def character_loss(logits, target, pad):
    """Return the mean of -log p over all targets that are not padding, a number."""
    log_p = logits.log_softmax(-1)  # (batch, target, vocabulary)
    picked = log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)  # (batch, target)
    real = target != pad
    return -(picked * real).sum() / real.sum()


# %% tags=["check"]
check(
    character_loss,
    cases=[
        (mt.randn(2, 3, 7), mt.tensor([[4, 0, 0], [2, 5, 3]]), 0),
        (
            5 * mt.randn(3, 5, 11),
            mt.tensor([[1, 2, 2, 2, 2], [7, 1, 10, 2, 2], [3, 5, 9, 8, 1]]),
            2,
        ),
        (mt.randn(1, 1, 2), mt.tensor([[1]]), 0),
    ],
    expected=lambda logits, target, pad: mt.nn.functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=pad
    ),
    properties={
        "more padding changes nothing": lambda loss, logits, target, pad: np.allclose(
            character_loss(
                mt.cat([logits, logits], 1), mt.cat([target, mt.full_like(target, pad)], 1), pad
            ).item(),
            loss.item(),
        ),
    },
)

# %%
steps, warmup, top = pick(400, 280), 60, 4e-3
batches = GeneratedBatches(make_pair, tokenizer, batch_size=32)
optimizer = mt.optim.AdamW(model.parameters(), lr=top, betas=(0.9, 0.98))
print("step   loss, nats per character")
for step in range(1, steps + 1):
    source, target = next(batches)
    optimizer.param_groups[0]["lr"] = top * min(step / warmup, 1.02 - step / steps)
    logits = model(source, decoder_input(target))  # (batch, target, vocabulary)
    loss = mt.nn.functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=tokenizer.PAD
    )
    optimizer.zero_grad()
    loss.backward()
    mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step == 1 or step % (steps // 5) == 0:
        print(f"{step:4}{loss.item():8.3f}")

# %% [markdown]
# ## Generation: one character after the other
#
# Generation is different from training, because the decoder receives the characters that it
# generated itself.

# %% [markdown] tags=["your-turn"]
# ## Your turn: write until END
#
# Write `write_greedily(decode, start, end, length)`. The function `decode(ids)` returns logits of
# shape (batch, token, vocabulary) for ids of shape (batch, token). `start` holds the first ids,
# shape (batch, 1). Append the most likely next id `length` times, and return what was appended,
# shape (batch, length).
#
# The texts of a batch do not end at the same time: once `end` has been appended to a text, only 0
# is appended to it from then on, while the others continue.
#
# *Hint:* Keep a boolean tensor `done` of shape (batch, 1), at first False everywhere. In each step,
# `decode(ids)[:, -1:].argmax(-1)` is the next id of every text. Does `end` itself become 0?


# %% tags=["answer"]
def write_greedily(decode, start, end, length):
    """Return the generated ids, shape (batch, length). The ids after `end` are 0."""
    ids, done = start, start != start  # (batch, 1), nothing is done
    for _ in range(length):
        token = decode(ids)[:, -1:].argmax(-1)  # (batch, 1)
        ids = mt.cat([ids, token.masked_fill(done, 0)], 1)
        done = done | (token == end)
    return ids[:, start.shape[1] :]


# %% tags=["check"]
check(
    write_greedily,
    cases=[  # the next id is the sum of all ids so far, plus 1, modulo 7
        (lambda ids: mt.arange(7) == (ids.cumsum(1) + 1).unsqueeze(-1) % 7, *case)
        for case in ((mt.tensor([[2], [3], [5]]), 5, 5), (mt.tensor([[1]]), 6, 11))
    ],
    expected=lambda decode, start, end, length: (
        ids := functools.reduce(
            lambda ids, _: mt.cat([ids, decode(ids)[:, -1:].argmax(-1)], 1), range(length), start
        )[:, 1:]
    ).masked_fill((ids == end).cumsum(1) > (ids == end), 0),
    properties={
        "after `end` there is only 0": lambda ids, decode, start, end, length: (
            not ids[(ids == end).cumsum(1) > (ids == end)].any()
        ),
    },
)

# %% [markdown]
# `translate` encodes the source once and generates characters until END.


# %%
def write(sources):
    ids = mt.tensor(tokenizer.encode(sources))
    written = translate(model, ids, tokenizer.START, tokenizer.END, max_new_tokens=12)
    return [tokenizer.decode(row) for row in written.numpy()]


given, wanted = zip(*test_pairs, strict=True)
written = write(given)
exact = np.mean([a == b for a, b in zip(written, wanted, strict=True)])
for source, answer, target in list(zip(given, written, wanted, strict=True))[:3]:
    print(f"{source:>30} -> {answer}  {'correct' if answer == target else 'wrong'}")
print(f"{100 * exact:.1f} % of {len(given)} new dates are written without a mistake")
assert exact > 0.6

# %% [markdown]
# ## Which source characters the decoder attends to
#
# The next figure shows the cross-attention weights of the last decoder layer for each character of
# the answer, averaged over the heads. For the year, the decoder attends to the end of the source.
# For the month, it attends mostly to the name or the number of the month.


# %%
def cross_weights(source, target):
    ids = [mt.tensor(tokenizer.encode([text])) for text in (source, target)]
    with mt.no_grad(), mt.nn.collect_attention(model.decoder) as found:
        model(ids[0], decoder_input(ids[1]))
    weights = found[-1][1].numpy()[0].mean(0)  # (target, source)
    return weights[: len(target), : len(source)]


maps = [(cross_weights(*pair), *map(list, pair)) for pair in test_pairs[:3]]

# %% tags=["plot"]
show(
    mt.viz.cross_attention_figure(maps, "Cross-attention of the last decoder layer"),
    "The rows of the year (the first four) look at the end of the source. A row is computed before "
    "its character is written, so the first row looks for the first digit.",
)

# %% [markdown]
# ## The decoder sees the source only through the memory
#
# The decoder does not read the source itself. If we swap the memories of two dates and change
# nothing else, the decoder writes the other date in each case.

# %%
pair = [test_pairs[0], test_pairs[2]]  # two dates in the same form
ids = mt.tensor(tokenizer.encode([source for source, _ in pair]))
with mt.no_grad():
    mask = model.padding_mask(ids)
    memory = model.encode(ids, mask)
    swapped = memory.flip(0)


def write_from(memory, mask):
    ids = mt.full((memory.shape[0], 1), tokenizer.START, dtype="int64")
    with mt.no_grad():
        for _ in range(11):
            ids = mt.cat([ids, model.decode(ids, memory, mask)[:, -1:].argmax(-1)], 1)
    return [tokenizer.decode(row) for row in ids[:, 1:].numpy()]


own, other = (
    write_from(memory, mask),
    write_from(swapped, mt.masks.from_attend(mask.attend.flip(0))),
)
print("own memory:    ", own)
print("memory swapped:", other)
assert other == own[::-1]

# %% [markdown]
# ## What goes wrong if the decoder is connected to the encoder incorrectly
#
# Here are three mistakes that we build into the trained model:
#
# * **No memory**: the decoder receives zeros. It still writes something that looks like a date.
# * **Layer by layer**: decoder layer $i$ receives the output of encoder layer $i$. The third
#   encoder layer is not used.
# * **No padding mask**: if a batch contains dates of different lengths, encoder and decoder also
#   attend to the padding of the shorter ones.

# %% [markdown] tags=["predict"]
# ## Predict, then run
#
# What percentage of the answers is still correct with each of these mistakes? The model was never
# trained with any of them. Write down three numbers, then run the next cell.


# %%
def layer_by_layer(target, outputs, mask):
    x = model.target_embedding(target)
    for layer, memory in zip(model.decoder.layers, outputs, strict=False):
        x = layer(x, model.encoder.norm(memory), memory_mask=mask)
    return model.head(model.decoder.norm(x))


ids = mt.tensor(tokenizer.encode(given))
with mt.no_grad(), mt.nn.collect_outputs(model.encoder.layers) as found:
    mask = model.padding_mask(ids)
    memory = model.encode(ids, mask)
    outputs = [output for _, output in found]
    answers = mt.full((len(given), 1), tokenizer.START, dtype="int64")
    for _ in range(11):
        token = layer_by_layer(answers, outputs, mask)[:, -1:].argmax(-1)
        answers = mt.cat([answers, token], 1)
    unmasked = model.encode(ids)  # no padding mask

broken = {
    "no memory": write_from(mt.zeros_like(memory), mask),
    "layer by layer": [tokenizer.decode(row) for row in answers[:, 1:].numpy()],
    "no padding mask": write_from(unmasked, None),
}
share = {"as trained": exact}
print(f"as trained       {100 * exact:5.1f} % correct, for example {written[0]} ({given[0]})")
for name, texts in broken.items():
    share[name] = np.mean([a == b for a, b in zip(texts, wanted, strict=True)])
    print(f"{name:<16} {100 * share[name]:5.1f} % correct, for example {texts[0]}")

assert share["no memory"] < 0.05
assert len(set(broken["no memory"])) == 1  # the same answer for every source
assert share["layer by layer"] < exact
assert share["no padding mask"] < exact

# %% [markdown]
# Without memory, every answer is wrong. The other two mistakes spoil only some of the answers: a
# decoder that reads the wrong encoder layers still writes most dates correctly, because the
# residual paths make the outputs of the layers similar. Such mistakes easily go unnoticed. So
# compare intermediate tensors, as above, and not only the final answers.

# %% [markdown]
# ## In the library

# %%
where(mt.models.encoder_decoder.EncoderDecoder, mt.models.encoder_decoder.DecoderLayer.forward)
where(mt.models.encoder_decoder.Decoder.forward, mt.models.Transformer, translate)
where(mt.data.pairs.PairTokenizer, mt.viz.cross_attention_figure)

# %% [markdown]
# ## Exercise
#
# Train a model with three encoder layers and one decoder layer, and another one with one encoder
# layer and three decoder layers, for the same number of steps. For each, measure the share of
# exact answers and the time of `write(given)` (`time.perf_counter`). You are done when you can say
# which of the two should be deep, the encoder or the decoder, if the model must generate many texts
# quickly. Why does the encoder's depth take so little time during generation?
#
# Then practice:
#
# ```sh
# mta exercise start 25
# ```
#
# ## Three questions
#
# 1. The encoder has three layers, the decoder two. Which encoder layer does decoder layer 1 read?
#    How did the lesson show that?
# 2. The source and the target have different lengths. Which axis of the cross-attention's scores
#    belongs to the source and which to the target, and where do queries, keys and values come from?
# 3. Without memory the decoder still writes digits and dashes. What can it learn without the
#    encoder, and what can it not learn?

# %% [markdown] tags=["answers"]
# ## Answers
#
# 1. It reads the last encoder layer, as decoder layer 2 does. Both received the same tensor, which
#    is the normalized output of encoder layer 3 (difference 0), not that of layer 1 or 2.
# 2. The scores have shape (heads, target, source). Queries come from the decoder, one per target
#    token. Keys and values come from the memory, one per source token.
# 3. It can learn the format, digits with dashes between them, through the causal self-attention. It
#    cannot learn which date to write: it writes the same answer for every source, since only the
#    memory contains the date.
