"""Sliding-window attention on images: each position attends to the k x k window around it.

This attention replaces convolutions in local relation networks (Hu et al. 2019, arXiv:1904.11491v2)
and in stand-alone self-attention (Ramachandran et al. 2019, arXiv:1906.05909v1). The windows
overlap; the windows of the Swin Transformer do not.
"""

import math
from functools import partial

from ...autograd.autocast import mixes
from ...autograd.function import Function
from ...backend import array_module, matmul
from ...backend.row_reductions import row_blocks, window_dots
from ...backend.threads import threads_for, together
from ...computes import computes
from ...errors import ArgumentError, DTypeError, ShapeError
from ...tensor import wrap
from ..fold import unfold
from ..plumbing.window_runs import WindowRuns
from ..softmax import softmax, softmax_in_place

__all__ = ["sliding_window_attention", "sliding_window_weights"]

SCORES = ("product", "squared_difference", "absolute_difference")
BLOCK = 2**18  # weights in a block, which then fits into a core's cache


@computes("sliding-window attention", reveals=("attention", "softmax", "masked softmax"))
class SlidingWindowAttention(Function):
    r"""Attention of each position to the window around it, without copying the windows.

    Forward:  out = sum(softmax(score(query, key) + bias + query @ relative) * value), per window
    Backward: with the softmax weights p and g = grad_out, ds = p * (sum(g * value) - sum(g * out)),
        grad_value = p * g, grad_key = ds * dscore/dkey, both added at the window's positions,
        grad_query = sum(ds * dscore/dquery) + ds @ relative^T, grad_relative = query^T @ ds,
        grad_bias = ds summed over the output positions

    Index o runs over the positions of the output, and w over the entries of a window. Entry w
    of the window around o is the image position o + w; outside the image, keys and values are 0.
    For each image and head, with query q, key k, value v, bias b, relative r, features d and e:
        scores   s_ow = sum_d q_do k_d,o+w + sum_d q_do r_dw + b_w         for "product";
                 -sum_d (q_do - k_d,o+w)^2 + b_w                for "squared_difference";
                 -sum_d abs(q_do - k_d,o+w) + b_w               for "absolute_difference"
        weights  p_ow = exp(s_ow) / sum_u exp(s_ou)
        output   y_eo = sum_w p_ow v_e,o+w.

    Derivation: with g = dL/dy, from the last equation to the first. For an image position i, the
    sum over o + w = i has one term for each window that contains i:
        dL/dv_ei = sum_{o + w = i} p_ow g_eo
        dL/dp_ow = sum_e g_eo v_e,o+w
        dL/ds_ow = p_ow (dL/dp_ow - sum_e g_eo y_eo)           see `Attention`
        dL/dq_do = sum_w dL/ds_ow (k_d,o+w + r_dw)             for "product"
        dL/dk_di = sum_{o + w = i} dL/ds_ow q_do               for "product"
        dL/dr_dw = sum_o dL/ds_ow q_do,   dL/db_w = sum_o dL/ds_ow.
    The derivatives of the other scores with respect to q are -2 (q - k) and -sign(q - k), and those
    with respect to k are the negatives of these.

    The windows are never copied: for each w, the values k_d,o+w for all o form one contiguous run
    of memory (`WindowRuns`). The work is done in blocks that fit into the cache.
    Saved: query, key, value, bias, relative and output; the weights p as intermediates.
    """

    @staticmethod
    def forward(ctx, query, key, value, bias, relative, *, kernel, stride, score, mask_padding):
        # query (batch, heads, dim, *places)  key (batch, heads, dim, *size)  value: value_dim
        xp = array_module(query)
        runs = WindowRuns(key.shape[-2:], kernel, stride)
        q, k, v = _arranged(runs, query, key, value)
        items, heads = len(q), query.shape[1]
        weights = xp.empty((items, kernel * kernel, runs.length), dtype=q.dtype)
        y = xp.zeros((items, v.shape[1], runs.length), dtype=q.dtype)
        blocked = _blocked(runs, xp, q.dtype) if mask_padding else None

        def attend(part):
            s = weights[part]
            _score(runs, score, q[part], k[part], s)
            if relative is not None:  # (item, entry, dim) @ (item, dim, length)
                s += matmul(_per_item(relative, part, heads).swapaxes(1, 2), q[part])
            if bias is not None:
                s += _per_item(bias, part, heads)[..., None]
            if blocked is not None:
                s += blocked
            softmax_in_place(s, 1)
            _weighted_sum(runs, s, v[part], y[part])

        _in_blocks(attend, weights)
        out = runs.places_of(y).reshape(*query.shape[:2], v.shape[1], *runs.places)
        ctx.runs = runs
        ctx.save(query, key, value, bias, relative, out)
        ctx.save_intermediate(weights)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        query, key, value, bias, relative, out = ctx.saved
        (weights,) = ctx.intermediate
        xp, runs, score = array_module(query), ctx.runs, ctx.settings["score"]
        heads, kernel = query.shape[1], runs.kernel
        q, k, v = _arranged(runs, query, key, value)
        g, y = runs.runs_of(_flat(grad_out)), runs.runs_of(_flat(out))
        grad_q, grad_k, grad_v = xp.zeros_like(q), xp.zeros_like(k), xp.zeros_like(v)
        sums = xp.empty((len(q), kernel * kernel), dtype=q.dtype)  # sums of ds over positions
        products = None  # ds^T q, for grad_relative
        if relative is not None:
            products = xp.empty((len(q), *relative.shape[1:]), dtype=q.dtype)

        def differentiate(part):
            p, ds = weights[part], xp.empty(weights[part].shape, dtype=q.dtype)
            _add_to_windows(runs, p, g[part], grad_v[part])
            _window_dots(runs, g[part], v[part], ds)  # ds holds dL/dp here
            ds -= (g[part] * y[part]).sum(axis=1, keepdims=True)
            ds *= p
            _score_gradient(runs, score, ds, (q[part], k[part]), (grad_q[part], grad_k[part]))
            sums[part] = ds.sum(axis=2)
            if relative is not None:
                products[part] = matmul(q[part], ds.swapaxes(1, 2))
                grad_q[part] += matmul(_per_item(relative, part, heads), ds)

        _in_blocks(differentiate, weights)
        by_head = lambda x: x.reshape(-1, heads, *x.shape[1:]).sum(axis=0)  # noqa: E731
        return (
            runs.places_of(grad_q).reshape(query.shape),
            runs.collect(grad_k).reshape(key.shape),
            runs.collect(grad_v).reshape(value.shape),
            None if bias is None else by_head(sums),
            None if relative is None else by_head(products),
        )

    @staticmethod
    def composed(ctx, query, key, value, bias, relative, **settings):
        """Compute the output step by step, from copies of the windows."""
        return _definition(query, key, value, bias, relative, **settings)[0]


