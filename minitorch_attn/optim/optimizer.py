"""Optimizer base class, with parameter groups, state, and updates on flat buffers."""

import math
from bisect import bisect_right
from functools import partial

from ..autograd import enable_grad
from ..backend import device_of, is_array, like
from ..backend.graph_capture import guard, on_replay, refuse
from ..backend.kernel_table import kernel_for
from ..backend.threads import shares, threads_for, together
from ..errors import (
    ArgumentError,
    CheckpointError,
    DTypeError,
    GraphError,
    MissingMethodError,
)
from ..named_errors import NamedErrors
from ..ops import tensor_like
from ..schema import number_from, record
from ..tensor import Tensor, tensor, wrap
from .flat_buffer import FlatBuffer, partition
from .saved_state import OPTIMIZER, OPTIONS, check_like, check_saved

__all__ = ["Optimizer"]


class Optimizer(NamedErrors):
    """Base class of the optimizers, with PyTorch's interface.

    A subclass defines two methods. `names_of_state(group)` returns the names of the buffers that
    the optimizer keeps for each parameter. `update(group, step, value, grad, *state, scratch_a,
    scratch_b)` changes `value` and the state in place for a block of elements.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups `{"params": [...], "lr": ...}`, each with its own options.
    defaults : dict
        Default options, for groups that do not set them.

    Attributes
    ----------
    threads : int, optional
        Number of threads that update the parameters, each thread in its own blocks of elements.
        Default: as many as NumPy uses for a matrix product. The result is bit-identical for any
        number of threads.
    """

    scalars = ("step",)  # state entries that are one number, not one for each element
    step_in_state = True
    step_is_tensor = True
    threads = None

    def __init__(self, params, defaults):
        for name, value in defaults.items():
            if getattr(value, "shape", ()) != () and math.prod(value.shape) != 1:
                raise ArgumentError(
                    f"{type(self).__name__}: {name} must be a number or a bool",
                    got=f"a {type(value).__name__} of shape {value.shape}",
                )
        self.defaults = defaults
        self.state = {}  # parameter -> {"step": ..., name: Tensor}
        self.param_groups = []
        self._buffers = []  # one list of FlatBuffer for each group
        params = _listed(params)
        if not params:
            raise ArgumentError(
                "optimizer: the list of parameters must not be empty",
                hint="call model.parameters() again, because the iterator can be read only once; "
                "in the model, use an nn.ModuleList instead of a list of layers",
            )
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        for group in groups:
            self.add_param_group(dict(group))

    def add_param_group(self, param_group):
        """Add a group `{"params": [...], option: value, ...}`."""
        params = param_group["params"]
        params = _listed(params)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise DTypeError(
                    "optimizer: parameters must be Tensors",
                    got=type(p).__name__, hint="pass model.parameters()",
                )  # fmt: skip
            if not p.is_leaf:
                raise GraphError(
                    "optimizer: parameters must be leaf tensors",
                    got=f"the result of an operation, of shape {p.shape}",
                    hint="pass x.detach().requires_grad_(), a leaf with the values of x",
                )
            if id(p) in known:
                raise ArgumentError(
                    "optimizer: a parameter appears twice",
                    got=f"a tensor of shape {p.shape}",
                    hint="list a shared parameter once, in one of the groups",
                )
            known.add(id(p))
        group = {"params": params, **{k: v for k, v in param_group.items() if k != "params"}}
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self.param_groups.append(group)
        self._buffers.append(None)

    def zero_grad(self, set_to_none=True):
        """Set the gradients to None, or to zeros with `set_to_none=False`."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = None if set_to_none else tensor_like(p.grad.array * 0, p)

    def gather_gradients(self):
        """Do nothing; `amp.MasterWeights` overrides this and converts the gradients to float32.

        `amp.GradScaler` calls this method before it reads the gradients.
        """

    def step(self, closure=None):
        """Update every parameter that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            Function that computes the loss and its gradients and returns the loss.

        Returns
        -------
        the loss that `closure` returned, or None without a closure
        """
        loss = self.loss_of(closure)
        for number, group in enumerate(self.param_groups):
            for buffer in self._current_buffers(number):
                self._step_buffer(group, buffer)
        return loss

    @staticmethod
    def loss_of(closure):
        """Call the closure with gradients enabled and return its result."""
        if closure is None:
            return None
        if not callable(closure):
            raise DTypeError(
                "Optimizer.step: closure must be callable", got=f"{closure!r:.60}",
                hint="pass a function that computes the loss and calls backward()",
            )  # fmt: skip
        with enable_grad():
            return closure()

    def start_state(self, group, name, view):
        """Initialize the state buffer `view`. It contains zeros; by default, they are kept."""

    def names_of_state(self, group):
        """Return the names of the state buffers of this group."""
        raise MissingMethodError(f"{type(self).__name__} does not define names_of_state")

    def overwrites_gradient(self, group):
        """Return whether `update` changes its argument `grad`. If so, `grad` must be a copy."""
        return True

    def state_shapes(self, shape):
        """Return the allowed shapes of a state entry, given the shape of its parameter."""
        return (shape,)

    def update(self, group, step, value, grad, *state_and_scratch):
        """Change `value` and the state in place; `step` counts from 1."""
        raise MissingMethodError(f"{type(self).__name__} does not define update")

    def _current_buffers(self, number):
        """Return a group's flat buffers. Recreate them if a parameter no longer uses its buffer."""
        buffers = self._buffers[number]
        if buffers is None or not all(b.is_current() for b in buffers):
            group = self.param_groups[number]
            buffers = [FlatBuffer(part) for part in partition(group["params"])]
            for buffer in buffers:
                self._adopt_state(buffer)
            self._buffers[number] = buffers
        return buffers

    def __getstate__(self):
        """Return the state for pickle and deepcopy, without the flat buffers.

        The copy of the optimizer creates new flat buffers in its next step.
        """
        return {**self.__dict__, "_buffers": [None] * len(self.param_groups)}

    def _adopt_state(self, buffer):
        """Copy existing per-parameter state into `buffer`; `self.state` then refers to the copy."""
        for i, p in enumerate(buffer.parameters):
            for name, old in self.state.get(p, {}).items():
                if name not in self.scalars and isinstance(old, Tensor):
                    place = buffer.view(buffer.state(name), i)
                    place[...] = like(old.array, place)
                    self.state[p][name] = wrap(place)

    def _step_buffer(self, group, buffer):
        names = self.names_of_state(group)
        indices, keyed = [], []
        for i, p in enumerate(buffer.parameters):
            if p.grad is None:
                continue
            entry = self.state.setdefault(p, {})
            if not entry and (names or self.step_in_state):
                if self.step_in_state:
                    entry["step"] = tensor(0.0)
                for name in names:
                    view = buffer.view(buffer.state(name), i)
                    self.start_state(group, name, view)
                    entry[name] = wrap(view)
            if self.step_in_state:
                entry["step"].array += 1
            count = self._count(group, entry)
            indices.append(i)
            keyed.append((i, count))
        blocks = buffer.blocks(buffer.stretches(keyed))
        for name in names:
            buffer.state(name)  # create it here, before several threads access it
        threads = self.threads or threads_for(buffer.values)
        guard(partial(self._uses, buffer))
        replayed = partial(self._replayed, buffer, indices)
        on_replay(partial(replayed, 1), undo=partial(replayed, -1))
        parts = shares([stop - start for _, start, stop in blocks], threads)
        together([partial(self._update, group, buffer, names, blocks[part]) for part in parts])
        buffer.touched(indices)

    def _uses(self, buffer):
        """Return False if the optimizer has replaced this buffer, as `load_state_dict` does."""
        return any(buffer is one for buffers in self._buffers for one in buffers or ())

    def _replayed(self, buffer, indices, change):
        """Add `change` to the step counts of the parameters `indices`.

        A replay of a CUDA graph updates the parameters, but does not run the Python code that
        counts, so `change=1` counts each replay. `change=-1` undoes the count of a capture that
        failed.
        """
        if self.step_in_state:
            for i in indices:
                self.state[buffer.parameters[i]]["step"].array += change
        buffer.touched(indices)

    def _update(self, group, buffer, names, blocks):
        if device_of(buffer.values).type != "cpu":
            blocks = self._update_by_kernel(group, buffer, names, blocks)
        for step, *parts in buffer.parts(blocks, names, self.overwrites_gradient(group)):
            refuse(f"updates parameters by {type(self).__name__}, which does not have a kernel")
            self.update(group, step, *parts)

    def _update_by_kernel(self, group, buffer, names, blocks):
        """Update blocks with the optimizer's kernel, if it has one; return the remaining blocks."""
        left = []
        for step, low, high in blocks:
            grads = buffer.gradients(low, high)
            kernel = kernel_for(type(self), [buffer.values, *grads], {})
            if kernel is type(self):
                left.append((step, low, high))
            else:
                arrays = [buffer.values, *[buffer.state(name) for name in names]]
                value, *states = [array[low:high] for array in arrays]
                kernel.run(group, partial(self._updates, buffer, low), value, grads, *states)
        return left

    def _updates(self, buffer, at):
        """Return how many times the parameter that owns element `at` has been updated."""
        index = bisect_right(buffer.starts, at) - 1
        return int(self.state[buffer.parameters[index]]["step"].item())

    def _count(self, group, entry):
        """Return the number of updates of a parameter, including the current update."""
        return int(entry["step"].item())

    def state_dict(self):
        """Return the state and the groups as a dict that refers to parameters by number."""
        numbers, groups = {}, []
        for group in self.param_groups:
            for p in group["params"]:
                numbers[p] = len(numbers)
            packed = {k: v for k, v in group.items() if k != "params"}
            groups.append({**packed, "params": [numbers[p] for p in group["params"]]})
        state = {numbers[p]: dict(entry) for p, entry in self.state.items() if entry}
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Load the `state_dict()` of an optimizer whose groups have the same sizes."""
        check_saved(state_dict, OPTIMIZER, "optimizer")
        saved = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in self.param_groups]
        if [len(group["params"]) for group in saved] != sizes:
            raise ArgumentError(
                "optimizer.load_state_dict: the parameter groups do not match",
                got=f"groups of {[len(group['params']) for group in saved]} parameters",
                expected=f"groups of {sizes} parameters",
                hint="use the same parameter groups, in the same order, as the saved optimizer",
            )
        by_number = {}
        for group, old in zip(self.param_groups, saved, strict=True):
            current = {k: v for k, v in group.items() if k != "params"}
            check_like(old, current, "optimizer", OPTIONS)
            by_number.update(zip(old["params"], group["params"], strict=True))
            group.update({k: v for k, v in old.items() if k != "params"})
        self.state = {}
        for number, entry in state_dict["state"].items():
            p = {str(known): p for known, p in by_number.items()}.get(str(number))
            if p is None or (entry and self.step_in_state and "step" not in entry):
                raise CheckpointError(
                    "optimizer.load_state_dict: the state of a parameter is invalid",
                    got=f"parameter {number!r}, with {', '.join(map(str, entry))}"[:200],
                    expected=f"a number from 0 to {len(by_number) - 1}"
                    + (", and 'step' in the state" if self.step_in_state else ""),
                )
            self.state[p] = {n: self._loaded(n, value, p) for n, value in entry.items()}
        self._buffers = [None] * len(self.param_groups)

    def _loaded(self, name, value, parameter):
        """Convert a saved array to the dtype and device of `parameter`. Scalars stay scalars."""
        if name in self.scalars:
            number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
            check_saved({name: number}, record({name: number_from(0, 2**53)}), "optimizer")
            return tensor(float(number)) if self.step_is_tensor else int(number)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        array = value.array if isinstance(value, Tensor) else value
        if not is_array(array) or array.shape not in self.state_shapes(parameter.shape):
            raise CheckpointError(
                f"optimizer.load_state_dict: the state {name!r} does not match its parameter",
                got=f"shape {array.shape}" if is_array(array) else type(array).__name__,
                expected=f"an array of shape {parameter.shape}",
            )
        return tensor_like(array, parameter).clone()

    def __repr__(self):
        options = ", ".join(
            f"{k}: {v}" for g in self.param_groups[:1] for k, v in g.items() if k != "params"
        )
        return f"{type(self).__name__} ({len(self.param_groups)} groups; {options})"


def check_options(optimizer, **options):
    """Raise an error unless every option is None or a non-negative number."""
    for name, value in options.items():
        if value is not None and not check_number(optimizer, **{name: value}) >= 0:
            raise ArgumentError(
                f"{type(optimizer).__name__}: {name} must not be negative",
                got=f"{name}={value}",
                expected=">= 0",
            )


def check_number(owner, **values):
    """Return the last of the values as a float; raise an error if any value is not a number.

    Parameters
    ----------
    owner : Optimizer or LRScheduler
        Object whose options are checked; the error message names its class.
    **values : number, or Tensor with one element
        Values of the options, by name.
    """
    found = None
    for name, value in values.items():
        try:
            found = None if isinstance(value, str) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = None
        if found is None or math.isnan(found):
            raise ArgumentError(
                f"{type(owner).__name__}: {name} must be a number",
                got=f"{name}={value!r:.60} of type {type(value).__name__}",
            )
    return found


def _listed(params):
    """Return the parameters, or groups of them, as a list."""
    if isinstance(params, Tensor):
        return [params]
    try:
        return list(params)
    except TypeError:
        raise DTypeError(
            "optimizer: params must be an iterable of Tensors or of groups",
            got=type(params).__name__,
            hint="pass model.parameters()" if hasattr(params, "parameters") else None,
        ) from None
