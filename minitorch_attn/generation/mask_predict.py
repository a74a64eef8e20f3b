"""Mask-Predict: decode all tokens at once, then mask and predict the least probable tokens again.

Ghazvininejad et al. 2019, "Mask-Predict: Parallel Decoding of Conditional Masked Language Models",
arXiv:1904.09324v2, section 3. The number of passes does not depend on the length of the target.
"""

from .. import ops
from ..autograd.modes import no_grad
from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..nn import evaluating
from ..tensor import Tensor, tensor
from .processors import whole

__all__ = ["length_candidates", "mask_predict", "num_masks", "translate_in_parallel"]


@names_arguments
def num_masks(length, iteration, iterations):
    """Return the number of tokens that are masked before a pass: floor(N (T - t) / T).

    Parameters
    ----------
    length : int
        Number of tokens of the target, N.
    iteration : int
        Number of passes so far, t. Before the first pass, t is 0 and all tokens are masked.
    iterations : int
        Number of passes in total, T.

    Returns
    -------
    int

    References
    ----------
    .. [1] arXiv:1904.09324v2, section 3.1: the number of masks decays linearly.

    Examples
    --------
    >>> [num_masks(12, t, 4) for t in range(4)]
    [12, 9, 6, 3]
    """
    total = whole(iterations, "iterations", "num_masks")
    done = whole(iteration, "iteration", "num_masks", 0)
    if done > total:
        raise ArgumentError(
            "num_masks: iteration must not exceed iterations",
            got=f"iteration={done}, iterations={total}",
        )
    return whole(length, "length", "num_masks", 0) * (total - done) // total


@names_arguments
def length_candidates(length_logits, num_candidates):
    """Return the `num_candidates` most probable lengths of each target, most probable first.

    Parameters
    ----------
    length_logits : Tensor of shape (batch, length)
        Logits of the lengths 0, 1, 2, ...
    num_candidates : int

    Returns
    -------
    int64 Tensor of shape (batch, num_candidates)
        Lengths. If two lengths are equally probable, the shorter length comes first.

    References
    ----------
    .. [1] arXiv:1904.09324v2, section 3.3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> length_candidates(mt.tensor([[0.1, 2.0, 0.5, 3.0]]), 2).tolist()
    [[3, 1]]
    """
    count = whole(num_candidates, "num_candidates", "length_candidates")
    if length_logits.ndim != 2 or count > length_logits.shape[1]:
        raise ShapeError(
            "length_candidates: length_logits must have 2 axes and at least num_candidates lengths",
            got=f"length_logits {length_logits.shape} and num_candidates={count}",
            expected=f"(batch, length), with a length of at least {count}",
        )
    return length_logits.detach().argsort(1, descending=True, stable=True)[:, :count]


@computes("Mask-Predict")
@names_arguments
def mask_predict(predict, lengths, mask_token_id, pad_token_id=0, iterations=10):
    """Decode targets of known lengths in a constant number of passes.

    Parameters
    ----------
    predict : callable
        Function `predict(ids)` that returns logits of shape (batch, target, vocabulary). `ids` is
        an int64 Tensor of shape (batch, target), with `mask_token_id` at masked tokens.
    lengths : int64 Tensor of shape (batch,), or sequence of int
        Number N of tokens of each target. Shorter targets are padded at the end. If this is a
        Tensor, `ids` is on its device.
    mask_token_id : int
    pad_token_id : int, default 0
    iterations : int, default 10
        Number of passes, T.

    Returns
    -------
    ids : int64 Tensor of shape (batch, target)
    log_probs : Tensor of shape (batch, target)
        Log-probability log p_i of each token, from the pass that predicted it. 0 at padding.

    Raises
    ------
    ArgumentError, DTypeError, ShapeError
        If a length is negative, `iterations` is less than 1, or the logits have the wrong shape.

    Notes
    -----
    Let X be the source, Y_mask the masked tokens, and Y_obs the other tokens (section 3.1). Pass
    t = 0 predicts all tokens. Each later pass t = 1, ..., T - 1 computes

        n = floor(N (T - t) / T)                          number of masks
        Y_mask = the n tokens with the smallest p_i       (Eq. 1; in a tie, the earliest)
        y_i = argmax_w P(y_i = w | X, Y_obs)              for i in Y_mask (Eq. 3)
        p_i = max_w P(y_i = w | X, Y_obs)                 for i in Y_mask (Eq. 4)

    and the tokens in Y_obs keep y_i and p_i (Eqs. 2 and 5). A pass that would mask no token
    is skipped. The host reads `lengths` once.

    References
    ----------
    .. [1] arXiv:1904.09324v2, section 3.1.

    Examples
    --------
    Token 3 is certain. Token 4 becomes probable once the token before it is known:

    >>> import minitorch_attn as mt
    >>> def predict(ids):
    ...     known = (ids[:, :1] == 3).float()  # (batch, 1)
    ...     first = mt.tensor([[0.0, 0.0, 0.0, 9.0, 0.0]]).expand(len(ids), 5)
    ...     second = mt.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]]) + known * mt.tensor([0.0, 0, 0, 0, 5])
    ...     return mt.stack([first, second], 1)
    >>> for passes in (1, 2):
    ...     ids, log_probs = mask_predict(predict, [2], mask_token_id=1, iterations=passes)
    ...     print(ids.tolist())
    [[3, 2]]
    [[3, 4]]
    """
    total = whole(iterations, "iterations", "mask_predict")
    sizes = _sizes(lengths)
    device = lengths.device if isinstance(lengths, Tensor) else None
    longest = max(sizes, default=0)
    places = ops.arange(longest, device=device)
    real = places < _column(sizes, device)  # (batch, target)
    masked, ids, log_probs = real, ops.where(real, mask_token_id, pad_token_id), None
    for t in range(total):
        if t:
            counts = [num_masks(n, t, total) for n in sizes]
            if not any(counts):
                break
            masked = _least_probable(log_probs, real, _column(counts, device))
        logits = _checked(predict(ops.where(masked, mask_token_id, ids)), ids)
        new, new_ids = logits.detach().log_softmax(-1).max(-1)  # (batch, target)
        ids = ops.where(masked, new_ids, ids)
        log_probs = ops.where(masked, new, 0.0 if log_probs is None else log_probs)
    return ids, log_probs


