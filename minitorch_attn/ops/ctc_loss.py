"""Connectionist temporal classification (CTC): a loss for label sequences without alignments."""

from ..autograd.function import Function
from ..backend import array_module, check_same_device, scatter_add
from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor, tensor, wrap
from .cat_split import stack
from .cross_entropy import reduction_of
from .pad import pad
from .plumbing.range_check import InvalidValue, check_range, check_values
from .plumbing.tensor_arguments import not_tensors
from .softmax import logsumexp
from .where import where

__all__ = ["ctc_loss"]

FLOOR = -1e30  # stands for log 0 in the composed version, because inf - inf would be NaN


@computes("CTC loss")
class CtcLoss(Function):
    r"""Negative log-likelihood of label sequences under CTC, one loss per sequence.

    Forward:  loss = -log sum over alignments of prod_t y_t(label of the alignment at frame t)
    Backward: grad_log_probs = -grad_loss * P(the alignment has label k at frame t | target)

    The equations are those of Graves et al., ICML 2006. Let y_t(k) = exp(log_probs_t(k)). An
    alignment pi gives each of the T frames a label or a blank. Merging repeats and then dropping
    blanks turns it into the target l. Eqs. 2 and 3:
        p(pi | x) = prod_t y_t(pi_t),   p(l | x) = sum of p(pi | x) over all pi that give l.
    Let l' be the target with a blank before, between and after its labels: 2 |l| + 1 states. From
    state s, an alignment stays, moves to s + 1, or skips the blank to s + 2. Only a blank between
    two different labels can be skipped: without it, equal labels would merge into one.
    skip(s) is 1 if the blank before state s can be skipped, else 0.

    Forward variables (Eqs. 5 to 7): a_t(s) is the total probability of all alignments of the
    first t frames that end in state s,
        a_t(s) = (a_{t-1}(s) + a_{t-1}(s-1) + skip(s) a_{t-1}(s-2)) y_t(l'_s),
    with a_1 = y_1(l'_s) in the first two states and 0 elsewhere. Eq. 8:
        p(l | x) = a_T(last state) + a_T(second-to-last state).
    Backward variables (Eqs. 9 to 11): b_t(s) is the probability of the frames after t, given state
    s at frame t. Unlike in the paper, it does not contain the factor y_t(l'_s) of frame t:
        b_t(s) = sum of y_{t+1}(l'_r) b_{t+1}(r) over r = s, s + 1, and s + 2 if skip(s + 2) = 1,
    with b_T = 1 in the last two states. Everything is stored as logarithms, because products of
    many probabilities would underflow.

    Derivation: a_t(s) b_t(s) is the probability of all alignments in state s at frame t. Each
    alignment is in one state at a time, so p = sum_s a_t(s) b_t(s) for each t (Eq. 14). y_t(k) is a
    factor of exactly the terms with l'_s = k, hence (Eq. 15)
        dp / dy_t(k) = sum over l'_s = k of a_t(s) b_t(s) / y_t(k),
        d(-log p) / dlog y_t(k) = -(sum over l'_s = k of a_t(s) b_t(s)) / p.
    The result is minus the posterior probability of label k at frame t. If log_probs =
    log_softmax(u), the backward pass of log_softmax adds y_t(k), because the posteriors sum to 1.
    The result is Eq. 16: dL/du_t(k) = y_t(k) - posterior_t(k). PyTorch returns Eq. 16 as the
    gradient of log_probs. That is correct only if log_probs is the output of log_softmax: the
    backward pass of log_softmax does not change Eq. 16, because the rows of Eq. 16 sum to 0.

    If no alignment exists, p = 0, so the loss is inf and its gradient NaN. The composed version,
    which computes second derivatives, then returns NaN as the loss. With `zero_infinity`, the loss
    and all its derivatives are 0.
    Saved: log_probs; the states and log a_t(s) as intermediates.
    """

    @staticmethod
    def forward(ctx, log_probs, labels, input_lengths, target_lengths, *, blank, zero_infinity):
        # log_probs (time, batch, class)   labels (batch, target)   lengths (batch,)
        xp = array_module(log_probs)
        states, skip = _lattice(xp, labels, blank)
        rows = xp.arange(len(states))
        emit = log_probs[:, rows[:, None], states]  # (time, batch, state)
        skip = _log_of(xp, skip, emit.dtype)
        alpha = _forward_variables(xp, emit, skip)  # (time, batch, 2 + state)
        last = alpha[xp.maximum(input_lengths - 1, 0), rows]  # (batch, 2 + state)
        end = 2 * target_lengths + 2  # the last state, after the two leading columns
        log_p = _log_add(xp, last[rows, end], last[rows, end - 1])  # Eq. 8
        # Without frames, the only alignment is empty and gives the empty target.
        log_p = xp.where(input_lengths > 0, log_p, _log_of(xp, target_lengths == 0, emit.dtype))
        ctx.save(log_probs, labels, input_lengths, target_lengths)
        ctx.save_intermediate(states, skip, alpha, log_p)
        return xp.where(log_p == -xp.inf, 0.0, -log_p) if zero_infinity else -log_p

    @staticmethod
    def backward(ctx, grad_loss):
        log_probs, _, input_lengths, target_lengths = ctx.saved
        states, skip, alpha, log_p = ctx.intermediate
        xp = array_module(log_probs)
        times, batch, classes = log_probs.shape
        rows = xp.arange(batch)[:, None]
        inside = xp.arange(times)[:, None] < input_lengths  # (time, batch)
        impossible = log_p == -xp.inf
        shift = xp.where(impossible, 0.0, log_p)[:, None]
        posterior = log_probs[:, rows, states]  # log y_t(l'_s), overwritten frame by frame
        for t, beta in _backward_variables(xp, posterior, skip, inside, target_lengths):
            total = xp.where(inside[t][:, None], alpha[t, :, 2:] + beta - shift, -xp.inf)
            xp.exp(total, out=posterior[t])  # Eq. 14; exp(-inf) = 0 for padding
        posterior *= xp.where(inside & ~impossible, -grad_loss, 0.0)[:, :, None]
        # (batch * class, time): the posteriors of the states with the same label add up, Eq. 15
        table = xp.zeros((batch * classes, times), dtype=posterior.dtype)
        scatter_add(table, states + rows * classes, posterior.transpose(1, 2, 0))
        grad = xp.ascontiguousarray(table.reshape(batch, classes, times).transpose(2, 0, 1))
        if not ctx.settings["zero_infinity"]:
            grad += xp.where(inside & impossible, xp.nan, 0.0)[:, :, None]
        return grad, None, None, None

    @staticmethod
    def composed(ctx, log_probs, labels, input_lengths, target_lengths, *, blank, zero_infinity):
        """Compute the loss from Eqs. 6 to 8 with `logsumexp`, one frame at a time."""
        states, skip, _, log_p = ctx.intermediate
        xp = array_module(states)
        state, lengths = xp.arange(states.shape[1]), input_lengths.array[:, None]
        log_probs = log_probs.clamp(min=FLOOR)
        emit = log_probs[:, wrap(xp.arange(len(states))[:, None]), wrap(states)]
        skip = wrap(xp.maximum(skip, FLOOR))
        alpha = emit[0].masked_fill(wrap(state > 1), FLOOR)
        for t in range(1, len(emit)):
            before = pad(alpha, (2, 0), value=FLOOR)  # (batch, 2 + state)
            moves = [alpha, before[:, 1:-1], before[:, :-2] + skip]
            total = logsumexp(stack(moves), 0) + emit[t]
            alpha = where(wrap(t < lengths), total, alpha)
        end = 2 * target_lengths.array[:, None]
        loss = -logsumexp(alpha.masked_fill(wrap((state != end) & (state != end - 1)), FLOOR), 1)
        loss = loss.masked_fill(wrap(lengths[:, 0] == 0), 0.0)
        impossible = log_p == -xp.inf
        if zero_infinity:
            return loss.masked_fill(wrap(impossible), 0.0)
        undefined = (xp.arange(len(emit))[:, None] < lengths[:, 0]) & impossible  # (time, batch)
        undefined = wrap(xp.where(undefined, xp.nan, 0.0).astype(log_p.dtype))
        return loss.masked_fill(wrap(impossible), xp.inf) + (log_probs.sum(2) * undefined).sum(0)


