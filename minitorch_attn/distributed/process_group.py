"""Process groups: join the ranks of a run, and form groups of some of them.

Every process of a run executes the same program. The processes differ only in their rank, a number
from 0 to world size - 1. Functions and classes have the same names as in `torch.distributed`.
"""

from ..errors import ArgumentError, DTypeError
from ..named_errors import names_arguments
from . import at_exit, mpi

__all__ = [
    "GroupMember", "ProcessGroup", "destroy_process_group", "get_backend", "get_global_rank",
    "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "is_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "new_group", "rank_in", "resolve",
]  # fmt: skip

_state = {"world": None, "groups": [], "number": 0}


class ProcessGroup:
    """Group of ranks of a run, with the engine that sends messages between them.

    `init_process_group` and `new_group` create groups.

    Attributes
    ----------
    ranks : tuple of int
        Ranks in the whole run. The index of an entry is its rank in the group.
    engine : MpiEngine or NcclEngine
    """

    def __init__(self, engine, ranks):
        self.engine, self.ranks = engine, tuple(ranks)
        self.pending = []  # calls with async_op=True whose buffers must stay alive

    def rank(self):
        """Return the rank of this process in the group."""
        return self.engine.rank

    def size(self):
        """Return the number of ranks in the group."""
        return len(self.ranks)

    def name(self):
        """Return the name of the backend."""
        return self.engine.name

    def keep(self, work):
        """Keep the buffers of an unfinished call alive, even if the caller drops its Work."""
        self.pending = [other for other in self.pending if not other.is_completed()]
        self.pending.append(work)

    def close(self):
        """Wait for unfinished calls, and free the engine."""
        for work in self.pending:
            work.wait()
        self.pending = []
        self.engine.close()

    def __repr__(self):
        return f"ProcessGroup(ranks={list(self.ranks)}, rank={self.rank()}, backend={self.name()})"


class GroupMember:
    """Namespace of NON_GROUP_MEMBER, which `new_group` returns on ranks outside the new group.

    Attributes
    ----------
    NON_GROUP_MEMBER : int
        Value that `new_group` returns on a rank that is not in the new group.
    """

    NON_GROUP_MEMBER = -100


class _WorldOfRun(type):
    @property
    def WORLD(cls):
        """The group of all ranks; None before `init_process_group`."""
        return _state["world"]


class group(metaclass=_WorldOfRun):
    """Namespace of the default group: `group.WORLD`."""


def is_available():
    """Return True if a backend is installed: MPI or NCCL."""
    return is_mpi_available() or is_nccl_available()


def is_mpi_available():
    """Return True if mpi4py and an MPI library are installed."""
    return mpi.is_available()


def is_nccl_available():
    """Return True if CUDA works and CuPy was built with NCCL."""
    from . import nccl

    return nccl.is_available()


def is_initialized():
    """Return True between `init_process_group` and `destroy_process_group`."""
    return _state["world"] is not None


@names_arguments
def init_process_group(backend="mpi", init_method=None, world_size=-1, rank=-1):
    """Join the ranks of this run. Every rank must call this before it can communicate.

    `mpiexec -n 4 python program.py` starts a run of four ranks. A process that was started without
    `mpiexec` is the only rank of a run with world size 1, in which every call works.

    Parameters
    ----------
    backend : {"mpi", "nccl"}
        MPI sends tensors on the CPU. NCCL sends CUDA tensors, and each rank has its own device.
    init_method : str, optional
        For NCCL only: how the ranks find each other. "mpi", "env://", "file:///a/shared/path" or
        "tcp://host:port"; by default "env://" if MASTER_ADDR is set, otherwise "mpi".
    world_size, rank : int, optional
        Number of ranks, and the rank of this process, for "file://" and "tcp://". MPI sets both;
        with MPI, a different value raises an error.

    Raises
    ------
    ArgumentError
        If the process group already exists, or an argument is invalid.
    CommunicationError
        If the backend is not installed.

    Notes
    -----
    If an uncaught exception ends a rank, this rank prints the traceback, with its rank at the start
    of each line, and aborts the run. Otherwise, the other ranks could wait for its messages
    forever. At a clean exit, MPI closes when all ranks have reached the exit.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.distributed.init_process_group("mpi")  # doctest: +SKIP
    >>> mt.distributed.get_rank(), mt.distributed.get_world_size()  # doctest: +SKIP
    (0, 1)
    """
    if is_initialized():
        raise ArgumentError(
            "init_process_group: the process group already exists",
            got=f"{_state['world']}",
            hint="call it once, or destroy_process_group() first",
        )
    if backend not in ("mpi", "nccl"):
        raise ArgumentError(
            "init_process_group: the backend is unknown",
            got=f"{backend!r}",
            expected='"mpi" or "nccl"',
            hint="this library does not include PyTorch's gloo; use MPI instead",
        )
    engine = _mpi_engine(init_method) if backend == "mpi" else _nccl_engine(
        init_method, world_size, rank
    )  # fmt: skip
    for name, given, real in (("world_size", world_size, engine.size), ("rank", rank, engine.rank)):
        if given not in (-1, real):
            raise ArgumentError(
                f"init_process_group: {name} does not match the run",
                got=f"{name}={given}, but {backend} reports {real}",
                hint=f"leave {name} out; mpiexec -n N sets it",
            )
    _state["world"] = ProcessGroup(engine, range(engine.size))
    at_exit.install(f"rank {engine.rank} of {engine.size}", engine.abort, _close_at_exit)


