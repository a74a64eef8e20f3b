"""The NCCL engine with stand-ins for CuPy's streams and communicator, which threads share as ranks.

The stand-in's communicator has the signatures of `cupy.cuda.nccl.NcclCommunicator`. It reads and
writes memory at the addresses that it is given, in a queue per stream, when the queue runs; so a
call in the wrong stream, with a wrong count, type or address, or before its input is complete,
gives a wrong result.
"""

import ctypes
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.distributed import nccl, rendezvous
from minitorch_attn.distributed.work import Buffer
from minitorch_attn.errors import ArgumentError, CommunicationError, DeviceError, DTypeError

# The numbers of NCCL's header nccl.h.
TYPES = {"INT8": 0, "UINT8": 1, "INT32": 2, "UINT32": 3, "INT64": 4, "UINT64": 5, "FLOAT16": 6,
         "FLOAT32": 7, "FLOAT64": 8}  # fmt: skip
OPS = {"SUM": 0, "PROD": 1, "MAX": 2, "MIN": 3}
REDUCE = {0: np.add.reduce, 1: np.multiply.reduce, 2: np.maximum.reduce, 3: np.minimum.reduce}
DTYPES = {code: np.dtype(name.lower()) for name, code in TYPES.items()}


class World:
    """What the threads of one test share: the messages of each communicator, and a barrier."""

    def __init__(self, size):
        self.size, self.boxes, self.lock = size, {}, threading.Condition()

    def put(self, key, value):
        with self.lock:
            assert key not in self.boxes, f"two messages with the key {key}"
            self.boxes[key] = value
            self.lock.notify_all()

    def take(self, key, keep=False):
        with self.lock:
            assert self.lock.wait_for(lambda: key in self.boxes, timeout=20), f"no message {key}"
            return self.boxes[key] if keep else self.boxes.pop(key)


class Stream:
    """A queue of work; `ptr` identifies it. Work runs when somebody synchronizes."""

    table = {}

    def __init__(self, non_blocking=False):
        self.queue, self.ptr = [], 1000 + len(Stream.table)
        Stream.table[self.ptr] = self

    def wait_event(self, event):
        self.queue.append(event.run)

    def record(self):
        return Event(self, len(self.queue))

    def run(self, until=None):
        count = len(self.queue) if until is None else until
        while self.done_count < count:
            self.done_count += 1
            self.queue[self.done_count - 1]()

    done_count = 0
    synchronize = run


class Event:
    def __init__(self, stream, position):
        self.stream, self.position = stream, position

    def run(self):
        self.stream.run(self.position)

    @property
    def done(self):
        return self.stream.done_count >= self.position


def memory(place, count, code):
    """A NumPy array of the memory at an address."""
    dtype = DTYPES[code]
    buffer = (ctypes.c_char * (count * dtype.itemsize)).from_address(place)
    return np.frombuffer(buffer, dtype=dtype)


