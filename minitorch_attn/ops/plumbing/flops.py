"""FLOPs: the number of floating-point operations in the forward and backward pass of an op."""

from math import prod

__all__ = ["FLOPS", "backward_flops", "forward_flops"]


def _linear(inputs, outputs):
    return 2 * prod(outputs[0].shape) * inputs[0].shape[-1]


def _projections(inputs, outputs):
    # x (..., in), weight_1 (out_1, in), bias_1, weight_2, ...
    return 2 * prod(inputs[0].shape) * sum(w.shape[0] for w in inputs[1::2])


def _feed_forward(inputs, outputs):
    # weight1 (hidden, in)   weight2 (out, hidden)
    return 2 * prod(outputs[0].shape[:-1]) * (prod(inputs[1].shape) + prod(inputs[3].shape))


def _attention(inputs, outputs):
    # query (..., query, dim)   key (..., key, dim)   value (..., key, value_dim)
    *lead, queries, value_dim = outputs[0].shape
    keys, dim = inputs[1].shape[-2:]
    return 2 * prod(lead) * queries * keys * (dim + value_dim)


def _additive(inputs, outputs):
    # query (..., query, hidden)   key (..., key, hidden)   context (..., query, dim)
    *lead, queries, dim = outputs[0].shape
    keys, hidden = inputs[1].shape[-2:]
    return 2 * prod(lead) * queries * keys * (hidden + dim)


def _sliding_window(inputs, outputs, kernel):
    # query (batch, heads, dim, *places)   value (batch, heads, value_dim, height, width)
    batch, heads, dim, *places = inputs[0].shape
    dims = dim * (1 if inputs[4] is None else 2) + outputs[0].shape[2]  # 2 with relative vectors
    return 2 * batch * heads * prod(places) * kernel**2 * dims


def _convolution(inputs, outputs):
    # weight (out, in / groups, *kernel): in / groups * kernel products per element of the output
    return 2 * prod(outputs[0].shape) * prod(inputs[1].shape[1:])


def _transposed_convolution(inputs, outputs):
    return 2 * prod(inputs[0].shape) * prod(inputs[1].shape[1:])


def _recurrent(first_weight):
    def count(inputs, outputs):
        # x (row, input), then two matrices, and a third if the LSTM has a projection
        rows = inputs[0].shape[0]
        weights = [w for w in inputs[first_weight:] if w is not None and len(w.shape) == 2]
        return 2 * rows * sum(prod(w.shape) for w in weights)

    return count


# A multiply-add counts as two operations. Elementwise operations are not counted, as is usual; in
# a Transformer of width 768, one operation in two hundred is elementwise.
FLOPS = {
    "AdditiveAttention": _additive,
    "Attention": _attention,
    "CausalAttention": _attention,  # counts masked scores, too
    "Conv": _convolution,
    "ConvNormRelu": _convolution,
    "ConvTransposed": _transposed_convolution,
    "FeedForward": _feed_forward,
    "FeedForwardInBlocks": _feed_forward,
    "GruSequence": _recurrent(2),
    "Linear": _linear,
    "LstmSequence": _recurrent(3),
    "MatMul": _linear,
    "Projections": _projections,
    "RnnSequence": _recurrent(2),
    "TiledAttention": _attention,
}


def forward_flops(ctx, inputs, outputs):
    """Number of floating-point operations in the forward pass of an op; 0 for elementwise ops.

    Parameters
    ----------
    ctx : Context
    inputs : sequence of Tensor
    outputs : Tensor or tuple of Tensor
    """
    outputs = outputs if type(outputs) is tuple else (outputs,)
    name = ctx.function.__name__
    if name == "SlidingWindowAttention":  # the shapes of the inputs do not contain the window size
        return _sliding_window(inputs, outputs, ctx.settings["kernel"])
    if name == "RingAttention":  # `key` holds only the keys of this rank
        return _attention(inputs, outputs) * ctx.plan.ring.size
    return FLOPS[name](inputs, outputs) if name in FLOPS else 0


def backward_flops(name, flops, needs_grad):
    """Number of floating-point operations in an op's backward pass, derived from its forward pass.

    A matrix product has two factors, and the gradient of each factor is one product of the same
    size. The forward pass of attention has two products, so the backward pass has four. Tiled
    attention needs a fifth product to recompute the scores. A feed-forward network also has two
    products; its blockwise version recomputes the first of them in the backward pass.

    Parameters
    ----------
    name : str
        Name of the op's class.
    flops : int
        Number of operations in its forward pass.
    needs_grad : sequence
        For each input, whether it needs a gradient.
    """
    if name in ("Conv", "ConvNormRelu", "ConvTransposed", "Linear", "MatMul"):
        return flops * sum(1 for edge in needs_grad[:2] if edge)
    if name == "Projections":  # exact if all layers have the same size, as they usually do
        x, weights = bool(needs_grad[0]), needs_grad[1::2]
        return flops * (x * len(weights) + sum(map(bool, weights))) // len(weights)
    if name in ("FeedForward", "FeedForwardInBlocks"):
        x, weight1, bias1, weight2, _ = map(bool, needs_grad)
        products = x + weight1 + weight2 + (x or weight1 or bias1)
        return flops * (products + (name != "FeedForward")) // 2
    return flops * 5 // 2 if name in ("RingAttention", "TiledAttention") else flops * 2
