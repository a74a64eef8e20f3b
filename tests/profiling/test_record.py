"""Profiles equal counts by hand, and times of a simulated clock."""

import inspect
import json

import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import Function, modes
from minitorch_attn.profiling import ceilings, record
from minitorch_attn.profiling.ceilings import Ceilings
from minitorch_attn.profiling.groups import Group
from minitorch_attn.viz import roofline_figure


class Clock:
    """Time that passes only when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(record, "perf_counter", clock)
    return clock


class Slow(Function):
    """2 x in 3 seconds; its derivative takes 5."""

    @staticmethod
    def forward(ctx, x, *, clock, fail=False):
        clock.now += 3
        if fail:
            raise ZeroDivisionError
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        clock = ctx.settings["clock"]
        clock.now += 5
        return Slow.call(grad, clock=clock)


class Layer(mt.nn.Module):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def forward(self, x):
        self.clock.now += 1
        return Slow.apply(x, clock=self.clock)


def test_seconds_by_hand(clock, make):
    x = make(3)
    with mt.profile() as p:
        clock.now += 7
        y = Slow.apply(Slow.apply(x, clock=clock), clock=clock)
        clock.now += 1
        y.sum().backward()
    events = [e for e in p.events if e.name == "Slow"]
    assert [e.phase for e in events] == ["forward", "forward", "backward", "backward"]
    assert [e.start for e in events] == [7, 10, 14, 22]
    assert [e.seconds for e in events] == [e.own_seconds for e in events] == [3, 3, 8, 8]
    (group,) = [g for g in p.by_op() if g.name == "Slow"]
    assert (group.calls, group.forward, group.backward) == (2, 6, 16)
    assert p.seconds == 7 + 6 + 1 + 16
    start = "30 s in total: 6 s in operations forward, 16 s backward, 8 s "
    assert p.table(rows=1).startswith(start)


def test_what_runs_inside_a_recorded_backward_is_not_counted_twice(clock, make):
    x = make(3)
    with mt.profile() as p:
        y = Slow.apply(x, clock=clock).sum()
        mt.autograd.grad(y, x, create_graph=True)
    (backward,) = [e for e in p.events if e.name == "Slow" and e.phase == "backward"]
    assert backward.seconds == 8 and backward.own_seconds == 5
    assert sum(e.own_seconds for e in p.events if e.phase != "module") == 3 + 8


def test_modules_get_what_ran_inside_them(clock, make):
    x = make(3)
    model = mt.nn.Sequential(Layer(clock), mt.nn.Sequential(Layer(clock), Layer(clock)))
    with mt.profile() as p:
        model(model(x)).sum().backward()
    found = {g.name: (g.calls, g.forward, g.backward) for g in p.by_module()}
    assert found == {
        "Sequential": (2, 18, 48),
        "Sequential.0": (2, 6, 16),
        "Sequential.1": (2, 12, 32),
        "Sequential.1.0": (2, 6, 16),
        "Sequential.1.1": (2, 6, 16),
    }
    assert [g.label for g in p.by_module()] == ["Sequential", "0", "1", "0", "1"]
    spans = [e for e in p.events if e.phase == "module" and e.name == "Sequential.1"]
    assert [e.seconds for e in spans] == [8, 8]
    lines = p.table(depth=1).splitlines()
    assert sum(line.startswith("  ") for line in lines) == 2


def test_an_operation_that_fails_has_no_event_and_breaks_nothing(clock, make):
    class Careful(mt.nn.Module):
        def forward(self, x):
            with pytest.raises(ZeroDivisionError):
                Slow.apply(x, clock=clock, fail=True)
            return Slow.apply(x, clock=clock)

    with mt.profile() as p:
        Careful()(make(3))
        with pytest.raises(ZeroDivisionError):
            Slow.apply(make(3), clock=clock, fail=True)
        Slow.apply(make(3), clock=clock)
    assert [e.seconds for e in p.events if e.name == "Slow"] == [3, 3]
    assert p.events[0].modules == ("Careful",) and p.events[-1].modules == ()
    assert modes.watchers == 0


class Brave(Function):
    """x + 1, after something else has failed."""

    @staticmethod
    def forward(ctx, x, *, clock):
        clock.now += 1
        with pytest.raises(ZeroDivisionError):
            Slow.apply(mt.tensor(1.0), clock=clock, fail=True)
        clock.now += 1
        return x + 1.0

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_an_operation_may_survive_the_failure_of_one_inside_it(clock, make):
    with mt.profile() as p:
        Brave.apply(make(3), clock=clock)
    (event,) = p.events
    assert (event.name, event.seconds) == ("Brave", 5)


def phases(p, name):
    return {e.phase: e for e in p.events if e.name == name}


def test_operations_and_bytes_of_a_layer_by_hand(device):
    layer = mt.nn.Linear(7, 5, dtype="float64").to(device)
    x = mt.ones(2, 3, 7, dtype="float64", device=device, requires_grad=True)
    with mt.profile() as p:
        layer(x).sum().backward()
    found = phases(p, "Linear")
    one = 2 * (2 * 3) * 7 * 5
    assert found["forward"].flops == one and found["backward"].flops == 2 * one
    # x, weight, bias, output
    assert found["forward"].nbytes == 8 * (42 + 35 + 5 + 30)
    assert found["forward"].elements == 30 and found["forward"].shapes == ((2, 3, 7), (5, 7), (5,))
    # the gradient of the output, x, weight; the gradients of x, weight, bias
    assert found["backward"].nbytes == 8 * (30 + 42 + 35 + 42 + 35 + 5)
    with mt.profile() as p:
        layer(x.detach()).sum().backward()
    assert phases(p, "Linear")["backward"].flops == one


@pytest.mark.parametrize("tiled, twice", [(False, 4), (True, 5)])
def test_operations_of_attention_by_hand(make, monkeypatch, tiled, twice):
    from minitorch_attn.ops.attention import scaled_dot_product as attention

    monkeypatch.setattr(attention, "tiles_pay", lambda shape: tiled)
    x = make(2, 5, 3)
    with mt.profile() as p:
        attention.scaled_dot_product_attention(x, x, x).sum().backward()
    found = phases(p, "TiledAttention" if tiled else "Attention")
    one = 2 * 2 * 5 * 5 * 3  # query key^T, or weights value
    assert (found["forward"].flops, found["backward"].flops) == (2 * one, twice * one)


def test_views_move_nothing_and_numbers_have_no_shape(make):
    x = make(4, 5)
    with mt.profile() as p:
        (x.reshape(20).exp() * 2.0).sum()
    by_name = {e.name: e for e in p.events}
    assert by_name["Reshape"].nbytes == 0 and by_name["Exp"].nbytes == 2 * 160
    assert by_name["Mul"].shapes == ((20,), None)


def test_a_checkpoint_shows_that_it_computes_twice(make):
    x = make(3)
    with mt.profile() as p:
        mt.checkpoint(lambda x: x.exp().tanh(), x).sum().backward()
    assert {g.name: g.calls for g in p.by_op()} == {"Exp": 2, "Tanh": 2, "Sum": 1}


def test_the_roofs_are_measured_once():
    roofs = ceilings("float32")
    assert roofs is ceilings(mt.float32) is ceilings("float32", "strict")
    assert roofs.flops > 1e8 and roofs.bandwidth > 1e8 and roofs.dtype == mt.float32
    assert ceilings("float64").dtype == mt.float64
    by_hand = Ceilings(flops=100.0, bandwidth=10.0, dtype=None)
    assert by_hand.least_seconds(200, 10) == 2 and by_hand.least_seconds(200, 50) == 5


def test_the_table_compares_with_the_roofs(clock, make, monkeypatch):
    with mt.profile() as p:
        make(3, 5) @ make(5, 7)
        Slow.apply(make(250), clock=clock)
    p._ceilings = Ceilings(flops=1e9, bandwidth=2000.0, dtype="float64")
    lines = p.table().splitlines()
    assert lines[1] == (
        "the roofs of this machine: 1 GFLOP/s in float64 matrix products, 2e-06 GB/s copying"
    )
    slow = next(line for line in lines if line.startswith("Slow"))
    # 4,000 bytes in 3 seconds, which at 2,000 a second takes 2
    assert slow.split() == [
        "Slow", "1", "3", "s", "-", "100.0%", "-", "3.91", "KiB", "-", "1.33e-06", "67%"
    ]  # fmt: skip
    assert str(p) == p.table()


def test_the_chrome_trace_keeps_to_the_format(tmp_path, make, device):
    model = mt.nn.Sequential(mt.nn.Linear(5, 3), mt.nn.ReLU()).to(device)
    with mt.profile() as p:
        model(mt.ones(2, 5, device=device)).sum().backward()
    p.save_chrome_trace(tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert set(found) == {"traceEvents", "displayTimeUnit"} and found["displayTimeUnit"] == "ms"
    head, *events = found["traceEvents"]
    assert head["ph"] == "M" and head["name"] == "process_name" and head["args"]["name"]
    assert len(events) == len(p.events)
    for event in events:
        assert set(event) == {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"}
        assert event["ph"] == "X" and event["cat"] in ("forward", "backward", "module")
        assert event["ts"] >= 0 and event["dur"] >= 0
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
    starts = [event["ts"] for event in events]
    assert starts == sorted(starts)
    spans = {e["name"]: (e["ts"], e["ts"] + e["dur"]) for e in events}
    for outer, inner in (
        ("Sequential", "Sequential.0"), ("Sequential.0", "Linear"), ("Sequential.1", "Relu"),
    ):  # fmt: skip
        assert spans[outer][0] <= spans[inner][0] <= spans[inner][1] <= spans[outer][1]
    linear = next(e for e in events if e["name"] == "Linear")
    assert linear["args"] == {
        "inputs": "(2, 5), (3, 5), (3,)", "bytes": 4 * (10 + 15 + 3 + 6), "flops": 60,
        "module": "Sequential.0",
    }  # fmt: skip
    assert "Linear.backward" in spans


def group(name, seconds, flops, nbytes, elements):
    made = Group(name)
    made.forward, made.backward = seconds / 4, seconds * 3 / 4
    made.flops, made.nbytes, made.elements = flops, nbytes, elements
    return made


def test_the_picture_puts_operations_where_they_belong(tmp_path, make):
    groups = [group("A", 2.0, 8e9, 1e9, 5), group("B", 1.0, 0, 4e9, 1e9), group("View", 1, 0, 0, 0)]
    figure = roofline_figure(groups, flops=1e10, bandwidth=5e9)
    bars, roof = figure.axes
    assert [text.get_text() for text in bars.get_yticklabels()] == ["A", "B", "View"]
    widths = [bar.get_width() for bar in bars.patches]
    assert widths == [500, 250, 250, 1500, 750, 750]
    points = [tuple(p) for c in roof.collections for p in c.get_offsets().tolist()]
    assert points == [(8.0, 4.0), (0.25, 1.0)]  # FLOPs per byte, GFLOP/s
    (line,) = roof.get_lines()
    assert line.get_xdata()[1] == 2.0 and line.get_ydata()[1:].tolist() == [10.0, 10.0]
    roofline_figure([], flops=1e10, bandwidth=5e9)
    with mt.profile() as p:
        (make(3, 5) @ make(5, 7)).exp()
    p.save_picture(tmp_path / "profile.png")
    assert (tmp_path / "profile.png").read_bytes().startswith(b"\x89PNG")


def test_nobody_is_asked_twice_while_nobody_listens():
    assert inspect.getsource(Function.apply).count("modes.watchers") == 1
    assert modes.watchers == 0