class Communicator:
    """The methods of NcclCommunicator; each puts its work into the queue of a stream."""

    def __init__(self, cuda, ndev, unique_id, rank):
        assert len(unique_id) == 128 and all(-128 <= value < 128 for value in unique_id)
        self.cuda, self.size, self.id, self.rank = cuda, ndev, unique_id, rank
        self.world, self.number, self.calls = cuda.world, 0, []
        self.sent = dict.fromkeys(range(ndev), 0)
        self.received = dict.fromkeys(range(ndev), 0)

    def _collect(self, stream, place, count, code, use):
        """Queue: show the other ranks these values, and use those of all ranks."""
        number = self.number = self.number + 1

        def work():
            self.world.put((self.id, number, self.rank), memory(place, count, code).copy())
            everyone = [self.world.take((self.id, number, r), True) for r in range(self.size)]
            use(everyone)

        Stream.table[stream].queue.append(work)

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        self.calls.append(("allReduce", count, datatype, op, stream))

        def use(everyone):
            memory(recvbuf, count, datatype)[:] = REDUCE[op](everyone)

        self._collect(stream, sendbuf, count, datatype, use)

    def reduce(self, sendbuf, recvbuf, count, datatype, op, root, stream):
        self.calls.append(("reduce", count, datatype, op, root, stream))

        def use(everyone):
            if self.rank == root:
                memory(recvbuf, count, datatype)[:] = REDUCE[op](everyone)

        self._collect(stream, sendbuf, count, datatype, use)

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        self.calls.append(("reduceScatter", recvcount, datatype, op, stream))

        def use(everyone):
            mine = slice(self.rank * recvcount, (self.rank + 1) * recvcount)
            memory(recvbuf, recvcount, datatype)[:] = REDUCE[op](everyone)[mine]

        self._collect(stream, sendbuf, recvcount * self.size, datatype, use)

    def broadcast(self, sendbuf, recvbuf, count, datatype, root, stream):
        self.calls.append(("broadcast", count, datatype, root, stream))

        def use(everyone):
            memory(recvbuf, count, datatype)[:] = everyone[root]

        self._collect(stream, sendbuf, count, datatype, use)

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        self.calls.append(("allGather", count, datatype, stream))

        def use(everyone):
            memory(recvbuf, count * self.size, datatype)[:] = np.concatenate(everyone)

        self._collect(stream, sendbuf, count, datatype, use)

    def send(self, sendbuf, count, datatype, peer, stream):
        self.calls.append(("send", count, datatype, peer, stream))
        number = self.sent[peer] = self.sent[peer] + 1
        key = (self.id, "message", self.rank, peer, number)

        def work():
            self.world.put(key, memory(sendbuf, count, datatype).copy())

        self.cuda.group_or_queue(stream, 0, work)

    def recv(self, recvbuf, count, datatype, peer, stream):
        self.calls.append(("recv", count, datatype, peer, stream))
        number = self.received[peer] = self.received[peer] + 1
        key = (self.id, "message", peer, self.rank, number)

        def work():
            memory(recvbuf, count, datatype)[:] = self.world.take(key)

        self.cuda.group_or_queue(stream, 1, work)

    def destroy(self):
        self.calls.append(("destroy",))

    def abort(self):
        self.calls.append(("abort",))


class Cuda:
    """Stand-in for `cupy.cuda` of one rank."""

    Stream = Stream
    made = 0

    def __init__(self, world):
        self.world, self.current, self.group, self.depth = world, Stream(), [], 0
        names = {f"NCCL_{name}": code for name, code in {**TYPES, **OPS}.items()}
        self.nccl = SimpleNamespace(
            **names,
            available=True,
            groupStart=self._group_start,
            groupEnd=self._group_end,
            get_unique_id=self._unique_id,
            NcclCommunicator=lambda n, unique_id, rank: Communicator(self, n, unique_id, rank),
        )

    def get_current_stream(self):
        return self.current

    def _unique_id(self):
        Cuda.made += 1
        return tuple((i * 37 + Cuda.made + 128) % 256 - 128 for i in range(128))

    def _group_start(self):
        self.depth += 1

    def _group_end(self):
        self.depth -= 1
        if not self.depth:
            grouped, self.group = self.group, []
            for stream, _, work in sorted(grouped, key=lambda item: item[1]):
                Stream.table[stream].queue.append(work)

    def group_or_queue(self, stream, order, work):
        """In a group, messages start together at its end: sends do not wait for receives."""
        if self.depth:
            self.group.append((stream, order, work))
        else:
            Stream.table[stream].queue.append(work)


def on_threads(size, function):
    """Call `function(engine, rank)` on `size` threads; return the results."""
    world, results, errors = World(size), [None] * size, []
    cudas = [Cuda(world) for _ in range(size)]
    unique_id = cudas[0].nccl.get_unique_id()

    def run(rank):
        try:
            cuda = cudas[rank]
            engine = nccl.NcclEngine(cuda, Communicator(cuda, size, unique_id, rank), rank, size)
            engine._on_device = lambda data: np.array(data, dtype="uint8")
            results[rank] = function(engine, rank)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    if errors:
        raise errors[0]
    return results


