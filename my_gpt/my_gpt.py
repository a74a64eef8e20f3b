"""My GPT: from a number that knows its gradient to a model that writes. It needs only NumPy.

To train it on a text file, run `python my_gpt.py FILE`.
"""

import math
import sys

import numpy as np

# Step 1: a number that knows its gradient


class Value:
    """A number that remembers how it was computed, so that gradients can flow back through it.

    data: the number.
    grad: the derivative of the final result with respect to this number, 0.0 at first.
    parents: the Values from which it was computed.
    pull: a function that takes the gradient of this Value and returns a tuple with one gradient
    per parent. It is None for a number that was not computed from other Values.
    """

    def __init__(self, data, parents=(), pull=None):
        """Store the four fields; `grad` starts at 0.0."""
        self.data, self.grad = data, 0.0
        self.parents, self.pull = parents, pull

    def backward(self, grad=1.0):
        """Set this Value's gradient to `grad`, and compute `grad` of all Values it depends on.

        Go through the graph so that each Value comes before its parents. When you reach a Value,
        its own gradient is complete. Add what its pull returns to the gradients of its parents
        (parent.grad = parent.grad + ...), because a parent may be used several times.
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
        """Return `other` if it is a Value, otherwise a new type(self) object with data `other`."""
        return other if isinstance(other, Value) else type(self)(other)

    def __add__(self, other):
        """Return the sum c = a + b. Gradients: da = dc,  db = dc.

        dc stands for dL/dc, the gradient that pull receives, and da for dL/da, which pull returns.
        Return type(self)(c, (self, other), pull). `other` may be a plain number: lift it first.
        """
        other = self.lift(other)
        return type(self)(self.data + other.data, (self, other), lambda g: (g, g))

    def __mul__(self, other):
        """Return the product c = a b. Gradients: da = b dc,  db = a dc."""
        other = self.lift(other)
        a, b = self.data, other.data
        return type(self)(a * b, (self, other), lambda g: (g * b, g * a))

    def __pow__(self, power):
        """Return the power c = a^n for a plain number n. Gradient: da = n a^(n - 1) dc."""
        a = self.data
        return type(self)(a**power, (self,), lambda g: (g * power * a ** (power - 1),))

    def exp(self):
        """Return c = exp(a). Gradient: da = c dc. np.exp also accepts arrays (step 2)."""
        y = np.exp(self.data)
        return type(self)(y, (self,), lambda g: (g * y,))

    def log(self):
        """Return c = log(a), computed with np.log. Gradient: da = dc / a."""
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
    """Return the gradient of an array of shape `shape` that was broadcast to the shape of `grad`.

    Sum `grad` over the axes that `shape` does not have (they are on the left). Then sum it over the
    axes where `shape` has size 1, and keep these axes. The result has shape `shape`. If grad has it
    already, return grad. Where backward starts, grad may be the number 1.0: np.shape and np.sum
    accept numbers, too.
    """
    if np.shape(grad) == shape:
        return grad
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return grad.sum(axis=repeated, keepdims=True)


class Tensor(Value):
    """A Value whose `data` is an array. It inherits backward, powers, exp and log from Value.

    The shape of a Tensor x is x.data.shape. Its transpose is x.swapaxes(-1, -2).
    """

    def __add__(self, other):
        """Return c = a + b, broadcast. Gradients: da = unbroadcast(dc), db = unbroadcast(dc).

        `other` may be a number or an array. np.shape(other.data) works for either.
        """
        other = self.lift(other)
        a, b = self.data, other.data

        def pull(g):
            return unbroadcast(g, np.shape(a)), unbroadcast(g, np.shape(b))

        return Tensor(a + b, (self, other), pull)

    def __mul__(self, other):
        """Return c = a b, broadcast. Gradients: da = unbroadcast(b dc), db = unbroadcast(a dc)."""
        other = self.lift(other)
        a, b = self.data, other.data

        def pull(g):
            return unbroadcast(g * b, np.shape(a)), unbroadcast(g * a, np.shape(b))

        return Tensor(a * b, (self, other), pull)

    def __matmul__(self, other):
        """Return the matrix product C = A B. Gradients: dA = dC B^T, dB = A^T dC, both unbroadcast.

        The product is over the last two axes: A (..., n, k), B (..., k, m). The leading axes may
        differ, as for an x of shape (batch, token, k) and a weight of shape (k, m).
        """
        a, b = self.data, other.data

        def pull(g):
            grad_a, grad_b = g @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ g
            return unbroadcast(grad_a, a.shape), unbroadcast(grad_b, b.shape)

        return Tensor(a @ b, (self, other), pull)

    def sum(self, axis=None, keepdims=False):
        """Return the sum over an axis (None: all axes). Gradient: dx = dy, repeated along it."""
        x = self.data

        def pull(g):
            if axis is not None and not keepdims:
                g = np.expand_dims(g, axis)
            return (np.broadcast_to(g, x.shape),)

        return Tensor(x.sum(axis=axis, keepdims=keepdims), (self,), pull)

    def mean(self):
        """Return the mean over the last axis, which is kept with size 1. Use `sum`."""
        return self.sum(axis=-1, keepdims=True) * (1.0 / self.data.shape[-1])

    def reshape(self, *shape):
        """Return the same numbers in another shape. Gradient: dx = dy in the shape of x."""
        x = self.data
        return Tensor(x.reshape(shape), (self,), lambda g: (g.reshape(x.shape),))

    def swapaxes(self, first, second):
        """Return x with two axes swapped. Gradient: dx = dy with the same two axes swapped."""
        swapped = self.data.swapaxes(first, second)
        return Tensor(swapped, (self,), lambda g: (g.swapaxes(first, second),))


# Step 3: softmax and cross-entropy


def softmax(x):
    """Return the softmax over the last axis: y = exp(x) / sum(exp(x)),  dx = y (dy - sum(dy y)).

    x is a Tensor (..., class), and the result has the same shape. First subtract the largest x of
    each row, so that exp cannot overflow.
    """
    e = np.exp(x.data - x.data.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)

    def pull(g):
        return (y * (g - (g * y).sum(axis=-1, keepdims=True)),)

    return Tensor(y, (x,), pull)


def cross_entropy(logits, targets):
    """Return the loss, the mean of -log p[target]. Gradient: dlogits = dloss (p - onehot) / n.

    logits is a Tensor (..., class), targets has n integers (...), and p = softmax(logits). The loss
    has shape (). Compute log p = z - log(sum(exp(z))) with z = logits - max(logits). The logarithm
    of p itself could be log(0).
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

    The id of a character is its index in this string.
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
    """Draw random windows from a text. Return inputs and targets of shape (size, context).

    The windows start at starts = rng.integers(len(ids) - context, size=size). Input t of a window
    is ids[start + t], and its target is the next id, ids[start + t + 1].
    """
    starts = rng.integers(len(ids) - context, size=size)
    rows = ids[starts[:, None] + np.arange(context + 1)]  # (size, context + 1)
    return rows[:, :-1], rows[:, 1:]