def _mpi_engine(init_method):
    if init_method not in (None, "mpi"):
        raise ArgumentError(
            "init_process_group: the backend 'mpi' does not support init_method",
            got=f"{init_method!r}",
            hint="leave init_method out, and start the ranks with mpiexec or srun",
        )
    return mpi.MpiEngine()


def _nccl_engine(init_method, world_size, rank):
    from . import nccl

    return nccl.connect(init_method, world_size, rank)


def _close_at_exit():
    """At a clean exit, destroy all groups and close MPI. Closing MPI waits for all ranks."""
    if is_initialized():
        destroy_process_group()
    mpi.close()


@names_arguments
def destroy_process_group(group=None):
    """Wait for unfinished calls, and free a group. All ranks of the group must call this.

    Parameters
    ----------
    group : ProcessGroup, optional
        Group to free; by default all groups.
    """
    closed = resolve(group, "destroy_process_group")
    if closed is None:
        return
    if closed is not _state["world"]:
        _state["groups"].remove(closed)
        closed.close()
        return
    for other in _state["groups"]:
        other.close()
    closed.close()
    _state.update(world=None, groups=[])


@names_arguments
def new_group(ranks=None):
    """Create a group of the given ranks. All ranks of the run must call this, with the same list.

    Parameters
    ----------
    ranks : sequence of int, optional
        Ranks of the run; by default all. Their order in the group is ascending, as in PyTorch.

    Returns
    -------
    ProcessGroup, or GroupMember.NON_GROUP_MEMBER
        NON_GROUP_MEMBER on a rank that is not in the group. A collective that gets this value as
        its group only issues a warning.

    Raises
    ------
    ArgumentError
        If a rank is out of range or appears twice.
    """
    world = resolve(None, "new_group")
    ranks = sorted(range(world.size()) if ranks is None else [int(rank) for rank in ranks])
    if not ranks or ranks[0] < 0 or ranks[-1] >= world.size() or len(set(ranks)) < len(ranks):
        raise ArgumentError(
            "new_group: ranks must be distinct ranks of the run",
            got=f"{ranks}",
            expected=f"at least one number from 0 to {world.size() - 1}, each once",
        )
    _state["number"] += 1
    engine = world.engine.subgroup(ranks, _state["number"])
    if engine is None:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(engine, ranks)
    _state["groups"].append(made)
    return made


def resolve(group, where):
    """Return the group that a `group=` argument specifies, or None if this rank is not in it.

    Parameters
    ----------
    group : ProcessGroup, None or GroupMember.NON_GROUP_MEMBER
        None stands for all ranks.
    where : str
        Name of the public function, for error messages.
    """
    if _state["world"] is None:
        raise ArgumentError(
            f"{where}: the default process group has not been initialized",
            hint="call mt.distributed.init_process_group() first, on every rank",
        )
    if group is None:
        return _state["world"]
    if isinstance(group, ProcessGroup):
        if group is not _state["world"] and group not in _state["groups"]:
            raise ArgumentError(f"{where}: the group has been destroyed", got=f"{group}")
        return group
    if type(group) is int and group == GroupMember.NON_GROUP_MEMBER:
        return None
    raise DTypeError(
        f"{where}: group is not a ProcessGroup",
        got=f"{group!r:.60}",
        hint="use the result of new_group(ranks), or None for all ranks",
    )


@names_arguments
def get_rank(group=None):
    """Return this process's rank in a group (default: the run), or -1 if it is not a member."""
    found = resolve(group, "get_rank")
    return -1 if found is None else found.rank()


@names_arguments
def get_world_size(group=None):
    """Return the number of ranks in a group (default: the run), or -1 on ranks outside it."""
    found = resolve(group, "get_world_size")
    return -1 if found is None else found.size()


@names_arguments
def get_backend(group=None):
    """Return the name of the backend of a group: "mpi" or "nccl"."""
    found = resolve(group, "get_backend")
    return (_state["world"] if found is None else found).name()


@names_arguments
def get_process_group_ranks(group=None):
    """Return the members of a group, as a list of ranks of the run."""
    found = resolve(group, "get_process_group_ranks")
    return [] if found is None else list(found.ranks)


@names_arguments
def get_group_rank(group, global_rank):
    """Convert a rank of the run to the corresponding rank in `group`."""
    return rank_in(resolve(group, "get_group_rank"), global_rank, "get_group_rank", "global_rank")


@names_arguments
def get_global_rank(group, group_rank):
    """Convert a rank in `group` to the corresponding rank of the run."""
    found = resolve(group, "get_global_rank")
    size = 0 if found is None else found.size()
    if not isinstance(group_rank, int) or not 0 <= group_rank < size:
        raise ArgumentError(
            "get_global_rank: group_rank is out of range",
            got=f"{group_rank!r}",
            expected=f"a rank from 0 to {size - 1}",
        )
    return found.ranks[group_rank]


def rank_in(group, rank, where, argument):
    """Convert a rank of the run to a rank in a group, or raise an error that names `argument`."""
    if not isinstance(rank, int) or rank not in (() if group is None else group.ranks):
        raise ArgumentError(
            f"{where}: {argument} is not a rank of the group",
            got=f"{argument}={rank!r}",
            expected=f"one of {[] if group is None else list(group.ranks)}",
            hint="pass the rank in the whole run, not in the group",
        )
    return group.ranks.index(rank)