def values(rank, shape, dtype="float64"):
    return (10 * np.random.default_rng([9, rank]).standard_normal(shape)).astype(dtype)


def collectives(engine, rank, later):
    """Call everything; return the results, and the calls of the communicator."""
    n, results = engine.size, {}
    pending, kept = [], []  # the caller keeps the inputs alive, as Work does

    def call(name, output, *arguments):
        request = getattr(engine, name)(*arguments, later=later)
        pending.append(request)
        kept.append(arguments)
        results[f"{name} {len(results)}"] = output

    for dtype in ("float64", "float32", "float16", "int64", "int32", "int8", "uint8"):
        for op in ("SUM", "PRODUCT", "MAX", "MIN"):
            x = values(rank, 5, dtype) if dtype[0] == "f" else (values(rank, 5) % 3).astype(dtype)
            call("all_reduce", x, x, op)
    for root in range(n):
        x = values(rank, (3, 2))
        call("broadcast", x, x, root)
        x = values(rank, 3)
        call("reduce", x, x, root, "SUM")
        whole = np.zeros((n, 5), "float32") if rank == root else None
        call("gather", whole, whole, values(rank, 5, "float32"), root)
        part = np.zeros(2)
        call("scatter", part, part, values(root, (n, 2)) if rank == root else None, root)
    whole = np.zeros((n, 2, 3), bool)
    call("all_gather", whole, whole, values(rank, (2, 3)) > 0)
    part = np.zeros(3, "float32")
    call("reduce_scatter", part, part, values(rank, (n, 3), "float32"), "MAX")
    sizes = [rank + other + 1 for other in range(n)]
    received = np.zeros(sum(sizes))
    call("all_to_all", received, received, values(rank, sum(sizes)), sizes, sizes)
    if later:
        assert not engine.cuda.current.queue, "work in the current stream"
        assert not any(request.test() for request in pending[:1])
        for request in pending:
            request.wait()
    engine.cuda.current.synchronize()
    assert not later or all(request.test() for request in pending)
    engine.close()
    return results, engine.comm.calls


def expected_of(n):
    """The same by NumPy: for each rank, its results in the same order."""
    out = [[] for _ in range(n)]
    functions = {"SUM": np.add, "PRODUCT": np.multiply, "MAX": np.maximum, "MIN": np.minimum}
    for dtype in ("float64", "float32", "float16", "int64", "int32", "int8", "uint8"):
        for op in functions.values():
            is_float = dtype[0] == "f"
            everyone = [
                values(r, 5, dtype) if is_float else (values(r, 5) % 3).astype(dtype)
                for r in range(n)
            ]
            for r in range(n):
                out[r].append(op.reduce(everyone))
    for root in range(n):
        for r in range(n):
            out[r].append(values(root, (3, 2)))
            out[r].append(sum(values(s, 3) for s in range(n)) if r == root else values(r, 3))
            whole = np.stack([values(s, 5, "float32") for s in range(n)])
            out[r].append(whole if r == root else None)
            out[r].append(values(root, (n, 2))[r])
    for r in range(n):
        out[r].append(np.stack([values(s, (2, 3)) > 0 for s in range(n)]))
        out[r].append(np.stack([values(s, (n, 3), "float32") for s in range(n)]).max(0)[r])
        pieces = []
        for s in range(n):
            sizes = [s + other + 1 for other in range(n)]
            pieces.append(values(s, sum(sizes))[sum(sizes[:r]) : sum(sizes[: r + 1])])
        out[r].append(np.concatenate(pieces))
    return out


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_collectives(n, later):
    found = on_threads(n, lambda engine, rank: collectives(engine, rank, later))
    for (results, _), expected in zip(found, expected_of(n), strict=True):
        for (name, array), wanted in zip(results.items(), expected, strict=True):
            if wanted is None:
                assert array is None, name
                continue
            rtol = 1e-3 if wanted.dtype == "float16" else 1e-12
            np.testing.assert_allclose(array, wanted, rtol=rtol, err_msg=name)


