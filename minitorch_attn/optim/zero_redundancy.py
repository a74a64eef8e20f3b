"""Optimizer whose state is split over the ranks: stage 1 of ZeRO."""

import math

import numpy as np

from ..backend import to_host
from ..distributed import all_gather_object, get_rank, get_world_size, recv, send
from ..distributed.process_group import resolve
from ..errors import ArgumentError, CheckpointError
from ..nn.parallel.coalesced import start_broadcast
from ..tensor import Tensor, tensor
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .saved_state import OPTIMIZER, check_saved

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Split the state of an optimizer over the ranks, with PyTorch's interface.

    Every rank has all parameters and all gradients, but updates only its own share of the
    parameters, and keeps state for these only. After the update, each rank sends its parameters to
    the others. The result is the same as with `optimizer_class` itself.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        All parameters, in the same order on every rank, or groups of them.
    optimizer_class : type
        Optimizer that each rank runs on its share, such as `AdamW`.
    process_group : ProcessGroup, optional
        Ranks that share the state. Default: all.
    parameters_as_bucket_view : bool, default False
        Must be False: parameters have their own memory.
    **defaults
        Options of `optimizer_class`, such as `lr`.

    Attributes
    ----------
    optim : Optimizer
        The optimizer of this rank's share.
    owners : dict of Tensor to int
        For each parameter, the rank that updates it. Ranks are numbered within the group.

    Raises
    ------
    ArgumentError
        If an argument is invalid. `LBFGS` is not supported, because its state cannot be divided
        among the parameters.

    Notes
    -----
    *Memory.* AdamW keeps two numbers for each of the Psi parameters. With N ranks, each rank keeps
    about 2 Psi / N of them. Parameter tensors are not split, so the shares can differ. The tensors
    are assigned from the largest to the smallest, each to the rank with the fewest numbers so far.

    *Messages.* Each rank broadcasts its share, about Psi / N numbers. If the ranks pass a share on
    in a chain, it is sent N - 1 times. All N shares together are sent N (N - 1) times, so each rank
    sends N - 1 shares on average, about Psi (N - 1) / N numbers, as in an all-gather. Averaging the
    gradients (`DistributedDataParallel`) sends twice as many, 2 Psi (N - 1) / N numbers per rank.

    This is stage 1 of ZeRO. Rajbhandari et al. 2020 [1]_ call it P_os. In the paper, all shares
    have the same size, so the boundary between two shares can lie inside a parameter tensor.

    References
    ----------
    .. [1] "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
       arXiv:1910.02054v3, sec. 5.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.distributed.init_process_group("mpi")  # doctest: +SKIP
    >>> model = mt.nn.Linear(3, 2)
    >>> optimizer = mt.optim.ZeroRedundancyOptimizer(
    ...     model.parameters(), mt.optim.AdamW, lr=0.01
    ... )  # doctest: +SKIP
    """

    def __init__(
        self, params, optimizer_class, process_group=None, parameters_as_bucket_view=False,
        **defaults,
    ):  # fmt: skip
        _check(optimizer_class, parameters_as_bucket_view)
        self.process_group = process_group
        self._rank, self._ranks = get_rank(process_group), get_world_size(process_group)
        self.owners, self._loads = {}, [0] * self._ranks
        self.optim = self._whole = None
        super().__init__(params, defaults)
        self.optim = optimizer_class([self._share(g) for g in self.param_groups], **defaults)
        self.defaults = self.optim.defaults
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            group.update({name: own[name] for name in own if name != "params"})
        self.state = self.optim.state

    def add_param_group(self, param_group):
        """Add a group `{"params": [...], option: value, ...}`; call this on every rank."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in sorted(group["params"], key=lambda p: -p.array.nbytes):
            owner = self._loads.index(min(self._loads))
            self.owners[p] = owner
            self._loads[owner] += p.array.nbytes
        if self.optim is not None:
            self.optim.add_param_group(self._share(group))

    def _share(self, group):
        """Return a group with this rank's parameters only."""
        return {**group, "params": [p for p in group["params"] if self.owners[p] == self._rank]}

    def step(self, closure=None):
        """Update this rank's parameters, and receive the other parameters from their ranks.

        Parameters
        ----------
        closure : callable, optional
            Function that computes the loss and its gradients and returns the loss.

        Returns
        -------
        the loss that `closure` returned, or None without a closure
        """
        loss = self.loss_of(closure)
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            own.update({name: group[name] for name in group if name != "params"})
        self.optim.step()
        self._whole = None
        shares = [[] for _ in range(self._ranks)]
        for group in self.param_groups:
            for p in group["params"]:
                shares[self.owners[p]].append(p)
        if self._ranks > 1:
            started = [
                start_broadcast(share, self.process_group, rank)
                for rank, share in enumerate(shares)
            ]
            for finish in started:
                finish()
        return loss

    # State

    def consolidate_state_dict(self, to=0):
        """Collect the state of all ranks on one rank, so that `state_dict` works there.

        Parameters
        ----------
        to : int, default 0
            Rank, numbered within the group, that receives the state. Every rank of the group must
            call this method.
        """
        if not isinstance(to, int) or not 0 <= to < self._ranks:
            raise ArgumentError(
                "consolidate_state_dict(to): to is not a rank of the group",
                got=f"to={to!r}",
                expected=f"a rank from 0 to {self._ranks - 1}",
            )
        numbers = self._numbers()
        mine = {numbers[p]: dict(entry) for p, entry in self.state.items() if entry}
        contents, arrays = _packed(mine)
        everyone = [None] * self._ranks
        all_gather_object(everyone, contents, self.process_group)
        self._whole = None
        group, device = self.process_group, resolve(self.process_group, "send").engine.device
        if self._rank != to:
            for array in arrays.values():
                send(tensor(array, device=device), group=group, group_dst=to)
            return
        state = dict(mine)
        for rank, (entries, sizes) in enumerate(everyone):
            if rank == to:
                continue
            received = {}
            for dtype, size in sizes.items():
                part = tensor(np.empty(size, dtype), device=device)
                recv(part, group=group, group_src=rank)
                received[dtype] = to_host(part.array)
            _unpack(entries, received, state)
        self._whole = {number: state[number] for number in sorted(state)}

    def _numbers(self):
        """Return {parameter: its number in the state dict}."""
        everything = [p for group in self.param_groups for p in group["params"]]
        return {p: number for number, p in enumerate(everything)}

    def state_dict(self):
        """Return the full state, in the format of `optimizer_class`.

        With several ranks, call `consolidate_state_dict` first, on all ranks.

        Raises
        ------
        CheckpointError
            If the state has not been collected on this rank since the last step.
        """
        if self._whole is None and self._ranks == 1:
            self.consolidate_state_dict()
        if self._whole is None:
            raise CheckpointError(
                "ZeroRedundancyOptimizer.state_dict: the state has not been collected here",
                got=f"rank {self._rank}, which has only its own share of the state",
                expected="a call to consolidate_state_dict(to) on every rank since the last step",
                hint="call consolidate_state_dict() on all ranks, state_dict() only on rank `to`",
            )
        numbers = self._numbers()
        groups = [
            {
                **{name: value for name, value in group.items() if name != "params"},
                "params": [numbers[p] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        state = {number: dict(entry) for number, entry in self._whole.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Load a full state on every rank; each rank keeps its share.

        Parameters
        ----------
        state_dict : dict
            State dict of this class, saved with any number of ranks, or of `optimizer_class`.
        """
        check_saved(state_dict, OPTIMIZER, "ZeroRedundancyOptimizer")
        saved = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in self.param_groups]
        if [len(group["params"]) for group in saved] != sizes:
            raise ArgumentError(
                "ZeroRedundancyOptimizer.load_state_dict: the parameter groups do not match",
                got=f"groups of {[len(group['params']) for group in saved]} parameters",
                expected=f"groups of {sizes} parameters",
                hint="use the same parameter groups, in the same order, as the saved optimizer",
            )
        share = []  # the saved groups with this rank's parameters only
        for group, old in zip(self.param_groups, saved, strict=True):
            pairs = zip(old["params"], group["params"], strict=True)
            own = [number for number, p in pairs if self.owners[p] == self._rank]
            share.append({**old, "params": own})
        numbers = {str(number) for group in share for number in group["params"]}
        state = {n: entry for n, entry in state_dict["state"].items() if str(n) in numbers}
        self.optim.load_state_dict({"state": state, "param_groups": share})
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            group.update({name: own[name] for name in own if name != "params"})
        self.state, self._whole = self.optim.state, None


def _check(optimizer_class, parameters_as_bucket_view):
    """Raise an error if an argument is invalid."""
    where = "ZeroRedundancyOptimizer"
    if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
        raise ArgumentError(
            f"{where}: optimizer_class must be an optimizer's class",
            got=f"{optimizer_class!r:.60}",
            hint="pass mt.optim.AdamW, for example, and its options by name",
        )
    if issubclass(optimizer_class, (LBFGS, ZeroRedundancyOptimizer)):
        raise ArgumentError(
            f"{where}: the state of {optimizer_class.__name__} cannot be split by parameter",
            hint="use an optimizer that updates each parameter independently, such as AdamW",
        )
    if parameters_as_bucket_view:
        raise ArgumentError(
            f"{where}: parameters_as_bucket_view=True is not supported",
            hint="leave it out; it saves memory in PyTorch and does not change results",
        )


def _packed(state):
    """Split the state of some parameters into a JSON-serializable description and arrays.

    Parameters
    ----------
    state : dict
        Maps a parameter's number to a dict of tensors and plain values.

    Returns
    -------
    contents : list
        [entries, sizes]. An entry is [number, name, dtype, shape] or [number, name, value]; `sizes`
        holds the number of elements of each dtype.
    arrays : dict of str to array
        For each dtype, the elements of all its tensors.
    """
    entries, pieces = [], {}
    for number, entry in state.items():
        for name, value in entry.items():
            if isinstance(value, Tensor):
                array = to_host(value.array)
                entries.append([number, name, array.dtype.name, list(array.shape)])
                pieces.setdefault(array.dtype.name, []).append(array.reshape(-1))
            else:
                entries.append([number, name, value])
    arrays = {dtype: np.concatenate(parts) for dtype, parts in pieces.items()}
    return [entries, {dtype: array.size for dtype, array in arrays.items()}], arrays


def _unpack(entries, arrays, state):
    """Invert `_packed`: add the state in `entries` and `arrays` to the dict `state`."""
    starts = dict.fromkeys(arrays, 0)
    for number, name, *what in entries:
        if len(what) == 1:
            (value,) = what
        else:
            dtype, shape = what
            start, stop = starts[dtype], starts[dtype] + math.prod(shape)
            value, starts[dtype] = tensor(arrays[dtype][start:stop].reshape(shape)), stop
        state.setdefault(number, {})[name] = value
