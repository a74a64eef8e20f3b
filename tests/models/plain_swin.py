"""Reference implementation of Swin and Swin V2: one token at a time, in NumPy."""

import math

import numpy as np

import minitorch_attn as mt


def layer_norm(x, weights, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    return x * weights[name + ".weight"] + weights[name + ".bias"]


def linear(x, weights, name):
    return x @ weights[name + ".weight"].T + weights.get(name + ".bias", 0)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def table_bias(weights, name, window, head, dy, dx):
    """The learned number for one offset."""
    row = (dy + window[0] - 1) * (2 * window[1] - 1) + dx + window[1] - 1
    return weights[name + "attention.position_bias.table"][row, head]


def dot_score(query, key, weights, name, head):
    return query @ key / math.sqrt(len(query))


def plain_attention(x, weights, name, window, shift, heads, score=dot_score, bias=table_bias):
    """Window attention by its definition: windows start at `shift`, cut off at the map's edges.

    The map is padded with zeros to whole windows, which are tokens like all others.
    """
    height, width, embed = x.shape
    high, wide = (-(-n // w) * w for n, w in zip((height, width), window, strict=True))
    padded = np.zeros((high, wide, embed))
    padded[:height, :width] = x
    q, k, v = (linear(padded, weights, f"{name}attention.{p}_proj") for p in "qkv")
    dim, result = q.shape[-1] // heads, np.zeros((height, width, q.shape[-1]))
    places = [(y, x) for y in range(high) for x in range(wide)]
    window_of = {
        (y, x): ((y - shift[0]) // window[0], (x - shift[1]) // window[1]) for y, x in places
    }
    for y, x_ in [(y, x) for y in range(height) for x in range(width)]:
        near = [p for p in places if window_of[p] == window_of[y, x_]]
        for h in range(heads):
            part = slice(h * dim, (h + 1) * dim)
            scores = np.array(
                [
                    score(q[y, x_, part], k[a, b, part], weights, name, h)
                    + bias(weights, name, window, h, y - a, x_ - b)
                    for a, b in near
                ]
            )
            p = np.exp(scores - scores.max())
            result[y, x_, part] = sum(
                (w / p.sum()) * v[a, b, part] for w, (a, b) in zip(p, near, strict=True)
            )
    return linear(result, weights, name + "attention.out_proj")


def plain_merging(x):
    """Upper left, lower left, upper right, lower right of each 2 x 2 tokens."""
    height, width, embed = x.shape
    padded = np.zeros((height + height % 2, width + width % 2, embed))
    padded[:height, :width] = x
    return np.concatenate([padded[i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)


def plain_patches(image, weights, patch):
    """Conv2d with a stride as large as its kernel, by one product for each patch."""
    channels, height, width = image.shape
    kernel = weights["patch_embedding.projection.weight"].reshape(-1, channels * patch * patch)
    rows = [
        [
            kernel @ image[:, y : y + patch, x : x + patch].ravel()
            + weights["patch_embedding.projection.bias"]
            for x in range(0, width, patch)
        ]
        for y in range(0, height, patch)
    ]
    return layer_norm(np.array(rows), weights, "patch_embedding.norm")


def plain_block(x, weights, name, window, shift, heads):
    y = layer_norm(x, weights, name + "norm1")
    x = x + plain_attention(y, weights, name, window, shift, heads)
    y = linear(layer_norm(x, weights, name + "norm2"), weights, name + "feed_forward.linear1")
    return x + linear(gelu(y), weights, name + "feed_forward.linear2")


def plain_merge(x, weights, name):
    x = layer_norm(plain_merging(x), weights, name + "norm")
    return linear(x, weights, name + "reduction")


def cosine_score(query, key, weights, name, head):
    norms = (max(np.linalg.norm(x), 1e-12) for x in (query, key))  # padding is zeros
    cosine = query @ key / math.prod(norms)
    return cosine * min(np.exp(weights[name + "attention.logit_scale"][head, 0, 0]), 100.0)


def continuous_bias(weights, name, window, head, dy, dx, pretrained=None):
    """16 sigmoid(MLP(log-spaced offset)) for one offset."""
    place = []
    for offset, size in zip((dy, dx), pretrained or window, strict=True):
        x = offset * 8 / max(size - 1, 1)
        place.append(math.copysign(math.log2(abs(x) + 1) / 3, x))
    name += "attention.position_bias."
    hidden = np.maximum(linear(np.array(place), weights, name + "linear1"), 0)
    return 16 / (1 + np.exp(-linear(hidden, weights, name + "linear2")[head]))


def plain_block_v2(x, weights, name, window, shift, heads, bias=continuous_bias):
    y = plain_attention(x, weights, name, window, shift, heads, cosine_score, bias)
    x = x + layer_norm(y, weights, name + "norm1")
    y = linear(gelu(linear(x, weights, name + "feed_forward.linear1")), weights,
               name + "feed_forward.linear2")  # fmt: skip
    return x + layer_norm(y, weights, name + "norm2")


def plain_merge_v2(x, weights, name):
    return layer_norm(linear(plain_merging(x), weights, name + "reduction"), weights, name + "norm")


def plain_swin(
    weights, image, windows, shifts, heads, depths, patch=2, block=plain_block, merge=plain_merge
):
    x = plain_patches(image, weights, patch)
    for i, depth in enumerate(depths):
        if i:
            x = merge(x, weights, f"stages.{i}.merging.")
        for j in range(depth):
            shift = shifts[i] if j % 2 else (0, 0)
            x = block(x, weights, f"stages.{i}.blocks.{j}.", windows[i], shift, heads[i])
    return layer_norm(x, weights, "norm")


def randomised(model, seed=3):
    """The model in float64 and eval mode, every parameter at random."""
    rng = np.random.default_rng(seed)
    model = model.double().eval()
    for name, p in model.named_parameters():
        noise = rng.normal(size=p.shape) * 0.4
        p.data = mt.tensor(noise + 1 if "norm" in name and name.endswith("weight") else noise)
    return model
