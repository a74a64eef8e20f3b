"""Three ways to divide a training step among workers: by examples, by heads, or by tokens.

All workers draw the same batches, from the same seed, and have the same weights after each step. A
split computes the gradients of the full batch's loss. Each worker processes some rows of the batch
(`DataSplit`), some heads and hidden features (`TensorSplit`), or some tokens (`SequenceSplit`). A
checkpoint has the same layout as with one process, so a run can be continued with a different
split.
"""

import copy
import math

from ..autograd import no_grad
from ..backend.batch_part import batch_part
from ..errors import ArgumentError
from ..nn.batch_parts import batch_sizes, split_batch
from ..nn.data_parallel import refuse_batch_statistics
from ..nn.utils import clip_grad_norm_, clip_grads_with_norm_, get_total_norm
from ..optim.saved_state import OPTIMIZER, check_saved
from ..tensor import Tensor, tensor

__all__ = ["SPLITS", "DataSplit", "SequenceSplit", "TensorSplit"]


class _Split:
    """Base class of all splits. Each worker has the full model, unless a subclass divides it.

    Parameters
    ----------
    model : Module
        The full model, which worker 0 evaluates and saves.
    optimizer : Optimizer
        Optimizer of the model's parameters, before its first step.
    loss_function, count : callable
        See `ThreadSplit`.

    Attributes
    ----------
    rank, workers : int
        This worker's number, counted from 0, and the number of workers.
    stop_wanted, stop_agreed : bool
        Whether this worker wants to stop, and whether any worker wanted to stop in the last step.
    """

    def __init__(self, model, optimizer, loss_function, count=None):
        from ..distributed import get_rank, get_world_size

        self.model, self.optimizer, self.loss_function = model, optimizer, loss_function
        self.count = count or (lambda batch: batch_sizes(batch)[0])
        self.rank, self.workers = get_rank(), get_world_size()
        self.stop_wanted = self.stop_agreed = False
        self.check(model, self.workers)

    @staticmethod
    def check(model, workers):
        """Raise an ArgumentError if a model cannot be split among this number of workers."""

    def __call__(self, batch):
        """Add the gradient of the loss on `batch` to the `.grad` of the trained parameters.

        Returns
        -------
        0-d Tensor
            Loss of the full batch.
        """
        raise NotImplementedError

    def clip(self, max_norm):
        """Clip the gradients by their norm over all workers. Return the norm before clipping."""
        return clip_grad_norm_(self.model.parameters(), max_norm)

    def distribute(self):
        """Copy this worker's part of the weights from `model` to the split model, if any."""

    def collect(self):
        """Copy the trained weights to the `model` of worker 0. Every worker must call this."""

    def optimizer_state(self):
        """Return the optimizer's full state on worker 0. Every worker must call this."""
        return self.optimizer.state_dict()

    def load_optimizer_state(self, state):
        """Load the full state of the optimizer."""
        self.optimizer.load_state_dict(state)

    def _sum(self, loss):
        """Return the sum of all workers' losses. The all_reduce also sums requests to stop."""
        from ..distributed import all_reduce

        figures = tensor([loss, float(self.stop_wanted)], dtype="float64")
        all_reduce(figures)
        self.stop_agreed = figures[1].item() > 0
        return figures[0]


