"""My GPT: from a number that knows its gradient to a model that writes. It needs only NumPy.

To train it on a text file, run `python my_gpt.py FILE`.
"""

import math
import sys

import numpy as np

# Step 1: a number that knows its gradient


class Value:
    """A number that remembers how it was computed, so that gradients can flow back through it.

    data: the number. grad: the derivative of the end result with respect to it, 0.0 at first.
    parents: the Values from which it was computed.
    pull: a function that takes the gradient of this Value and returns a tuple with one gradient
    per parent; None for a number that was not computed.
    """

    def __init__(self, data, parents=(), pull=None):
        """Store the four fields; `grad` starts at 0.0."""
        self.data, self.grad = data, 0.0
        self.parents, self.pull = parents, pull

    def backward(self, grad=1.0):
        """Fill `grad` of every Value that this one depends on; `grad` is the gradient of this one.

        A Value passes its gradient to its parents only after everything computed from it has
        passed its own: go through the graph in order, results before parents, and add
        (parent.grad = parent.grad + ...) because a parent may be used several times.
        """
        order, seen = [], set()

        def visit(node):
            if node not in seen:
                seen.add(node)
                for parent in node.parents:
                    visit(parent)
                order.append(node)

        visit(self)
        self.grad = grad
        for node in reversed(order):
            if node.pull is not None:
                for parent, g in zip(node.parents, node.pull(node.grad), strict=True):
                    parent.grad = parent.grad + g

    def lift(self, other):
        """Return `other` if it is a Value, otherwise a new object of type(self) that holds it."""
        return other if isinstance(other, Value) else type(self)(other)

    def __add__(self, other):
        """c = a + b,  da = dc,  db = dc. `other` may be a plain number: lift it.

        Here dc stands for dL/dc, the gradient that arrives, and da for dL/da, which pull returns.
        Return type(self)(c, (self, other), pull).
        """
        other = self.lift(other)
        return type(self)(self.data + other.data, (self, other), lambda g: (g, g))

    def __mul__(self, other):
        """c = a b,  da = dc b,  db = dc a."""
        other = self.lift(other)
        a, b = self.data, other.data
        return type(self)(a * b, (self, other), lambda g: (g * b, g * a))

    def __pow__(self, power):
        """c = a^n for a plain number n,  da = dc n a^(n - 1)."""
        a = self.data
        return type(self)(a**power, (self,), lambda g: (g * power * a ** (power - 1),))

    def exp(self):
        """c = exp(a),  da = dc c. Use np.exp: it takes numbers and, later, arrays."""
        y = np.exp(self.data)
        return type(self)(y, (self,), lambda g: (g * y,))

    def log(self):
        """c = log(a),  da = dc / a. Use np.log."""
        return type(self)(np.log(self.data), (self,), lambda g: (g / self.data,))

    # Given: the other operators follow from +, * and **.

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -self.lift(other)

    def __truediv__(self, other):
        return self * self.lift(other) ** -1

    def __radd__(self, other):
        return self + other

    def __rmul__(self, other):
        return self * other


# Step 2: a tensor, with broadcasting


def unbroadcast(grad, shape):
    """Sum a gradient over the axes along which broadcasting repeated an array of this shape.

    Sum away the axes that `shape` does not have (they are on the left), then sum, keeping the
    axis, where `shape` has size 1. Return an array of this shape. Where backward starts, the
    gradient may be the number 1.0; np.shape and np.sum take numbers and arrays.
    """
    if np.shape(grad) == shape:
        return grad
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return grad.sum(axis=repeated, keepdims=True)


