"""ProcessSplit: the numbers of ThreadSplit, in processes that see the model as it is now."""

import gc
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from marks import slow_except

import minitorch_attn as mt
from minitorch_attn.errors import CommunicationError, DTypeError, GraphError, ShapeError
from minitorch_attn.training import ProcessSplit, ThreadSplit, shared_gradients
from minitorch_attn.training.shared_gradients import SharedGradients

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ProcessSplit forks on Linux only"),
    pytest.mark.skipif("config.getoption('--device') != 'numpy'", reason="processes use NumPy"),
]
ROWS, WIDTH, OUT = 7, 5, 3


def build(dtype="float64", dropout=0.3):
    mt.manual_seed(2)
    layers = [mt.nn.Linear(WIDTH, 11), mt.nn.Dropout(dropout), mt.nn.ReLU(), mt.nn.Linear(11, OUT)]
    return mt.nn.Sequential(*layers).to(getattr(mt, dtype))


def batch_of(dtype="float64", rows=ROWS):
    rng = np.random.default_rng(5)
    return mt.tensor(rng.normal(size=(rows, WIDTH)).astype(dtype))


def loss_function(model, x):
    return model(x).square().mean()


def gradients(model):
    return [None if p.grad is None else p.grad.numpy().copy() for p in model.parameters()]


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def run(split_class, parts, steps=4, loss_function=loss_function, dtype="float64", change=None):
    """Train for some steps, and return the losses, the gradients, the weights and the split."""
    model = build(dtype)
    split = split_class(model, loss_function, parts)
    optimizer = mt.optim.AdamW(model.parameters(), lr=0.01)
    mt.manual_seed(3)
    losses = []
    for step in range(steps):
        if change and step == 2:
            change(model)
        model.zero_grad()
        losses.append(split(batch_of(dtype)).item())
        optimizer.step()
    weights = [p.numpy().copy() for p in model.parameters()]
    return losses, gradients(model), weights, split


def compare(parts=2, **options):
    """Assert that a run in processes equals one in threads, bit by bit."""
    *expected, _ = run(ThreadSplit, parts, **options)
    *found, processes = run(ProcessSplit, parts, **options)
    assert found[0] == expected[0]
    assert_same(found[1], expected[1])
    assert_same(found[2], expected[2])
    assert processes._workers is not None  # they were used


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("parts", [2, 3, 7])
def test_equals_threads_bit_by_bit(parts, dtype):
    compare(parts, dtype=dtype)


@pytest.mark.parametrize("slow", range(3))
@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("together", [1 << 20, 100, 1])
def test_the_sum_does_not_depend_on_the_fastest_process(parts, slow, together, monkeypatch):
    """`together`: bytes of a piece; the gradients are 24 to 440 bytes large."""
    monkeypatch.setattr(shared_gradients, "_TOGETHER", together)
    rows = np.array_split(batch_of().numpy(), parts)  # the first part has the most rows
    first_numbers = [part[0, 0] for part in rows]

    def loss(model, x):
        y = model(x)
        if first_numbers.index(x[0, 0].item()) == slow:
            y.register_hook(lambda _: time.sleep(0.02))
        return y.square().mean()

    compare(parts, loss_function=loss)


def test_pieces_of_gradients_in_any_order_in_memory(monkeypatch):
    """Each row of a weight is a piece, and the gradient of the weight is a transposed product."""
    monkeypatch.setattr(shared_gradients, "_TOGETHER", 1)

    def loss(model, x):
        weights = model[0].weight.transpose(0, 1), model[3].weight.transpose(0, 1)
        return (x @ weights[0] @ weights[1]).square().mean()

    compare(2, loss_function=loss)
    compare(3, loss_function=loss)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_small_batches(rows):
    found = []
    for split_class in (ThreadSplit, ProcessSplit):
        model = build()
        mt.manual_seed(0)
        loss = split_class(model, loss_function, 3)(batch_of(rows=rows))
        found.append((loss.item(), gradients(model)))
    assert found[0][0] == found[1][0]
    assert_same(found[0][1], found[1][1])


def test_gradients_add_up_over_calls():
    model, alone = build(dropout=0.0), build(dropout=0.0)
    split = ProcessSplit(model, loss_function)
    for _ in range(2):
        split(batch_of())
        loss_function(alone, batch_of()).backward()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-15)


def test_a_gradient_that_somebody_keeps_is_not_overwritten():
    model = build()
    split = ProcessSplit(model, loss_function)
    split(batch_of())
    kept, copies = [p.grad for p in model.parameters()], gradients(model)
    model.zero_grad()
    split(3 * batch_of())
    assert_same([grad.numpy() for grad in kept], copies)
    assert not np.array_equal(model[0].weight.grad.numpy(), copies[0])