class DataSplit(_Split):
    r"""Run loss.backward() for this worker's rows of a batch; average the gradients of all workers.

    If worker k has n_k of the n examples, and their mean loss is loss_k, the loss of the batch is
    sum_k (n_k / n) loss_k, as in `ThreadSplit`. The gradients of N workers are averaged, so worker
    k differentiates (N n_k / n) loss_k:

        (1/N) sum_k (N n_k / n) dloss_k/dw = dloss/dw

    For the parameters and attributes, see `_Split`.
    """

    def __init__(self, model, optimizer, loss_function, count=None):
        from ..nn.parallel.gradient_reducer import GradientReducer

        super().__init__(model, optimizer, loss_function, count)
        # In a recipe with several phases, some parameters are unused in each phase.
        self.reducer = GradientReducer(model.named_parameters(), find_unused=True)

    @staticmethod
    def check(model, workers):
        """Reject batch normalization, which needs the full batch."""
        refuse_batch_statistics("--workers", model)

    def __call__(self, batch):
        """Add the gradient of the loss on `batch` to the `.grad` of the model's parameters."""
        parts = split_batch(batch, self.workers)
        rows = [batch_sizes(part)[0] for part in parts]
        if len(parts) < self.workers or not rows[-1]:
            raise ArgumentError(
                "--workers: a batch has fewer examples than there are workers",
                got=f"{sum(rows)} examples for {self.workers} workers",
                hint="use a larger --batch, or fewer workers",
            )
        counts = [self.count(part) for part in parts]
        share = counts[self.rank] / max(sum(counts), 1)
        with batch_part(sum(rows[: self.rank]), rows[self.rank], sum(rows)):
            loss = self.loss_function(self.model, parts[self.rank])
        weighted = loss * (self.workers * share)
        self.reducer.prepare([weighted])
        weighted.backward()
        return self._sum(loss.item() * share)


class TensorSplit(_Split):
    r"""Train the weights of this worker's attention heads and hidden features.

    `nn.parallel.tensor_parallel` divides the heads of the attention layers, and the hidden features
    of the feed-forward layers, among the workers.

    Every worker computes the loss of the full batch. The split model is a second set of layers. It
    shares the unsplit parameters with `model`, and contains the worker's part of every other
    parameter. The optimizer updates the parameters of the split model. `collect` copies all parts
    to worker 0's `model`.

    The squared norm of all gradients is the squared norm for the unsplit parameters, counted once,
    plus the squared norms for the parts of all workers.

    For the parameters and the other attributes, see `_Split`. The optimizer must update each
    element independently of the others, as AdamW does.

    Attributes
    ----------
    split_model : Module
    parts : dict of Parameter to (Parameter, int)
        For each split parameter of `model`: the worker's part, and the axis of the split.
    """

    def __init__(self, model, optimizer, loss_function, count=None):
        from ..nn.parallel import tensor_parallel

        super().__init__(model, optimizer, loss_function, count)
        self.split_model = tensor_parallel(_with_same_parameters(model)).train()
        self.parts = {}
        for path, module in self.split_model.named_modules():
            for name, axis in getattr(module, "split_axes", {}).items():
                whole = getattr(model.get_submodule(path), name)
                if whole is not None:
                    self.parts[whole] = getattr(module, name), axis
        for group in optimizer.param_groups:
            group["params"] = [self.parts.get(p, (p,))[0] for p in group["params"]]

    @staticmethod
    def check(model, workers):
        """Reject batch normalization, and heads and hidden features that do not divide evenly."""
        from ..nn.parallel.tensor_parallel import check_layers

        refuse_batch_statistics("--split tensor", model)
        check_layers(model, workers, "--split tensor", "use another --workers, or --split data")

    def __call__(self, batch):
        """Compute the gradients of the worker's parameters for the full batch."""
        loss = self.loss_function(self.split_model, batch)
        loss.backward()
        return self._sum(loss.item() / self.workers)

    def clip(self, max_norm):
        """Clip the gradients by their norm over all workers. Return the norm before clipping."""
        from ..distributed import all_reduce

        parts = {part for part, _ in self.parts.values()}
        trained = [p for p in self.split_model.parameters() if p.grad is not None]
        own, whole = (
            get_total_norm([p.grad for p in trained if (p in parts) is split]).item()
            for split in (True, False)
        )
        squares = tensor(own * own, dtype="float64")
        all_reduce(squares)
        norm = tensor(math.sqrt(squares.item() + whole * whole), dtype="float64")
        clip_grads_with_norm_(trained, max_norm, norm)
        return norm

    def distribute(self):
        """Copy this worker's part of each split parameter from `model` to the split model."""
        with no_grad():
            for whole, (part, axis) in self.parts.items():
                part.copy_(self._own(whole.detach(), axis))

    def collect(self):
        """Copy all workers' parts of the weights to the `model` of worker 0."""
        with no_grad():
            for whole, (part, axis) in self.parts.items():
                found = self._gather(part.detach(), axis)
                if self.rank == 0:
                    whole.copy_(found)

    def optimizer_state(self):
        """Return the optimizer's full state on worker 0, assembled from all parts."""
        return self._converted(self.optimizer.state_dict(), self._gather)

    def load_optimizer_state(self, state):
        """Load this worker's part of the optimizer's full state."""
        check_saved(state, OPTIMIZER, "optimizer")
        self.optimizer.load_state_dict(self._converted(state, self._own))

    def _converted(self, saved, convert):
        """Return `saved` with `convert(value, axis)` applied to the state of split parameters."""
        axes, state = dict(self.parts.values()), {}
        numbered = [p for group in self.optimizer.param_groups for p in group["params"]]
        axes = {str(number): axes.get(p) for number, p in enumerate(numbered)}
        for number, entry in saved["state"].items():
            axis, state[number] = axes.get(str(number)), dict(entry)
            for name, value in entry.items():
                if axis is not None and isinstance(value, Tensor) and value.ndim:  # not "step"
                    state[number][name] = convert(value, axis)
        return {**saved, "state": state}

    def _own(self, whole, axis):
        """Return this worker's part of a full tensor."""
        return whole.chunk(self.workers, axis)[self.rank].clone()

    def _gather(self, part, axis):
        """Join all workers' parts on worker 0. Return the full tensor there, None elsewhere."""
        from ..distributed import gather
        from ..ops import cat

        parts = [part.clone() for _ in range(self.workers)] if self.rank == 0 else None
        gather(part, parts, dst=0)
        return None if parts is None else cat(parts, axis)