def _lattice(xp, labels, blank):
    """Return the label of each state, and True where the blank before the state can be skipped."""
    batch, count = labels.shape
    states = xp.full((batch, 2 * count + 1), blank, dtype="int64")
    states[:, 1::2] = labels
    skip = xp.zeros(states.shape, dtype="bool")
    skip[:, 3::2] = labels[:, 1:] != labels[:, :-1]
    return states, skip


def _forward_variables(xp, emit, skip):
    """Return the forward variables log a_t(s), Eqs. 5 to 7 in `CtcLoss`.

    The result has shape (time, batch, 2 + number of states): two leading columns of log 0 ensure
    that s - 1 and s - 2 exist for every state s. `emit` contains log y_t(l'_s). `skip` is 0 where
    the blank before a state can be skipped, else -inf.
    """
    times, batch, count = emit.shape
    alpha = xp.full((times, batch, count + 2), -xp.inf, dtype=emit.dtype)
    alpha[0, :, 2:4] = emit[0, :, :2]
    for t in range(1, times):
        before = alpha[t - 1]
        total = _log_add(xp, before[:, 2:], before[:, 1:-1], before[:, :-2] + skip)
        xp.add(total, emit[t], out=alpha[t, :, 2:])
    return alpha


def _backward_variables(xp, emit, skip, inside, target_lengths):
    """Yield (t, log b_t), Eqs. 10 and 11, from the last frame to the first.

    log b_t has shape (batch, state). The caller may overwrite emit[t] once it has received log b_t.
    `inside` (time, batch) is True for the frames of each sequence, and False for padding. At the
    last frame of each sequence, b = 1 in the last two states. `emit` and `skip` are as in
    `_forward_variables`.
    """
    batch, count = emit.shape[1:]
    state, end = xp.arange(count), 2 * target_lengths[:, None]
    last = _log_of(xp, (state == end) | (state == end - 1), emit.dtype)  # (batch, state)
    after = xp.full((batch, count + 2), -xp.inf, dtype=emit.dtype)
    skip = xp.concatenate([skip[:, 2:], after[:, :2]], axis=1)[:, :count]  # of the move to s + 2
    beta = last
    for t in reversed(range(len(emit))):
        xp.add(beta, emit[t], out=after[:, :-2])
        yield t, beta
        beta = _log_add(xp, after[:, :-2], after[:, 1:-1], after[:, 2:] + skip)
        beta = xp.where(inside[t][:, None], beta, last)  # b_{t-1} of a sequence that has frame t