def embedding(table, ids):
    """Return the rows table[ids]. Gradient: zeros, plus dy at the rows ids (use np.add.at).

    table is a Tensor (row, width), ids are integers (...), and the result is a Tensor (..., width).
    """

    def pull(g):
        grad = np.zeros_like(table.data)
        np.add.at(grad, ids, g)
        return (grad,)

    return Tensor(table.data[ids], (table,), pull)


def sample(model, ids, count, context, rng, temperature=0.8):
    """Continue a text by `count` characters. Return the list of all ids, old and new.

    model(window) takes an array (1, token) with the last `context` ids, and returns a Tensor of
    logits (1, token, character). The last row of softmax(logits / temperature) has the
    probabilities p of the next id. Draw this id with rng.choice(len(p), p=p). Compute p in float64,
    because choice checks that p sums to 1.
    """
    ids = list(ids)
    for _ in range(count):
        logits = model(np.array([ids[-context:]])).data[0, -1].astype(np.float64)
        p = softmax(Tensor(logits / temperature)).data
        ids.append(int(rng.choice(len(p), p=p)))
    return ids


# Step 5: one head of attention


def linear(x, p):
    """Return x W^T + b for x (..., in), with W = p["weight"] (out, in) and b = p["bias"] (out,)."""
    return x @ p["weight"].swapaxes(0, 1) + p["bias"]