class SequenceSplit(_Split):
    r"""Run loss.backward() for this worker's tokens, with `nn.parallel.SequenceParallel`.

    The batch is (ids, targets), and the loss is a mean over tokens. If worker k has n_k of the n
    targets, and their mean loss is loss_k, the loss is sum_k (n_k / n) loss_k. Worker k
    differentiates (n_k / n) loss_k, which depends on the keys and values of all workers. The
    gradients of all workers are then summed. The worker runs the split model, a second set of
    layers with different attention and dropout layers. It shares all parameters with `model`.

    With N workers, each sequence is cut into 2 N equal chunks if its length is divisible by 2 N.
    Worker k then gets chunks k and 2 N - 1 - k (zigzag order), so that all workers have the same
    amount of work under a causal mask. Otherwise, each worker gets one contiguous chunk.

    For the parameters and attributes, see `_Split`.
    """

    def __init__(self, model, optimizer, loss_function, count=None):
        from ..nn.parallel import SequenceParallel

        super().__init__(model, optimizer, loss_function, count)
        even = model.context_length % (2 * self.workers) == 0
        self.order = "zigzag" if even else "contiguous"
        layers = _with_same_parameters(model)
        self.split_model = SequenceParallel(layers, order=self.order).train()

    @staticmethod
    def check(model, workers):
        """Reject a sequence length that is not a multiple of `workers`."""
        if model.context_length % workers:
            raise ArgumentError(
                "--split sequence: the number of tokens is not divisible by the number of workers",
                got=f"{model.context_length} tokens for {workers} workers",
                expected=f"a multiple of {workers}, preferably of {2 * workers}",
                hint="use a different --context or --workers, or --split data",
            )

    def __call__(self, batch):
        """Add the gradient of the loss on `batch` to the `.grad` of the model's parameters."""
        from ..distributed import split_sequence

        ids, targets = batch
        parts = [
            (ids, split_sequence(targets, rank, self.workers, order=self.order))
            for rank in range(self.workers)
        ]
        counts = [self.count(part) for part in parts]
        loss = self.loss_function(self.split_model, parts[self.rank])
        loss = loss * (counts[self.rank] / max(sum(counts), 1))
        loss.backward()
        self.split_model.sum_gradients()
        return self._sum(loss.item())


def _with_same_parameters(model):
    """Return a copy of a model's layers that shares the original's parameters and buffers."""
    same = {id(t): t for t in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, same)


SPLITS = {"data": DataSplit, "tensor": TensorSplit, "sequence": SequenceSplit}