def _flat(x):
    """Merge the batch and head axes into one axis; an item is one head of one image."""
    return x.reshape(-1, *x.shape[2:])


def _arranged(runs, query, key, value):
    """Convert query, key and value to the memory layouts of `runs`; each window has one query."""
    return runs.runs_of(_flat(query)), runs.spread(_flat(key)), runs.spread(_flat(value))


def _in_blocks(work, weights):
    """Call `work(part)` for each part of the items (the first axis of the attention weights).

    A part is a slice of the items, small enough that its attention weights fit in the cache.
    """
    parts = row_blocks(weights, max(1, BLOCK // max(math.prod(weights.shape[1:]), 1)))

    def some(mine):
        for part in mine:
            work(part)

    threads = min(threads_for(weights), len(parts))
    together([partial(some, parts[i::threads]) for i in range(threads)])


def _per_item(x, part, heads):
    """For each item in the slice `part`, return the entry of x (heads, ...) for the item's head."""
    return x[array_module(x).arange(part.start, part.stop) % heads]


def _blocked(runs, xp, dtype):
    """Return an array (entry, length): -inf for window entries outside the image, 0 elsewhere."""
    inside = runs.spread(xp.ones((1, 1, *runs.size), dtype=dtype))
    rows = [inside[0, 0, phase, start : start + runs.length] for phase, start in runs.entries]
    return xp.where(xp.stack(rows) > 0, xp.zeros((), dtype=dtype), -xp.inf)


def _score(runs, score, q, k, out):
    """Write the scores of q (item, dim, length) and its windows to `out` (item, entry, length)."""
    by_place = out.reshape(len(q), runs.kernel, runs.kernel, runs.length)
    for windows, (rows, columns) in runs.views(k):
        part = by_place[:, rows, columns]
        if score == "product":
            window_dots(q, windows, part)
            continue
        part[...] = 0
        for feature in range(q.shape[1]):
            difference = q[:, feature, None, None] - windows[:, feature]
            part -= abs(difference) if score == "absolute_difference" else difference * difference


def _weighted_sum(runs, p, v, out):
    """Add the values of each window, multiplied by its weights, to `out` (item, dim, length)."""
    product = array_module(v).empty_like(out)
    for entry, (phase, start) in enumerate(runs.entries):
        window = v[:, :, phase, start : start + runs.length]
        array_module(v).multiply(p[:, entry, None], window, out=product)
        out += product


def _add_to_windows(runs, p, g, out):
    """Add the weights p times the output gradients g to the windows of the value gradient `out`."""
    product = array_module(g).empty_like(g)
    for entry, (phase, start) in enumerate(runs.entries):
        array_module(g).multiply(p[:, entry, None], g, out=product)
        out[:, :, phase, start : start + runs.length] += product


def _window_dots(runs, g, v, out):
    """Write the dot products of each output gradient with the values of its window to `out`."""
    by_place = out.reshape(len(g), runs.kernel, runs.kernel, runs.length)
    for windows, (rows, columns) in runs.views(v):
        window_dots(g, windows, by_place[:, rows, columns])


def _score_gradient(runs, score, ds, inputs, grads):
    """Add the gradients of query and key, computed from the score gradients `ds`, to `grads`."""
    (q, k), (grad_q, grad_k) = inputs, grads
    xp = array_module(q)
    term = xp.empty_like(grad_q)
    for entry, (phase, start) in enumerate(runs.entries):
        here = (slice(None), slice(None), phase, slice(start, start + runs.length))
        d = ds[:, entry, None]
        if score == "product":
            grad_q += xp.multiply(d, k[here], out=term)
            grad_k[here] += xp.multiply(d, q, out=term)
            continue
        xp.subtract(q, k[here], out=term)
        slope = term * 2 if score == "squared_difference" else xp.sign(term)  # for -score
        slope *= d
        grad_q -= slope
        grad_k[here] += slope


def _definition(query, key, value, bias, relative, *, kernel, stride, score, mask_padding):
    """Return the output and the weights (batch, heads, entry, *places), using copied windows."""
    batch, heads, dim, *places = query.shape
    count = math.prod(places)

    def windows(x):  # (batch, heads, channel, *size) -> (batch, heads, channel, entry, place)
        columns = unfold(x.flatten(0, 1), kernel, padding=kernel // 2, stride=stride)
        return columns.reshape(*x.shape[:3], kernel * kernel, count)

    q, k, v = query.reshape(batch, heads, dim, 1, count), windows(key), windows(value)
    if score == "product":
        scores = (q * k).sum(2)
    else:
        difference = q - k
        squared = score == "squared_difference"
        scores = -(difference * difference if squared else difference.abs()).sum(2)
    if relative is not None:  # (heads, entry, dim) @ (batch, heads, dim, place)
        scores = scores + relative.transpose(-1, -2) @ q.squeeze(3)
    if bias is not None:
        scores = scores + bias.unsqueeze(-1)
    if mask_padding:
        ones = wrap(array_module(key.array).ones((1, 1, 1, *key.shape[-2:]), dtype=key.dtype))
        scores = scores.masked_fill(windows(ones)[:, :, 0] == 0, -math.inf)
    weights = softmax(scores, 2)  # (batch, heads, entry, place)
    out = (weights.unsqueeze(2) * v).sum(3)  # (batch, heads, value_dim, place)
    return out.reshape(batch, heads, value.shape[2], *places), weights.unflatten(3, places)


def sliding_window_attention(
    query, key, value, kernel_size, bias=None, *, relative=None, stride=1, score="product",
    mask_padding=False,
):  # fmt: skip
    """Attention of each position of an image to the window around it.

    Parameters
    ----------
    query : Tensor of shape (batch, heads, dim, *places)
        One query for each window. `*places` are the numbers of windows along the two axes:
        (height - 1) // stride + 1 and (width - 1) // stride + 1.
    key : Tensor of shape (batch, heads, dim, height, width)
    value : Tensor of shape (batch, heads, value_dim, height, width)
        All channels of a head share the attention weights.
    kernel_size : int
        Height and width of a window, an odd number.
    bias : Tensor of shape (heads, kernel_size**2), optional
        Number added to the scores, for each entry of the window in row-major order.
    relative : Tensor of shape (heads, dim, kernel_size**2), optional
        Vector added to the keys, for each entry of the window; only for "product".
    stride : int
        Step between the centers of neighboring windows. The first center is in the first row and
        column.
    score : {"product", "squared_difference", "absolute_difference"}
        q . k, -|q - k|^2, or the sum of -|q - k| over the features. Scores are not scaled.
    mask_padding : bool
        Whether positions outside the image get weight 0. Otherwise their keys and values are zeros,
        and they take part in the softmax.

    Returns
    -------
    Tensor of shape (batch, heads, value_dim, *places)

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        If a setting is not supported, or dtypes or shapes do not match.

    Notes
    -----
    The derivative is in `SlidingWindowAttention`.

    References
    ----------
    .. [1] Hu et al. 2019, arXiv:1904.11491v2, section 3.
    .. [2] Ramachandran et al. 2019, arXiv:1906.05909v1, Eqs. 2 and 3.

    Examples
    --------
    If all scores are 0, each output is the mean over its 3 x 3 window. The padding counts as zeros,
    unless `mask_padding` is True:

    >>> import minitorch_attn as mt
    >>> q = k = mt.zeros(1, 1, 1, 2, 2)
    >>> sliding_window_attention(q, k, mt.ones(1, 1, 1, 2, 2), 3, mask_padding=True)[0, 0, 0]
    tensor([[1., 1.],
            [1., 1.]])
    >>> sliding_window_attention(q, k, mt.ones(1, 1, 1, 2, 2), 3)[0, 0, 0]
    tensor([[0.4444, 0.4444],
            [0.4444, 0.4444]])
    """
    how = _checked(query, key, value, bias, relative, kernel_size, stride, score, mask_padding)
    return SlidingWindowAttention.apply(query, key, value, bias, relative, **how)


@computes("sliding-window attention", reveals=("attention",))
def sliding_window_weights(
    query, key, value, kernel_size, bias=None, *, relative=None, stride=1, score="product",
    mask_padding=False,
):  # fmt: skip
    """Compute `sliding_window_attention` step by step, and return the weights as well.

    The arguments are those of `sliding_window_attention`. All windows are copied.

    Returns
    -------
    output : Tensor of shape (batch, heads, value_dim, *places)
    weights : Tensor of shape (batch, heads, kernel_size**2, *places)
    """
    how = _checked(query, key, value, bias, relative, kernel_size, stride, score, mask_padding)
    return _definition(query, key, value, bias, relative, **how)


def _checked(query, key, value, bias, relative, kernel_size, stride, score, mask_padding):
    """Check the arguments. Return the settings of the operation."""
    where = "sliding_window_attention"
    if score not in SCORES or (relative is not None and score != "product"):
        raise ArgumentError(
            f"{where}: score is not supported",
            got=f"score={score!r}{'' if relative is None else ' with relative'}",
            expected=f"one of {', '.join(SCORES)}; with relative, only 'product'",
        )
    if kernel_size < 1 or kernel_size % 2 == 0 or stride < 1:
        raise ArgumentError(
            f"{where}: kernel_size must be odd and positive, and stride must be positive",
            got=f"kernel_size={kernel_size} and stride={stride}",
            hint="use kernel_size=7, for example, so that a window has a center",
        )
    given = {"query": query, "key": key, "value": value, "bias": bias, "relative": relative}
    given = {name: x for name, x in given.items() if x is not None}
    if len({x.dtype for x in given.values()}) > 1 and not mixes(*given.values()):
        raise DTypeError(
            f"{where}: the inputs have different dtypes",
            got=", ".join(f"{name} {x.dtype}" for name, x in given.items()),
        )
    fits = query.ndim == key.ndim == value.ndim == 5
    if fits:
        lead, dim, entries = query.shape[:2], query.shape[2], kernel_size**2
        places = tuple([(n - 1) // stride + 1 for n in key.shape[3:]])
        expected = {
            "query": (*key.shape[:3], *places), "value": (*lead, value.shape[2], *key.shape[3:]),
            "bias": (lead[1], entries), "relative": (lead[1], dim, entries),
        }  # fmt: skip
        fits = all(given[name].shape == shape for name, shape in expected.items() if name in given)
    if not fits or 0 in key.shape[3:]:
        raise ShapeError(
            f"{where}: the shapes do not match",
            got=", ".join(f"{name} {x.shape}" for name, x in given.items()),
            expected="query (batch, heads, dim, *places), key (batch, heads, dim, height, width), "
            "value (batch, heads, value_dim, height, width), bias (heads, kernel_size**2), "
            "relative (heads, dim, kernel_size**2)",
            hint="pass one query per window: each of *places is (size - 1) // stride + 1",
        )
    return {
        "kernel": kernel_size, "stride": stride, "score": score, "mask_padding": bool(mask_padding),
    }  # fmt: skip