def _log_of(xp, condition, dtype):
    """Return log 1 where `condition` holds and log 0 elsewhere."""
    return xp.where(condition, 0.0, -xp.inf).astype(dtype)


@computes("log-add-exp", reveals=("log softmax",))
def _log_add(xp, first, *others):
    """Return log(exp(first) + the sum of exp(others)), elementwise; -inf stands for log 0."""
    largest = first
    for other in others:
        largest = xp.maximum(largest, other)
    shift = xp.where(largest == -xp.inf, 0.0, largest)  # inf - inf would be NaN
    total = xp.exp(first - shift)
    for other in others:
        total += xp.exp(other - shift)
    return xp.log(xp.maximum(total, 0.5)) + largest  # the total is 0, or at least exp(0)


@names_arguments
def ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
    zero_infinity=False,
):  # fmt: skip
    """Connectionist temporal classification loss: -log of the total probability of all alignments.

    Parameters
    ----------
    log_probs : Tensor of shape (time, batch, class) or (time, class)
        Log-probabilities of the labels at each frame, as `log_softmax` returns them.
    targets : Tensor of shape (batch, target) or (sum of target_lengths,)
        Labels of each sequence, either padded or concatenated without padding. They must not
        contain the blank.
    input_lengths, target_lengths : integer Tensor or tuple of int, of length batch
        Number of frames and number of labels of each sequence. Pass two tensors or two tuples.
    blank : int, default 0
        Class that stands for no label.
    reduction : {"mean", "sum", "none"}
        How the losses are combined. The mean divides each loss by its target length (at least 1),
        then averages over the batch.
    zero_infinity : bool, default False
        Whether infinite losses and their gradients are replaced by 0. A loss is infinite if there
        are too few frames for the target.

    Returns
    -------
    Tensor
        A 0-d loss. If `reduction` is "none", the losses have shape (batch,), or () without a batch
        axis.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        If shapes do not match, or an argument has an invalid dtype or value. As in PyTorch,
        log_probs must be float32 or float64.
    IndexRangeError
        If a label is out of range. On a GPU, the error is raised when the host next reads a result.

    Notes
    -----
    The derivation is in `CtcLoss`. Unlike PyTorch's loss, this loss can be differentiated twice.
    The only Python loop runs over time, and no step of the loop waits for the device. If the
    targets are padded, the host reads neither the targets nor the lengths from the device. If they
    are concatenated, it reads the target lengths once.

    References
    ----------
    .. [1] A. Graves, S. Fernandez, F. Gomez and J. Schmidhuber, "Connectionist Temporal
       Classification: Labelling Unsegmented Sequence Data with Recurrent Neural Networks",
       ICML 2006, sections 3 and 4.

    Examples
    --------
    Three of the four alignments of two frames, "-a", "a-" and "aa", give the label a:

    >>> import minitorch_attn as mt
    >>> log_probs = mt.tensor([[0.6, 0.4], [0.6, 0.4]]).log()
    >>> loss = mt.nn.functional.ctc_loss(log_probs, mt.tensor([1]), (2,), (1,))
    >>> print(f"{loss:.4f}")  # -log(0.6 * 0.4 + 0.4 * 0.6 + 0.4 * 0.4) = -log 0.64
    0.4463
    """
    reduction = reduction_of(reduction, None, None, "ctc_loss")
    _check_log_probs(log_probs, blank)
    batched = log_probs.ndim == 3
    log_probs = log_probs if batched else log_probs.unsqueeze(1)
    times, batch, classes = log_probs.shape
    if isinstance(input_lengths, Tensor) != isinstance(target_lengths, Tensor):
        raise DTypeError(
            "ctc_loss: input_lengths and target_lengths must both be tensors or both be tuples",
            got=f"{type(input_lengths).__name__} and {type(target_lengths).__name__}",
        )
    input_lengths = _lengths(input_lengths, "input_lengths", batch)
    target_lengths = _lengths(target_lengths, "target_lengths", batch)
    _check_targets(targets, log_probs)
    _check_between(input_lengths, times, "input_lengths")
    _check_between(target_lengths, targets.shape[-1], "target_lengths")
    labels = _padded(targets.to("int64"), target_lengths)
    input_lengths = input_lengths.to(log_probs.device)
    target_lengths = target_lengths.to(log_probs.device)
    xp = array_module(labels)
    used = xp.arange(labels.shape[1]) < target_lengths.array[:, None]
    labels = xp.where(used, labels, blank)
    check_range(labels, classes, where="ctc_loss", name="targets")
    loss = CtcLoss.apply(
        log_probs, wrap(labels), input_lengths, target_lengths,
        blank=blank, zero_infinity=bool(zero_infinity),
    )  # fmt: skip
    if reduction == "none":
        return loss if batched else loss.reshape(())
    if reduction == "sum":
        return loss.sum()
    return (loss / target_lengths.clamp(min=1).to(loss.dtype)).mean()


