"""What all optimisers share: parameter groups, state, and the walk over flat buffers."""

from functools import partial

from ..autograd import enable_grad
from ..backend import like
from ..backend.threads import shares, together
from ..errors import ArgumentError, DTypeError, GraphError
from ..ops import tensor_like
from ..tensor import Tensor, tensor, wrap
from .flat import FlatBuffer, partition

__all__ = ["Optimizer"]


class Optimizer:
    """Base of the optimisers; the interface is PyTorch's.

    A subclass lists `state_names`, the buffers it keeps per parameter, and defines
    `update(group, step, value, grad, *state, scratch_a, scratch_b)`, which changes `value` and
    the state in place for a block of elements.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        Parameters, or groups `{"params": [...], "lr": ...}` with options of their own.
    defaults : dict
        Options for groups that do not set them.

    Attributes
    ----------
    threads : int, default 1
        Threads that share out the blocks of an update. Every block is changed by the same
        operations whichever thread has it, so the result is the same to the bit.
    """

    step_in_state = True
    step_is_tensor = True
    threads = 1

    def __init__(self, params, defaults):
        self.defaults = defaults
        self.state = {}  # parameter -> {"step": ..., name: Tensor}
        self.param_groups = []
        self._buffers = []  # one list of FlatBuffer for each group
        params = list(params) if not isinstance(params, Tensor) else [params]
        if not params:
            raise ArgumentError("optimizer: the list of parameters is empty.")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        for group in groups:
            self.add_param_group(dict(group))

    def add_param_group(self, param_group):
        """Add a group `{"params": [...], option: value, ...}`."""
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise DTypeError("optimizer: parameters are Tensors.", got=type(p).__name__)
            if not p.is_leaf:
                raise GraphError("optimizer: only leaf tensors can be optimised.")
            if id(p) in known:
                raise ArgumentError(
                    "optimizer: a parameter appears twice.", got=f"a tensor of shape {p.shape}"
                )
            known.add(id(p))
        group = {"params": params, **{k: v for k, v in param_group.items() if k != "params"}}
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self.param_groups.append(group)
        self._buffers.append(None)

    def zero_grad(self, set_to_none=True):
        """Forget the gradients, or fill them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = None if set_to_none else tensor_like(p.grad.array * 0, p)

    def step(self, closure=None):
        """Update every parameter that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss again and returns it.

        Returns
        -------
        what `closure` returned, or None
        """
        loss = self.loss_of(closure)
        for number, group in enumerate(self.param_groups):
            for buffer in self._current_buffers(number):
                self._step_buffer(group, buffer)
        return loss

    @staticmethod
    def loss_of(closure):
        """What the closure returns, computed with the graph recorded."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def start_state(self, group, name, view):
        """Fill a new state buffer with its initial value; zero needs nothing."""

    def names_of_state(self, group):
        """The state buffers that this group needs."""
        raise NotImplementedError

    def update(self, group, step, value, grad, *state_and_scratch):
        """Change `value` and the state in place; `step` counts from 1."""
        raise NotImplementedError

    def _current_buffers(self, number):
        """The group's flat buffers, laid out again if its parameters moved."""
        buffers = self._buffers[number]
        if buffers is None or not all(b.is_current() for b in buffers):
            group = self.param_groups[number]
            buffers = [FlatBuffer(part) for part in partition(group["params"])]
            for buffer in buffers:
                self._adopt_state(buffer)
            self._buffers[number] = buffers
        return buffers

    def _adopt_state(self, buffer):
        """Move existing state into the buffer and let `self.state` see it there."""
        for i, p in enumerate(buffer.parameters):
            for name, old in self.state.get(p, {}).items():
                if name != "step" and isinstance(old, Tensor):
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
            count = self._count(entry)
            indices.append(i)
            keyed.append((i, count))
        blocks = buffer.blocks(buffer.stretches(keyed))
        for name in names:
            buffer.state(name)  # made here, before several threads ask for it
        parts = shares([stop - start for _, start, stop in blocks], self.threads)
        together([partial(self._update, group, buffer, names, blocks[part]) for part in parts])
        buffer.touched(indices)

    def _update(self, group, buffer, names, blocks):
        for step, *parts in buffer.parts(blocks, names):
            self.update(group, step, *parts)

    def _count(self, entry):
        """How many updates this parameter has seen, this one included."""
        return int(entry["step"].item())

    def state_dict(self):
        """The state by parameter number, and the groups with numbers in place of parameters."""
        numbers, groups = {}, []
        for group in self.param_groups:
            for p in group["params"]:
                numbers[p] = len(numbers)
            packed = {k: v for k, v in group.items() if k != "params"}
            groups.append({**packed, "params": [numbers[p] for p in group["params"]]})
        state = {numbers[p]: dict(entry) for p, entry in self.state.items() if entry}
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Take over what `state_dict` returned, from an optimiser with the same groups."""
        saved = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in self.param_groups]
        if [len(group["params"]) for group in saved] != sizes:
            raise ArgumentError(
                "optimizer.load_state_dict: the parameter groups differ.",
                got=f"groups of {[len(group['params']) for group in saved]} parameters",
                expected=f"groups of {sizes}",
            )
        by_number = {}
        for group, old in zip(self.param_groups, saved, strict=True):
            by_number.update(zip(old["params"], group["params"], strict=True))
            group.update({k: v for k, v in old.items() if k != "params"})
        self.state = {}
        for number, entry in state_dict["state"].items():
            p = by_number[int(number)]
            self.state[p] = {n: self._loaded(n, value, p) for n, value in entry.items()}
        self._buffers = [None] * len(self.param_groups)

    def _loaded(self, name, value, parameter):
        """A state entry for `parameter`: moments in its dtype and place, the count as it was."""
        if name == "step":
            number = value.item() if isinstance(value, Tensor) else value
            return tensor(float(number)) if self.step_is_tensor else int(number)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        array = value.array if isinstance(value, Tensor) else value
        return tensor_like(array, parameter).clone()

    def __repr__(self):
        options = ", ".join(
            f"{k}: {v}" for g in self.param_groups[:1] for k, v in g.items() if k != "params"
        )
        return f"{type(self).__name__} ({len(self.param_groups)} groups; {options})"


def check_options(**options):
    """Raise ArgumentError for a negative learning rate, epsilon, decay or momentum."""
    for name, value in options.items():
        if value is not None and not value >= 0:
            raise ArgumentError(
                f"optimizer: {name} must not be negative.", got=f"{name}={value}", expected=">= 0"
            )