@pytest.mark.parametrize("base", [False, True])
def test_gradients_are_added_to_given_tensors_in_place(base):
    """The tensor in `.grad` stays the same one, and so does its memory."""
    found = []
    for split_class in (ThreadSplit, ProcessSplit):
        model = build(dropout=0.0)
        split = split_class(model, loss_function)
        flat = mt.ones(11 * WIDTH + 4).double()
        given = flat[4:].reshape(11, WIDTH) if base else mt.ones(11, WIDTH).double()
        model[0].weight.grad = given
        for _ in range(3):
            split(batch_of())
        assert model[0].weight.grad is given
        found.append([given.numpy(), flat.numpy(), model[0].bias.grad.numpy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    assert (found[0][1] != 1).any() == base


# What the workers see


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.eval(),
        lambda model: model[1].eval(),
        lambda model: setattr(model[1], "p", 0.7),
        lambda model: model[0].weight.requires_grad_(False),
        lambda model: setattr(model[0], "weight", mt.nn.Parameter(model[0].weight.detach() * 2)),
        lambda model: model.load_state_dict({n: t * 0.5 for n, t in model.state_dict().items()}),
        lambda model: model.append(mt.nn.Linear(OUT, 2).double()),
        lambda model: mt.manual_seed(11),
    ],
)
def test_changes_of_the_model_reach_the_workers(change):
    def change_all(model):
        mt.manual_seed(9)
        change(model)

    compare(2, change=change_all)