def _check_log_probs(log_probs, blank):
    """Reject log_probs of the wrong shape or dtype, and a blank that is not a class index."""
    if not isinstance(log_probs, Tensor):
        raise not_tensors(AttributeError(), "ctc_loss", log_probs=log_probs)
    if log_probs.dtype.name not in ("float32", "float64"):
        raise DTypeError(
            "ctc_loss: log_probs must be float32 or float64",
            got=f"log_probs {log_probs.dtype}",
            hint="log_probs.float()",
        )
    if log_probs.ndim not in (2, 3) or 0 in log_probs.shape:
        raise ShapeError(
            "ctc_loss: log_probs must have 2 or 3 axes and must not be empty",
            got=f"log_probs {log_probs.shape}",
            expected="(time, batch, class) or (time, class)",
        )
    if not isinstance(blank, int) or not 0 <= blank < log_probs.shape[-1]:
        raise ArgumentError(
            "ctc_loss: blank must be a class index",
            got=f"blank={blank!r} with {log_probs.shape[-1]} classes",
        )


def _lengths(lengths, name, batch):
    """Return the sequence lengths as an int64 Tensor; lengths in a tuple become a CPU tensor."""
    if not isinstance(lengths, (Tensor, tuple, list)):
        raise DTypeError(
            f"ctc_loss: {name} must be a tensor or a tuple",
            got=f"{type(lengths).__name__}",
            hint=f"mt.tensor({name}) or ({name},)",
        )
    if not isinstance(lengths, Tensor):
        lengths = tensor(lengths, dtype=None if lengths else "int64", device="cpu")
    if lengths.dtype.kind not in "iu":
        raise DTypeError(f"ctc_loss: {name} must be integers", got=f"{name} {lengths.dtype}")
    if lengths.numel() != batch:
        raise ShapeError(
            f"ctc_loss: {name} must have one length per sequence",
            got=f"{name} {lengths.shape} for {batch} sequences",
        )
    return lengths.reshape(-1).to("int64")