def test_counts_types_and_streams():
    def calls(engine, rank):
        x = np.zeros((2, 3), "float32")
        engine.all_reduce(x, "MAX")
        engine.broadcast(x, 1)
        engine.all_gather(np.zeros((2, 2, 3), "float32"), x, later=True)
        return engine.comm.calls, engine.cuda.current.ptr, engine._stream.ptr

    for made, current, own in on_threads(2, calls):
        assert made[0] == ("allReduce", 6, TYPES["FLOAT32"], OPS["MAX"], current)
        assert made[1] == ("broadcast", 24, TYPES["UINT8"], 1, current)  # bytes
        assert made[2] == ("allGather", 24, TYPES["UINT8"], own)
        assert current != own


def test_messages_started_together():
    def exchange(engine, rank):
        n = engine.size
        mine, received = values(rank, 7), np.zeros(7)
        with engine.together():
            second = engine.recv(received, (rank - 1) % n, later=True)
            first = engine.send(mine, (rank + 1) % n, later=True)
        assert not second.test()
        first.wait(), second.wait()
        engine.cuda.current.synchronize()
        np.testing.assert_array_equal(received, values((rank - 1) % n, 7))
        other = np.zeros(7)
        if rank:
            assert engine.recv(other, 0) == 0
        else:
            for dst in range(1, n):
                engine.send(mine, dst)
        engine.cuda.current.synchronize()
        assert not rank or (other == values(0, 7)).all()
        return True

    assert on_threads(3, exchange) == [True] * 3


def test_a_later_call_waits_for_its_input_and_is_waited_for():
    def reduce(engine, rank):
        x, y = np.zeros(5), np.zeros(5)
        current = engine.cuda.current
        current.queue.append(lambda: x.fill(rank + 1))  # a kernel that has not run yet
        request = engine.all_reduce(x, "SUM", later=True)
        engine._stream.run()
        request.wait()
        current.queue.append(lambda: y.__iadd__(x))  # a kernel that reads the result
        current.run()
        return y.tolist()

    assert on_threads(3, reduce) == [[6.0] * 5] * 3


def test_connect(monkeypatch, tmp_path):
    """Two ranks meet through a file, take a GPU each, and connect with the same id."""
    world = World(2)

    def connect(rank):
        cuda = Cuda(world)
        place = rendezvous.find(f"file://{tmp_path}/id", 2, rank)
        chosen = []
        monkeypatch.setattr(nccl.rendezvous, "find", lambda *a: place)
        monkeypatch.setattr(nccl.cuda_backend, "load", lambda: SimpleNamespace(cuda=cuda))
        monkeypatch.setattr(nccl.cuda_backend, "set_device", chosen.append)
        monkeypatch.setattr(nccl.cuda_backend, "device_count", lambda: 4)
        engine = nccl.connect()
        return engine.rank, engine.size, engine.comm.rank, engine.comm.id, chosen

    find = rendezvous.find
    first = connect(0)
    monkeypatch.setattr(nccl.rendezvous, "find", find)
    second = connect(1)
    assert first[:3] == (0, 2, 0) and second[:3] == (1, 2, 1)
    assert first[3] == second[3] and first[4:] == ([0],) and second[4:] == ([1],)
    monkeypatch.setattr(nccl.cuda_backend, "load", lambda: SimpleNamespace(cuda=SimpleNamespace()))
    with pytest.raises(CommunicationError, match="CuPy cannot find NCCL"):
        nccl.connect()