def _least_probable(log_probs, real, counts):
    """Return a mask that is True for the `counts` (batch, 1) least probable tokens in each row."""
    order = ops.where(real, log_probs, float("inf")).argsort(1, stable=True)
    rank = order.argsort(1)  # (batch, target): 0 for the least probable token
    return rank < counts


def _column(counts, device):
    return tensor(counts, dtype="int64", device=device).unsqueeze(1)  # (batch, 1)


def _sizes(lengths):
    """Return the lengths as a list of int."""
    if isinstance(lengths, Tensor) and (lengths.ndim != 1 or lengths.dtype.kind not in "iu"):
        raise DTypeError(
            "mask_predict: lengths must be integers, one for each target",
            got=f"{lengths.dtype} of shape {lengths.shape}", expected="int64 of shape (batch,)",
        )  # fmt: skip
    values = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [whole(n, "lengths", "mask_predict", 0) for n in values]


def _checked(logits, ids):
    if logits.ndim != 3 or logits.shape[:2] != ids.shape:
        raise ShapeError(
            "mask_predict: predict must return logits for each token",
            got=f"logits {logits.shape} for ids {ids.shape}",
            expected="(batch, target, vocabulary)",
        )
    return logits


@names_arguments
def translate_in_parallel(model, source, iterations=10, num_candidates=5, source_mask=None):
    """Translate with a conditional masked language model, in a constant number of passes.

    Parameters
    ----------
    model : ConditionalMaskedLM
        Model, which is in eval mode while this runs.
    source : int64 Tensor of shape (batch, source)
    iterations : int, default 10
        Number of passes of the decoder.
    num_candidates : int, default 5
        Number of target lengths to try for each source. All of them are decoded at once.
    source_mask : Mask or bool Tensor, optional
        Mask for `model.encode`. Default: `model.padding_mask(source)`.

    Returns
    -------
    int64 Tensor of shape (batch, target)
        Translations, padded with `model.pad_id`. Each is the candidate with the highest mean
        log-probability of its tokens, (1/N) sum_i log p_i. A predicted length of 0 is changed to 1.

    Raises
    ------
    ArgumentError
        If the model has no padding token.

    References
    ----------
    .. [1] arXiv:1904.09324v2, section 3.3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.models.ConditionalMaskedLM(
    ...     11, embed_dim=6, num_heads=2, ff_dim=8, num_encoder_layers=1, num_decoder_layers=1,
    ...     max_target_len=7,
    ... )
    >>> ids = translate_in_parallel(model, mt.tensor([[4, 7, 5]]), iterations=4, num_candidates=2)
    >>> ids.shape[0], ids.shape[1] <= 7
    (1, True)
    """
    if model.pad_id is None:
        raise ArgumentError(
            "translate_in_parallel: the model must have a padding token",
            got="pad_id=None",
            hint="pass pad_id to ConditionalMaskedLM; it pads candidates of different lengths",
        )
    with evaluating(model), no_grad():
        if source_mask is None:
            source_mask = model.padding_mask(source)
        memory, length_logits = model.encode(source, source_mask)
        lengths = length_candidates(length_logits, num_candidates).clamp(1)
        attend = getattr(source_mask, "attend", source_mask)
        # The candidates of one source are adjacent rows: (batch * candidate, ...)
        memory = memory.repeat_interleave(num_candidates, 0)
        if attend.ndim == 4 and attend.shape[0] > 1:
            attend = attend.repeat_interleave(num_candidates, 0)
        ids, log_probs = mask_predict(
            lambda ids: model.decode(ids, memory, attend), lengths.flatten(), model.mask_id,
            model.pad_id, iterations,
        )  # fmt: skip
        score = log_probs.sum(1).reshape(*lengths.shape) / lengths  # (batch, candidate)
        batch = lengths.shape[0]
        best = score.argmax(1) + num_candidates * ops.arange(batch, device=ids.device)
        return ids.index_select(0, best)