class Tensor(Value):
    """A Value whose `data` is an array. Its backward, powers, exp and log are those of Value.

    The shape of a Tensor x is x.data.shape; x.swapaxes(-1, -2) is its transpose.
    """

    def __add__(self, other):
        """c = a + b with broadcasting,  da = unbroadcast(dc),  db = unbroadcast(dc).

        `other` may be a number or an array: np.shape(other.data) is the shape of either.
        """
        other = self.lift(other)
        a, b = self.data, other.data

        def pull(g):
            return unbroadcast(g, np.shape(a)), unbroadcast(g, np.shape(b))

        return Tensor(a + b, (self, other), pull)

    def __mul__(self, other):
        """c = a b with broadcasting,  da = unbroadcast(dc b),  db = unbroadcast(dc a)."""
        other = self.lift(other)
        a, b = self.data, other.data

        def pull(g):
            return unbroadcast(g * b, np.shape(a)), unbroadcast(g * a, np.shape(b))

        return Tensor(a * b, (self, other), pull)

    def __matmul__(self, other):
        """C = A B for the last two axes,  dA = dC B^T,  dB = A^T dC,  both unbroadcast.

        A (..., n, k) and B (..., k, m) may have different leading axes, like x (batch, token, k)
        and a weight (k, m).
        """
        a, b = self.data, other.data

        def pull(g):
            grad_a, grad_b = g @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ g
            return unbroadcast(grad_a, a.shape), unbroadcast(grad_b, b.shape)

        return Tensor(a @ b, (self, other), pull)

    def sum(self, axis=None, keepdims=False):
        """y = sum of x over an axis (all axes for None),  dx = dy, repeated along that axis."""
        x = self.data

        def pull(g):
            if axis is not None and not keepdims:
                g = np.expand_dims(g, axis)
            return (np.broadcast_to(g, x.shape),)

        return Tensor(x.sum(axis=axis, keepdims=keepdims), (self,), pull)

    def mean(self):
        """y = mean of x over the last axis, which is kept with size 1. Use `sum`."""
        return self.sum(axis=-1, keepdims=True) * (1.0 / self.data.shape[-1])

    def reshape(self, *shape):
        """y = the same numbers in another shape,  dx = dy in the shape of x."""
        x = self.data
        return Tensor(x.reshape(shape), (self,), lambda g: (g.reshape(x.shape),))

    def swapaxes(self, first, second):
        """y = x with two axes swapped,  dx = dy with the same two axes swapped."""
        swapped = self.data.swapaxes(first, second)
        return Tensor(swapped, (self,), lambda g: (g.swapaxes(first, second),))


# Step 3: softmax and cross-entropy


def softmax(x):
    """y = exp(x) / sum(exp(x)) over the last axis,  dx = y (dy - sum(dy y)).

    x: Tensor (..., class). Return a Tensor of the same shape. Subtract the largest x of each row
    first, so that exp cannot overflow.
    """
    e = np.exp(x.data - x.data.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)

    def pull(g):
        return (y * (g - (g * y).sum(axis=-1, keepdims=True)),)

    return Tensor(y, (x,), pull)


def cross_entropy(logits, targets):
    """loss = mean of -log p[target], p = softmax(logits),  dlogits = dloss (p - onehot) / n.

    logits: Tensor (..., class). targets: integers (...), n of them. The loss has shape ().
    Use log p = z - log(sum(exp(z))) with z = logits - max(logits): the log of p could be log(0).
    """
    z = logits.data - logits.data.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    chosen = np.take_along_axis(log_p, targets[..., None], axis=-1)

    def pull(g):
        grad = np.exp(log_p)
        np.put_along_axis(grad, targets[..., None], np.exp(chosen) - 1, axis=-1)
        return (grad * (g / targets.size),)

    return Tensor(-chosen.mean(), (logits,), pull)


# Step 4: a bigram model


def vocabulary(text):
    """Return the different characters of a text, sorted, as one string.

    The id of a character is its place in this string.
    """
    return "".join(sorted(set(text)))


def encode(text, characters):
    """Return the ids of a text's characters as an array of int64."""
    ids = {character: i for i, character in enumerate(characters)}
    return np.array([ids[character] for character in text], dtype=np.int64)


def decode(ids, characters):
    """Return the text that consists of the characters with these ids."""
    return "".join(characters[i] for i in ids)