def test_new_values_of_parameters_and_buffers_need_no_new_workers():
    class Scaled(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = mt.nn.Linear(WIDTH, OUT)
            self.register_buffer("scale", mt.tensor(2.0))

        def forward(self, x):
            return self.linear(x) * self.scale

    model = Scaled().double()
    split = ProcessSplit(model, loss_function)
    split(batch_of())
    workers = split._workers
    state = {"linear.weight": mt.ones(OUT, WIDTH), "linear.bias": mt.zeros(OUT)}
    model.load_state_dict({**state, "scale": mt.tensor(-3.0)})
    model.zero_grad()
    loss = split(batch_of())
    assert split._workers is workers
    found, expected = gradients(model), loss_function(model, batch_of())
    assert loss.item() == pytest.approx(expected.item(), rel=1e-14)
    model.zero_grad()
    expected.backward()
    for a, b in zip(found, gradients(model), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)


def test_workers_are_started_once_after_the_first_step_of_an_optimizer():
    model = build()
    split = ProcessSplit(model, loss_function)
    optimizer = mt.optim.AdamW(model.parameters())
    pids = []
    for _ in range(5):
        optimizer.zero_grad()
        split(batch_of())
        pids.append(split._workers.pids[0])
        optimizer.step()
    assert len({*pids}) == 2 and len({*pids[1:]}) == 1


def test_nested_batches_with_masks_reach_the_workers():
    def loss(model, batch):
        (x, mask), options = batch["inputs"], batch["options"]
        assert type(batch["inputs"]) is tuple and options == [1, None, "name", 0.5, True]
        assert batch["shared"].shape == () and batch["empty"].shape[1:] == (0, 2)
        assert isinstance(mask, mt.nn.masks.Mask)
        y = mt.where(mask.attend[:, 0, 0, :WIDTH], x, 0.0)
        return model(y.double()).square().mean() * batch["shared"].item()

    mask = mt.nn.masks.padding([1, 2, 3, 4, 5, 4, 3], max_len=WIDTH)
    batch = {
        "inputs": (batch_of("float32")[:, ::1], mask), "options": [1, None, "name", 0.5, True],
        "shared": mt.tensor(3.0), "empty": mt.zeros(ROWS, 0, 2),
    }  # fmt: skip
    found = []
    for split_class in (ThreadSplit, ProcessSplit):
        model = build(dropout=0.0)
        split_class(model, loss, 2)(batch)
        found.append(gradients(model))
    assert_same(*found)


def test_a_value_that_cannot_be_sent_is_refused():
    split = ProcessSplit(build(), lambda model, batch: model(batch[0]).mean())
    with pytest.raises(DTypeError, match="cannot be sent to another process"):
        split((batch_of(), {1, 2}))
    assert split((batch_of(), None)).ndim == 0


# Parameters without a gradient, and gradients that arrive late


def test_parameters_that_only_some_parts_use():
    def loss(model, x):
        y = model[0](x)
        return (model[2](y) if x[0, 0].item() == batch_of()[0, 0].item() else y[:, :OUT]).mean()

    for first in (0, 1):  # the part that uses model[2]
        found = []
        for split_class in (ThreadSplit, ProcessSplit):
            mt.manual_seed(0)
            model = mt.nn.Sequential(*(mt.nn.Linear(WIDTH, WIDTH) for _ in range(3))).double()
            batch = batch_of() if first == 0 else batch_of().flip(0)
            if first == 1:
                batch[ROWS - ROWS // 2] = batch_of()[0]  # the first row of the second part
            split_class(model, loss, 2)(batch)
            found.append(gradients(model))
            assert model[1].weight.grad is None and model[2].weight.grad is not None
        assert_same([g for g in found[0] if g is not None], [g for g in found[1] if g is not None])


@pytest.mark.parametrize("outside", [False, True])
def test_checkpoints_work_beside_other_uses_of_their_parameters(outside):
    def loss(model, x):
        inside = mt.checkpoint(model, x).square().mean()
        return inside + model[0](x).mean() if outside else inside

    found = []
    for split_class in (ThreadSplit, ProcessSplit):
        model = build(dropout=0.0)
        split_class(model, loss, 2)(batch_of())
        found.append(gradients(model))
    assert_same(*found)


def test_a_second_gradient_of_a_parameter_is_refused():
    class Inner(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.copy()

        @staticmethod
        def backward(ctx, grad):
            with mt.enable_grad():
                model[0].bias.sum().backward()
            return grad

    model = build(dropout=0.0)
    split = ProcessSplit(model, lambda model, x: Inner.apply(model(x)).mean())
    with pytest.raises(GraphError, match="received a gradient twice"):
        split(batch_of())
    assert gradients(model) == [None] * 4
    assert split._workers is None  # the next call starts new ones


# Calls that use threads


def _hook_on_a_parameter(model):
    model[0].weight.register_hook(lambda grad: 2 * grad)


def _hook_on_a_module(model):
    model[0].register_forward_hook(lambda *_: None)


@pytest.mark.parametrize("prepare", [_hook_on_a_parameter, _hook_on_a_module])
def test_hooks_use_threads(prepare):
    found = []
    for split_class in (ThreadSplit, ProcessSplit):
        model = build(dropout=0.0)
        prepare(model)
        split = split_class(model, loss_function, 2)
        split(batch_of())
        found.append(gradients(model))
    assert split._workers is None
    assert_same(*found)


def test_listeners_and_inputs_that_require_a_gradient_use_threads():
    model = build(dropout=0.0)
    split = ProcessSplit(model, loss_function)
    x = batch_of().requires_grad_()
    split(x)
    assert x.grad is not None
    with mt.autograd.detect_anomaly():
        split(batch_of())
    with mt.autocast("cpu"):
        split(batch_of())
    with mt.no_grad(), pytest.raises(GraphError):
        split(batch_of())
    assert split._workers is None


# Errors


def test_an_error_in_the_forward_pass_is_raised_as_it_is_and_changes_no_gradient():
    def loss(model, x):
        if x.shape[0] == ROWS // 2:  # the second part
            raise ShapeError("of the second part")
        return loss_function(model, x)

    model = build(dropout=0.0)
    split = ProcessSplit(model, loss)
    model[0].weight.grad = mt.ones_like(model[0].weight)
    with pytest.warns(RuntimeWarning, match="of the second part"):
        with pytest.raises(ShapeError, match="of the second part"):
            split(batch_of())
    assert (model[0].weight.grad == 1).all() and model[2 + 1].weight.grad is None
    assert split(batch_of(rows=8)).ndim == 0  # it still works


def test_an_error_that_only_a_worker_has_is_a_warning():
    parent = os.getpid()

    def loss(model, x):
        if os.getpid() != parent:
            raise MemoryError("too little")
        return loss_function(model, x)

    model, alone = build(dropout=0.0), build(dropout=0.0)
    with pytest.warns(RuntimeWarning, match="too little"):
        ProcessSplit(model, loss)(batch_of())
    ThreadSplit(alone, loss_function)(batch_of())
    assert_same(gradients(model), gradients(alone))


@pytest.mark.parametrize("bad", ["no graph", "not a scalar", "not a tensor"])
def test_a_loss_that_cannot_be_differentiated_gives_the_error_of_threads(bad):
    def loss(model, x):
        y = model(x)
        return {"no graph": y.detach().mean(), "not a scalar": y.mean(0), "not a tensor": 1.5}[bad]

    messages = []
    for split_class in (ThreadSplit, ProcessSplit):
        with pytest.raises((GraphError, DTypeError)) as raised:
            split_class(build(), loss, 2)(batch_of())
        messages.append(str(raised.value).replace(split_class.__name__, "split"))
    assert messages[0] == messages[1]


def test_an_error_in_the_backward_pass_of_a_worker():
    parent, fails = os.getpid(), [True]

    def loss(model, x):
        y = model(x)
        if fails[0] and os.getpid() != parent:
            y.register_hook(lambda _: 1 / 0)
        return y.mean()

    model = build(dropout=0.0)
    split = ProcessSplit(model, loss)
    model[0].weight.grad = given = mt.ones_like(model[0].weight)
    with pytest.raises(CommunicationError, match="ZeroDivisionError"):
        split(batch_of())
    assert model[0].weight.grad is given and (given == 1).all()
    assert gradients(model)[1:] == [None] * 3  # a part of the sums is missing
    fails[0] = False  # new workers see it
    assert split(batch_of()).ndim == 0


@pytest.mark.parametrize("when", ["while it waits", "in the forward pass", "in the backward pass"])
def test_a_killed_worker_is_reported_and_replaced(when):
    parent, wanted = os.getpid(), [True]

    def die(_=None):
        if wanted[0] and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    def loss(model, x):
        y = model(x)
        if when == "in the forward pass":
            die()
        if when == "in the backward pass":
            y.register_hook(die)
        return y.mean()

    split = ProcessSplit(build(dropout=0.0), loss, 3)
    if when == "while it waits":
        split(batch_of())
        os.kill(split._workers.pids[1], signal.SIGKILL)
    with pytest.raises(CommunicationError, match="SIGKILL"):
        split(batch_of())
    wanted[0] = False
    assert split(batch_of()).ndim == 0


@pytest.mark.parametrize("while_it", ["holds the lock", "adds gradients"])
@pytest.mark.parametrize("killed", slow_except((2,), [1, 2, 3]))
@pytest.mark.parametrize("first", [False, True])
def test_a_worker_that_is_killed_while_others_wait_for_it_is_reported(
    while_it, killed, first, monkeypatch
):
    """`first`: it is killed before the calling process has added a gradient."""
    take_turns = SharedGradients._take_turns

    def die(self, pending, rank, check_others):
        if rank == killed:
            with self._locked(check_others):
                self.busy[...] = True
                if while_it == "holds the lock":
                    os.kill(os.getpid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 0 and first:
            time.sleep(0.1)
        take_turns(self, pending, rank, check_others)

    split = ProcessSplit(build(), loss_function, 4)
    with monkeypatch.context() as patched:
        patched.setattr(SharedGradients, "_take_turns", die)
        with pytest.raises(CommunicationError, match="SIGKILL"):
            split(batch_of())
    assert split(batch_of()).ndim == 0


def test_an_interrupt_ends_the_workers():
    parent, wanted = os.getpid(), [False]

    def loss(model, x):
        if wanted[0] and os.getpid() == parent:
            raise KeyboardInterrupt
        return loss_function(model, x)

    split = ProcessSplit(build(), loss)
    split(batch_of())
    (pid,) = split._workers.pids
    wanted[0] = True
    with pytest.raises(KeyboardInterrupt):
        split(batch_of())
    assert not exists(pid)


# The end of the workers


def exists(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_end_with_close_and_with_the_object():
    split = ProcessSplit(build(), loss_function, 3)
    for end in ("close", "delete"):
        split(batch_of())
        pids = list(split._workers.pids)
        assert len(pids) == 2 and all(map(exists, pids))
        if end == "close":
            split.close()
            split.close()  # a second call does nothing
        else:
            del split
            gc.collect()
        assert not any(map(exists, pids))


PROGRAM = """
import os, signal, sys
import minitorch_attn as mt
from minitorch_attn.training import ProcessSplit
model = mt.nn.Linear(3, 1)
split = ProcessSplit(model, lambda model, x: model(x).mean(), 3)
print("once", end=" ")
split(mt.ones(4, 3))
print(*split._workers.pids, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "error":
    raise SystemExit(3)
"""


@pytest.mark.parametrize("end, status", [("normal", 0), ("error", 3), ("killed", -9)])
def test_workers_end_with_the_program(end, status):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, end], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status and not done.stderr
    name, *pids = done.stdout.split()  # what the buffer held is printed once
    assert name == "once" and len(pids) == 2
    until = time.monotonic() + 20
    while any(map(exists, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(exists, pids))


def test_a_fork_of_the_program_does_not_use_its_workers():
    split = ProcessSplit(build(), loss_function)
    split(batch_of())
    (pid,) = split._workers.pids
    child = os.fork()
    if child == 0:
        try:
            split(batch_of())
            fine = split._workers.pids != [pid]
            split.close()
        finally:
            os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert exists(pid) and split(batch_of()).ndim == 0