def _check_between(lengths, most, name):
    """Reject lengths that are negative or larger than `most`."""
    found = lengths.array
    headline = f"ctc_loss: {name} must be between 0 and {most}"
    problem = InvalidValue(ArgumentError, headline, "check the sizes of log_probs and targets")
    check_values(found, (found < 0) | (found > most), problem)


def _check_targets(targets, log_probs):
    """Reject targets with the wrong shape or on a different device."""
    if not isinstance(targets, Tensor):
        raise not_tensors(AttributeError(), "ctc_loss", targets=targets)
    check_same_device([log_probs.array, targets.array], "ctc_loss")
    batch = log_probs.shape[1]
    if targets.ndim != 1 and (targets.ndim != 2 or len(targets) != batch):
        raise ShapeError(
            "ctc_loss: targets must have one row per sequence, or 1 axis if concatenated",
            got=f"targets {targets.shape} for {batch} sequences",
            expected=f"({batch}, target) or (sum of target_lengths,)",
        )


def _padded(targets, lengths):
    """Return the labels as an array (batch, target). `targets` may be padded or concatenated."""
    if targets.ndim == 2:
        return targets.array
    counts = lengths.tolist()  # copies the lengths from the device to the host
    if sum(counts) != len(targets):
        raise ShapeError(
            "ctc_loss: the target lengths must add up to the length of the targets",
            got=f"targets {targets.shape} and target_lengths with sum {sum(counts)}",
            hint="targets with padding need shape (batch, target)",
        )
    if not len(targets):
        return targets.array.reshape(len(counts), 0)
    xp, lengths = array_module(targets.array), lengths.to(targets.device).array
    start = xp.cumsum(lengths) - lengths
    place = start[:, None] + xp.arange(max(counts))  # (batch, target)
    return targets.array.take(xp.minimum(place, len(targets) - 1))