def batch(ids, size, context, rng):
    """Draw windows from a text. Return inputs and targets of shape (size, context).

    starts = rng.integers(len(ids) - context, size=size). Input t of a window is ids[start + t];
    its target is the character after it, ids[start + t + 1].
    """
    starts = rng.integers(len(ids) - context, size=size)
    rows = ids[starts[:, None] + np.arange(context + 1)]  # (size, context + 1)
    return rows[:, :-1], rows[:, 1:]


def embedding(table, ids):
    """y = table[ids],  dtable = zeros, to which dy is added at the rows ids (np.add.at).

    table: Tensor (row, width). ids: integers of any shape (...). Return a Tensor (..., width).
    """

    def pull(g):
        grad = np.zeros_like(table.data)
        np.add.at(grad, ids, g)
        return (grad,)

    return Tensor(table.data[ids], (table,), pull)


def sample(model, ids, count, context, rng, temperature=0.8):
    """Continue a text by `count` characters. Return the list of all ids.

    model(window) takes the last `context` ids, an array (1, token), and returns a Tensor of logits
    (1, token, character). The last row of softmax(logits / temperature) gives the probabilities p
    of the next id, which is rng.choice(len(p), p=p). Compute p in float64: choice wants a sum of 1.
    """
    ids = list(ids)
    for _ in range(count):
        logits = model(np.array([ids[-context:]])).data[0, -1].astype(np.float64)
        p = softmax(Tensor(logits / temperature)).data
        ids.append(int(rng.choice(len(p), p=p)))
    return ids


# Step 5: one head of attention


def linear(x, p):
    """y = x W^T + b with W = p["weight"] (out, in) and b = p["bias"] (out,). x: (..., in)."""
    return x @ p["weight"].swapaxes(0, 1) + p["bias"]


def attention(query, key, value, mask=0.0):
    """softmax(query key^T / sqrt(d) + mask) value, where d is the last size of query.

    query (..., n, d), key (..., m, d), value (..., m, e); mask broadcasts to the scores
    (..., n, m). Return a Tensor (..., n, e). Use math.sqrt: np.sqrt(d) turns float32 into float64.
    """
    scores = query @ key.swapaxes(-1, -2) * (1.0 / math.sqrt(query.data.shape[-1]))
    return softmax(scores + mask) @ value


# Step 6: several heads, and a mask


def causal_mask(n):
    """Return a float32 array (n, n): 0 where query i may see key j, that is j <= i, else -inf."""
    return np.triu(np.full((n, n), -np.inf, dtype=np.float32), k=1)


