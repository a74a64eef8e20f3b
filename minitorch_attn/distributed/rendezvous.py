"""Rendezvous: how the ranks of an NCCL run find each other and exchange NCCL's unique id.

NCCL can connect the ranks only if every rank has the same 128-byte id. Rank 0 creates this id and
sends it to the other ranks through MPI, a file on a shared disk, or a TCP connection.
"""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ArgumentError, CommunicationError

__all__ = [
    "ID_BYTES", "LIMIT", "Place", "decoded", "encoded", "find", "through_file", "through_tcp",
]  # fmt: skip

ID_BYTES = 128
LIMIT = 300  # seconds that a rank waits for rank 0
_PAUSE = 0.05


@dataclass
class Place:
    """A rank's position in a run, and how it exchanges data with the other ranks.

    Attributes
    ----------
    rank, world_size : int
    local_rank : int
        Rank among the processes on the same machine, which determines the GPU.
    exchange : callable
        Function `exchange(make)` that returns, on every rank, the bytes that `make()` returns on
        rank 0.
    abort : callable or None
        Function `abort(status)` that ends all ranks.
    """

    rank: int
    world_size: int
    local_rank: int
    exchange: Callable
    abort: Callable | None = None


def encoded(unique_id):
    """Convert NCCL's id, a tuple of numbers of type char, to bytes."""
    return bytes([value % 256 for value in unique_id])


def decoded(data):
    """Convert bytes to NCCL's id, a tuple of numbers from -128 to 127.

    Examples
    --------
    >>> decoded(encoded((-1, 127, -128)))
    (-1, 127, -128)
    """
    return tuple((value + 128) % 256 - 128 for value in data)


def find(init_method=None, world_size=-1, rank=-1):
    """Find this process's place in the run: its rank, and how the ranks exchange data.

    Parameters
    ----------
    init_method : str, optional
        "mpi", "env://", "file:///a/shared/path" or "tcp://host:port"; by default "env://" if
        MASTER_ADDR is set, otherwise "mpi".
    world_size, rank : int, optional
        Number of ranks, and the rank of this process, for "file://" and "tcp://". By default, the
        environment variables WORLD_SIZE and RANK.

    Returns
    -------
    Place

    Raises
    ------
    ArgumentError
        If `init_method` is unknown, or `rank`, `world_size` or the port is missing or invalid.
    """
    if init_method is None:
        init_method = "env://" if "MASTER_ADDR" in os.environ else "mpi"
    if init_method == "mpi":
        return _by_mpi()
    scheme, separator, where = init_method.partition("://")
    if not separator or scheme not in ("env", "file", "tcp"):
        raise ArgumentError(
            "init_process_group: the init_method is unknown",
            got=f"{init_method!r}",
            expected='"mpi", "env://", "file:///a/shared/path" or "tcp://host:port"',
        )
    world_size = _number(world_size, "WORLD_SIZE", "world_size")
    rank = _number(rank, "RANK", "rank")
    local_rank = int(os.environ.get("LOCAL_RANK", rank))
    if not 0 <= rank < world_size:
        raise ArgumentError(
            "init_process_group: rank is out of range",
            got=f"rank={rank}",
            expected=f"a rank from 0 to {world_size - 1}",
        )
    if scheme == "env":
        where = f"{os.environ.get('MASTER_ADDR', 'localhost')}:{os.environ.get('MASTER_PORT', '')}"
    if scheme == "file":
        return Place(rank, world_size, local_rank, lambda make: through_file(make, where, rank))
    host, _, port = where.rpartition(":")
    if not port.isdigit():
        raise ArgumentError(
            "init_process_group: the port is missing",
            got=f"{where!r}",
            expected="tcp://host:port, or MASTER_ADDR and MASTER_PORT in the environment",
        )
    address = (host or "localhost", int(port))
    return Place(
        rank, world_size, local_rank, lambda make: through_tcp(make, address, rank, world_size)
    )


def _number(given, variable, name):
    text = os.environ.get(variable, "") if given == -1 else str(given)
    if not text.lstrip("-").isdigit():
        raise ArgumentError(
            f"init_process_group: {name} is missing",
            got=f"{name}={given!r} and {variable}={text!r} in the environment",
            hint=f"pass {name}, or set {variable}",
        )
    return int(text)


def _by_mpi():
    from . import mpi

    MPI = mpi.load()
    comm = MPI.COMM_WORLD
    on_this_machine = comm.Split_type(MPI.COMM_TYPE_SHARED)
    local_rank = on_this_machine.Get_rank()
    on_this_machine.Free()

    def exchange(make):
        data = bytearray(make()) if comm.Get_rank() == 0 else bytearray(ID_BYTES)
        comm.Bcast([data, MPI.BYTE], root=0)
        return bytes(data)

    return Place(comm.Get_rank(), comm.Get_size(), local_rank, exchange, comm.Abort)


def through_file(make, path, rank, limit=LIMIT):
    """Return, on every rank, the bytes that rank 0 makes; rank 0 sends them through a new file.

    Parameters
    ----------
    make : callable
        Function that returns the bytes. Only rank 0 calls it.
    path : path
        File on a disk that all ranks share. Every run needs a new file.
    rank : int
    limit : float
        Seconds to wait for rank 0.
    """
    path = Path(path)
    if rank == 0:
        if path.exists():
            raise CommunicationError(
                "init_process_group: the rendezvous file already exists",
                got=str(path),
                hint="remove the file, and use a new name for every run",
            )
        data = make()
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_bytes(data)
        os.replace(temporary, path)  # no rank sees an incomplete file
        return data
    deadline = time.monotonic() + limit
    while not path.exists():
        _wait(deadline, f"the file {path}")
    return path.read_bytes()


def through_tcp(make, address, rank, world_size, limit=LIMIT):
    """Return, on every rank, the bytes that rank 0 makes; rank 0 sends them over TCP.

    Parameters
    ----------
    make : callable
        Function that returns the bytes. Only rank 0 calls it.
    address : (str, int)
        Host and port where rank 0 listens.
    rank, world_size : int
    limit : float
        Seconds to wait for a connection.
    """
    deadline = time.monotonic() + limit
    if rank == 0:
        data = make()
        with socket.create_server(address) as server:
            server.settimeout(limit)
            for _ in range(world_size - 1):
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    raise _nobody(f"{world_size - 1} other ranks at {address}") from None
                with connection:
                    connection.sendall(data)
        return data
    while True:
        try:
            with socket.create_connection(address, timeout=limit) as connection:
                data = b""
                while piece := connection.recv(4096):
                    data += piece
                return data
        except OSError:
            _wait(deadline, f"rank 0 at {address}")


def _wait(deadline, what):
    if time.monotonic() > deadline:
        raise _nobody(what)
    time.sleep(_PAUSE)


def _nobody(what):
    return CommunicationError(
        "init_process_group: the ranks did not connect in time",
        got=f"no answer from {what}",
        hint="check that all ranks were started, with the same init_method and different ranks",
    )