def test_subgroups_and_barrier():
    def split(engine, rank):
        engine.broadcast, run = lambda *a: (run(*a), engine.cuda.current.run()), engine.broadcast
        made = engine.subgroup([0, 2], 1)
        engine.barrier()
        if rank == 1:
            return made
        made.cuda.current.run()
        x = np.array([rank + 1.0])
        made.all_reduce(x, "SUM")
        made.cuda.current.run()
        assert made.comm.id != engine.comm.id
        return made.rank, made.size, float(x[0])

    assert on_threads(3, split) == [(0, 2, 4.0), None, (1, 2, 4.0)]


def test_refusals():
    cuda = Cuda(World(1))
    engine = nccl.NcclEngine(
        cuda, cuda.nccl.NcclCommunicator(1, cuda.nccl.get_unique_id(), 0), 0, 1
    )
    with pytest.raises(DeviceError, match="supports CUDA tensors only"):
        engine.check(np.zeros(3), "all_reduce")
    with pytest.raises(ArgumentError, match="does not support tags"):
        engine.send(np.zeros(3), 0, tag=3)
    with pytest.raises(ArgumentError, match="recv: src is missing"):
        engine.recv(np.zeros(3), None)
    with pytest.raises(DTypeError, match="NCCL cannot reduce this dtype"):
        engine.reduction_dtype(np.dtype("int16"), "all_reduce")
    assert engine.reduction_dtype(np.dtype("float16"), "all_reduce") == "float16"
    flags = mt.tensor([True, False])
    assert Buffer(flags, engine.reduction_dtype(flags.dtype, "all_reduce")).array.dtype == "uint8"


def test_the_unique_id_survives_the_way():
    unique_id = tuple(range(-128, 0))
    assert rendezvous.decoded(rendezvous.encoded(unique_id)) == unique_id
    assert rendezvous.encoded(tuple(range(128, 256))) == rendezvous.encoded(unique_id)


def test_meeting_through_a_file_and_tcp(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with socket_free() as address, ThreadPoolExecutor(3) as pool:
        for through in (
            lambda rank: rendezvous.through_file(lambda: b"id" * 64, tmp_path / "id", rank, 10),
            lambda rank: rendezvous.through_tcp(lambda: b"di" * 64, address, rank, 3, 10),
        ):
            found = list(pool.map(through, [2, 1, 0]))
            assert len(set(found)) == 1 and len(found[0]) == 128
    with pytest.raises(CommunicationError, match="already exists"):
        rendezvous.through_file(lambda: b"", tmp_path / "id", 0)
    with pytest.raises(CommunicationError, match="did not connect in time"):
        rendezvous.through_file(lambda: b"", tmp_path / "other", 1, 0.1)
    with pytest.raises(CommunicationError, match="did not connect in time"):
        rendezvous.through_tcp(lambda: b"", address, 1, 2, 0.1)


def socket_free():
    """Context with the address of a port that is free."""
    import contextlib
    import socket

    @contextlib.contextmanager
    def free():
        with socket.create_server(("localhost", 0)) as server:
            port = server.getsockname()[1]
        yield ("localhost", port)

    return free()


def test_the_place_of_a_rank(monkeypatch):
    for name, value in {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "1", "MASTER_ADDR": "here",
                        "MASTER_PORT": "29500"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    place = rendezvous.find()
    assert (place.rank, place.world_size, place.local_rank) == (2, 3, 1)
    assert rendezvous.find("file:///tmp/x", 5, 4).rank == 4
    with pytest.raises(ArgumentError, match="init_method is unknown"):
        rendezvous.find("gloo")
    with pytest.raises(ArgumentError, match="rank is out of range"):
        rendezvous.find("tcp://here:1", 2, 2)
    with pytest.raises(ArgumentError, match="the port is missing"):
        rendezvous.find("tcp://here", 2, 1)
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(ArgumentError, match="world_size is missing"):
        rendezvous.find()