def split_heads(x, heads):
    """(batch, token, heads * d) -> (batch, heads, token, d). Head 0 has the first d columns."""
    rows, tokens, width = x.data.shape
    return x.reshape(rows, tokens, heads, width // heads).swapaxes(1, 2)


def merge_heads(x):
    """(batch, heads, token, d) -> (batch, token, heads * d), the inverse of split_heads."""
    rows, heads, tokens, d = x.data.shape
    return x.swapaxes(1, 2).reshape(rows, tokens, heads * d)


def multi_head(x, p, heads):
    """Causal attention with several heads. x and the result: (batch, token, width).

    query, key and value are linear(x, p["q_proj"]), p["k_proj"] and p["v_proj"], split into heads;
    the merged result of `attention`, with the causal mask, goes through p["out_proj"].
    """
    query, key, value = (
        split_heads(linear(x, p[name]), heads) for name in ("q_proj", "k_proj", "v_proj")
    )
    context = attention(query, key, value, causal_mask(x.data.shape[1]))
    return linear(merge_heads(context), p["out_proj"])


# Step 7: the block, and the GPT


def layer_norm(x, p):
    """y = (x - m) / sqrt(v + 1e-5) weight + bias, with mean m and variance v of the last axis.

    v is the mean of (x - m)^2. weight = p["weight"], bias = p["bias"]. Tensor's own operations
    give the gradient.
    """
    centered = x - x.mean()
    variance = (centered * centered).mean()
    return centered * (variance + 1e-5) ** -0.5 * p["weight"] + p["bias"]


def gelu(x):
    """y = x (1 + t) / 2,  t = tanh(u),  u = sqrt(2 / pi) (x + 0.044715 x^3).

    dx = dy ((1 + t) / 2 + x (1 - t^2) / 2 du/dx),  du/dx = sqrt(2 / pi) (1 + 3 0.044715 x^2).
    Write x * x * x: NumPy takes about a hundred times as long for x**3.
    """
    a, root = x.data, math.sqrt(2.0 / math.pi)
    t = np.tanh(root * (a + 0.044715 * a * a * a))

    def pull(g):
        slope = root * (1.0 + 3.0 * 0.044715 * a * a)
        return (g * 0.5 * (1.0 + t + a * (1.0 - t * t) * slope),)

    return Tensor(0.5 * a * (1.0 + t), (x,), pull)


def block(x, p, heads):
    """x <- x + multi_head(norm1(x)),  x <- x + linear2(gelu(linear1(norm2(x)))).

    x and the result: (batch, token, width). norm1 is layer_norm with p["norm1"], and so on;
    multi_head has p["attention"], and p["feed_forward"] has "linear1" and "linear2".
    """
    x = x + multi_head(layer_norm(x, p["norm1"]), p["attention"], heads)
    hidden = gelu(linear(layer_norm(x, p["norm2"]), p["feed_forward"]["linear1"]))
    return x + linear(hidden, p["feed_forward"]["linear2"])


def gpt(ids, p, heads):
    """Logits of the next character, (batch, token, character), for ids (batch, token).

    Add the embeddings of the ids, rows of p["token_embedding"], and of the positions 0, 1, ...,
    rows of p["position_embedding"]. Then come the p["blocks"], a list, and p["norm"]. The logits
    are products with the rows of p["token_embedding"]: one matrix serves both input and output.
    """
    x = embedding(p["token_embedding"], ids)
    x = x + embedding(p["position_embedding"], np.arange(ids.shape[1]))
    for q in p["blocks"]:
        x = block(x, q, heads)
    return layer_norm(x, p["norm"]) @ p["token_embedding"].swapaxes(0, 1)


def initialize(characters, context, width, layers, rng):
    """Return the nested dict p of a GPT, with float32 Tensors.

    characters: how many different ones there are. The keys: "token_embedding" (characters, width),
    "position_embedding" (context, width), "blocks", a list with one dict per layer, and "norm". A
    block has "norm1", "attention" ("q_proj", "k_proj", "v_proj", "out_proj"), "norm2" and
    "feed_forward" ("linear1", "linear2"). Each norm and linear layer has "weight" and "bias".

    Weights are 0.02 rng.standard_normal(shape), where linear weights are (out, in). Those of
    out_proj and linear2 are divided by sqrt(2 layers). Biases are 0, the weights of norms 1. The
    feed-forward network is four times as wide.
    """

    def normal(*shape, std=0.02):
        return Tensor((std * rng.standard_normal(shape)).astype(np.float32))

    def layer(n_out, n_in, std=0.02):
        bias = Tensor(np.zeros(n_out, dtype=np.float32))
        return {"weight": normal(n_out, n_in, std=std), "bias": bias}

    def norm():
        one, zero = np.ones(width, dtype=np.float32), np.zeros(width, dtype=np.float32)
        return {"weight": Tensor(one), "bias": Tensor(zero)}

    def one_block():
        last = 0.02 / math.sqrt(2 * layers)
        attention = {name: layer(width, width) for name in ("q_proj", "k_proj", "v_proj")}
        attention["out_proj"] = layer(width, width, last)
        wide = {"linear1": layer(4 * width, width), "linear2": layer(width, 4 * width, last)}
        return {"norm1": norm(), "attention": attention, "norm2": norm(), "feed_forward": wide}

    return {
        "token_embedding": normal(characters, width),
        "position_embedding": normal(context, width),
        "blocks": [one_block() for _ in range(layers)],
        "norm": norm(),
    }


# Step 8: training


def parameters(p):
    """Return the list of all Tensors in nested dicts and lists, in their order."""
    if isinstance(p, Tensor):
        return [p]
    inner = p.values() if isinstance(p, dict) else p
    return [tensor for part in inner for tensor in parameters(part)]


def clip(tensors, limit=1.0):
    """If the norm of all gradients exceeds `limit`, multiply each by limit / (norm + 1e-6).

    norm = sqrt(sum of the squares of all entries of all gradients). Return the norm.
    """
    norm = math.sqrt(sum(float((t.grad * t.grad).sum()) for t in tensors))
    if norm > limit:
        for t in tensors:
            t.grad = t.grad * (limit / (norm + 1e-6))
    return norm


class Adam:
    """AdamW. For each Tensor with gradient g, at step t = 1, 2, ...:

    data <- data - lr decay data,  only for Tensors with two axes or more
    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2
    data <- data - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)
    """

    def __init__(self, tensors, decay=0.1, b1=0.9, b2=0.95):
        """Store the settings; t, m and v are 0 at first, with one m and one v per Tensor."""
        self.tensors, self.decay, self.b1, self.b2, self.t = tensors, decay, b1, b2, 0
        self.m = [np.zeros_like(t.data) for t in tensors]
        self.v = [np.zeros_like(t.data) for t in tensors]

    def step(self, lr):
        """Change the data of every Tensor once. The data of a float32 Tensor stays float32."""
        self.t += 1
        for t, m, v in zip(self.tensors, self.m, self.v, strict=True):
            if t.data.ndim > 1:
                t.data *= 1.0 - lr * self.decay
            m += (1.0 - self.b1) * (t.grad - m)
            v += (1.0 - self.b2) * (t.grad * t.grad - v)
            root = np.sqrt(v / (1.0 - self.b2**self.t)) + 1e-8
            t.data -= lr / (1.0 - self.b1**self.t) * m / root


def learning_rate(step, steps, highest=3e-3, warmup=100):
    """Linear warm-up, then a cosine down to a tenth. `step` counts from 0; there are `steps`.

    First, warmup = min(warmup, steps // 4). For step < warmup: highest (step + 1) / (warmup + 1).
    After it, with s = (step - warmup) / (steps - warmup): highest (0.1 + 0.9 (1 + cos(pi s)) / 2).
    """
    warmup = min(warmup, steps // 4)
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    s = (step - warmup) / (steps - warmup)
    return highest * (0.1 + 0.9 * (1.0 + math.cos(math.pi * s)) / 2.0)


def train(p, heads, batches, steps):
    """Train a GPT. Yield the loss of each step, as a float, before its update.

    Each step takes (inputs, targets) from next(batches), sets every gradient to 0.0, runs
    `backward`, clips, and lets Adam take one step at the step's learning rate.
    """
    tensors = parameters(p)
    adam = Adam(tensors)
    for step in range(steps):
        inputs, targets = next(batches)
        loss = cross_entropy(gpt(inputs, p, heads), targets)
        for t in tensors:
            t.grad = 0.0
        loss.backward()
        clip(tensors)
        adam.step(learning_rate(step, steps))
        yield float(loss.data)


def main(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    characters, rng = vocabulary(text), np.random.default_rng(1)
    ids = encode(text, characters)
    p = initialize(len(characters), context=64, width=128, layers=4, rng=rng)
    batches = iter(lambda: batch(ids, 12, 64, rng), None)
    for step, loss in enumerate(train(p, 4, batches, steps=1500)):
        if step % 100 == 0:
            print(f"step {step:5}  loss {loss:.3f}")
    written = sample(lambda window: gpt(window, p, 4), ids[:64], 400, 64, rng)
    print(decode(written[64:], characters))


if __name__ == "__main__":
    main(sys.argv[1])