def attention(query, key, value, mask=0.0):
    """Return the contexts softmax(query key^T / sqrt(d) + mask) value, a Tensor (..., n, e).

    query has shape (..., n, d), key (..., m, d) and value (..., m, e). mask is broadcast to the
    scores (..., n, m). Use math.sqrt(d), because np.sqrt(d) turns float32 into float64.
    """
    scores = query @ key.swapaxes(-1, -2) * (1.0 / math.sqrt(query.data.shape[-1]))
    return softmax(scores + mask) @ value


# Step 6: several heads, and a mask


def causal_mask(n):
    """Return a float32 array (n, n): 0 where query i may attend to key j (j <= i), else -inf."""
    return np.triu(np.full((n, n), -np.inf, dtype=np.float32), k=1)


def split_heads(x, heads):
    """Turn (batch, token, heads * d) into (batch, heads, token, d). Head 0: the first d columns."""
    rows, tokens, width = x.data.shape
    return x.reshape(rows, tokens, heads, width // heads).swapaxes(1, 2)


def merge_heads(x):
    """Undo split_heads: turn (batch, heads, token, d) into (batch, token, heads * d)."""
    rows, heads, tokens, d = x.data.shape
    return x.swapaxes(1, 2).reshape(rows, tokens, heads * d)


def multi_head(x, p, heads):
    """Return causal attention with several heads. x and the result are (batch, token, width).

    Compute query, key and value as linear layers of x with p["q_proj"], p["k_proj"], p["v_proj"],
    and split them into heads. Call `attention` with the causal mask, merge the heads, and apply the
    linear layer p["out_proj"].
    """
    query, key, value = (
        split_heads(linear(x, p[name]), heads) for name in ("q_proj", "k_proj", "v_proj")
    )
    context = attention(query, key, value, causal_mask(x.data.shape[1]))
    return linear(merge_heads(context), p["out_proj"])


# Step 7: the block, and the GPT


def layer_norm(x, p):
    """Return the layer norm over the last axis, (x - m) / sqrt(v + 1e-5) weight + bias.

    m is the mean of x, and v the mean of (x - m)^2. weight = p["weight"], bias = p["bias"]. Use
    operations of Tensor, which compute the gradient.
    """
    centered = x - x.mean()
    variance = (centered * centered).mean()
    return centered * (variance + 1e-5) ** -0.5 * p["weight"] + p["bias"]


def gelu(x):
    """Return GELU: y = x (1 + t) / 2 with t = tanh(u), u = sqrt(2 / pi) (x + 0.044715 x^3).

    dx = dy ((1 + t) / 2 + x (1 - t^2) / 2 du/dx),  du/dx = sqrt(2 / pi) (1 + 3 * 0.044715 x^2).
    Write x * x * x, because x**3 takes NumPy about a hundred times as long.
    """
    a, root = x.data, math.sqrt(2.0 / math.pi)
    t = np.tanh(root * (a + 0.044715 * a * a * a))

    def pull(g):
        slope = root * (1.0 + 3.0 * 0.044715 * a * a)
        return (g * 0.5 * (1.0 + t + a * (1.0 - t * t) * slope),)

    return Tensor(0.5 * a * (1.0 + t), (x,), pull)


def block(x, p, heads):
    """Apply a block: x <- x + multi_head(norm1(x)),  x <- x + linear2(gelu(linear1(norm2(x)))).

    x and the result have shape (batch, token, width). norm1 is layer_norm with p["norm1"], norm2
    with p["norm2"], and multi_head uses p["attention"]. p["feed_forward"] has the linear layers
    "linear1" and "linear2".
    """
    x = x + multi_head(layer_norm(x, p["norm1"]), p["attention"], heads)
    hidden = gelu(linear(layer_norm(x, p["norm2"]), p["feed_forward"]["linear1"]))
    return x + linear(hidden, p["feed_forward"]["linear2"])


def gpt(ids, p, heads):
    """Return the logits of the next character, (batch, token, character), for ids (batch, token).

    Add the embeddings of the ids (rows of p["token_embedding"]) and of the positions 0, 1, ...
    (rows of p["position_embedding"]). Apply each block of the list p["blocks"], then the norm
    p["norm"]. Multiply by the transpose of p["token_embedding"]: the output layer uses this matrix
    again.
    """
    x = embedding(p["token_embedding"], ids)
    x = x + embedding(p["position_embedding"], np.arange(ids.shape[1]))
    for q in p["blocks"]:
        x = block(x, q, heads)
    return layer_norm(x, p["norm"]) @ p["token_embedding"].swapaxes(0, 1)


def initialize(characters, context, width, layers, rng):
    """Return the nested dict p of a GPT, with float32 Tensors.

    characters is the number of different characters. The keys of p are "token_embedding"
    (characters, width), "position_embedding" (context, width), "blocks" (a list with one dict per
    layer) and "norm". A block has "norm1", "attention" ("q_proj", "k_proj", "v_proj", "out_proj"),
    "norm2" and "feed_forward" ("linear1", "linear2"). Each norm and each linear layer is a dict
    with "weight" and "bias".

    Embeddings and the weights (out, in) of linear layers are 0.02 rng.standard_normal(shape). The
    weights of out_proj and linear2 are also divided by sqrt(2 layers). All biases are 0, and the
    weights of norms are 1. The hidden layer between linear1 and linear2 has 4 * width features.
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
    """Return a list of all Tensors in the nested dicts and lists p, in the order of p."""
    if isinstance(p, Tensor):
        return [p]
    inner = p.values() if isinstance(p, dict) else p
    return [tensor for part in inner for tensor in parameters(part)]


def clip(tensors, limit=1.0):
    """Scale all gradients down if their norm exceeds `limit`. Return the norm before scaling.

    norm = sqrt(sum of the squares of all entries of all gradients). If norm > limit, multiply each
    gradient by limit / (norm + 1e-6).
    """
    norm = math.sqrt(sum(float((t.grad * t.grad).sum()) for t in tensors))
    if norm > limit:
        for t in tensors:
            t.grad = t.grad * (limit / (norm + 1e-6))
    return norm


class Adam:
    """The optimizer AdamW. Step t = 1, 2, ... updates each Tensor with gradient g as follows:

    data <- data - lr decay data,  only for Tensors with two axes or more
    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2
    data <- data - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + 1e-8)
    """

    def __init__(self, tensors, decay=0.1, b1=0.9, b2=0.95):
        """Store the arguments. Set t to 0, and create one m and one v of zeros for each Tensor."""
        self.tensors, self.decay, self.b1, self.b2, self.t = tensors, decay, b1, b2, 0
        self.m = [np.zeros_like(t.data) for t in tensors]
        self.v = [np.zeros_like(t.data) for t in tensors]

    def step(self, lr):
        """Update the data of every Tensor once. The data of a float32 Tensor stays float32."""
        self.t += 1
        for t, m, v in zip(self.tensors, self.m, self.v, strict=True):
            if t.data.ndim > 1:
                t.data *= 1.0 - lr * self.decay
            m += (1.0 - self.b1) * (t.grad - m)
            v += (1.0 - self.b2) * (t.grad * t.grad - v)
            root = np.sqrt(v / (1.0 - self.b2**self.t)) + 1e-8
            t.data -= lr / (1.0 - self.b1**self.t) * m / root


def learning_rate(step, steps, highest=3e-3, warmup=100):
    """Return the learning rate of a step: a linear warm-up, then a cosine down to highest / 10.

    `step` runs from 0 to steps - 1. First set warmup = min(warmup, steps // 4). For step < warmup,
    the rate is highest * (step + 1) / (warmup + 1). After the warm-up, it is
    highest * (0.1 + 0.9 * (1 + cos(pi * s)) / 2) with s = (step - warmup) / (steps - warmup).
    """
    warmup = min(warmup, steps // 4)
    if step < warmup:
        return highest * (step + 1) / (warmup + 1)
    s = (step - warmup) / (steps - warmup)
    return highest * (0.1 + 0.9 * (1.0 + math.cos(math.pi * s)) / 2.0)


def train(p, heads, batches, steps):
    """Train a GPT. Yield the loss of each step as a float, computed before the step's update.

    Each step gets (inputs, targets) from next(batches), sets every gradient to 0.0, runs
    `backward`, clips the gradients, and calls Adam's `step` with the learning rate of this step.
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
