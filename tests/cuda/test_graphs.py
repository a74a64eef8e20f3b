"""A replayed step equals the step itself, bit for bit; what cannot be captured says why."""

import warnings

import numpy as np
import pytest
import simulated_graphs

import minitorch_attn as mt
from minitorch_attn.backend.graph_capture import Rehearsal, recorded_by
from minitorch_attn.cuda import GraphedStep
from minitorch_attn.errors import ArgumentError
from minitorch_attn.nn import functional as F

gpu = pytest.mark.gpu
BATCH, TOKENS, VOCABULARY, WIDTH = 3, 7, 11, 8


def gpt(dropout=0.3):
    """Return a small GPT with dropout everywhere; its weights are the same at every call."""
    mt.manual_seed(5)
    return mt.models.GPT(
        VOCABULARY, TOKENS, WIDTH, num_heads=2, num_layers=2, dropout=dropout
    ).to("cuda")  # fmt: skip


def batches(count, batch=BATCH):
    """Return token ids and targets for some steps."""
    rng = np.random.default_rng(3)
    ids = rng.integers(0, VOCABULARY, (count, 2, batch, TOKENS))
    return [tuple(mt.tensor(x, device="cuda") for x in pair) for pair in ids]


class Trainer:
    """A training step with everything that changes from step to step."""

    def __init__(self, optimizer=mt.optim.AdamW, dropout=0.3, clip=1.0, **options):
        self.model = gpt(dropout)
        self.optimizer = optimizer(self.model.parameters(), **{"lr": 0.01, **options})
        self.schedule = mt.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 9)
        self.clip, self.ran = clip, 0

    def step(self, ids, targets):
        self.ran += 1
        self.optimizer.zero_grad()
        logits = self.model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        norm = mt.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss, {"norm": norm, "last": logits[:, -1]}

    def values(self):
        """Return parameters and optimizer state as NumPy arrays."""
        state = self.optimizer.state_dict()["state"]
        entries = [x for entry in state.values() for x in entry.values()]
        return [x.detach().numpy() for x in (*self.model.parameters(), *entries)]


def run(trainer, step, data):
    """Run steps; return the outputs of each as NumPy arrays."""
    outputs = []
    for ids, targets in data:
        loss, more = step(ids, targets)
        trainer.schedule.step()
        outputs.append([x.detach().numpy() for x in (loss, more["norm"], more["last"])])
    return outputs


def assert_same(first, second):
    for x, y in zip(first, second, strict=True):
        np.testing.assert_array_equal(x, y)


def expected_of(trainer, data):
    """Return the outputs of the plain steps from a known position in the random numbers."""
    mt.manual_seed(7)
    return run(trainer, trainer.step, data)


@gpu
def test_replays_equal_the_step_bit_for_bit():
    eager, other, data = Trainer(), Trainer(), batches(9)
    expected = expected_of(eager, data)
    after = mt.backend.next_offset(16)
    mt.manual_seed(7)
    graphed = GraphedStep(other.step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(other, graphed, data)
    assert graphed.reason is None and graphed.replays == 6
    assert other.ran == 4  # three warm-ups and the capture
    for x, y in zip(found, expected, strict=True):
        assert_same(x, y)
    assert_same(other.values(), eager.values())
    assert mt.backend.next_offset(16) == after  # dropout goes on where the step would have
    assert len({x[2].tobytes() for x in found}) == len(found)


@gpu
def test_steps_and_replays_may_alternate():
    eager, other, data = Trainer(), Trainer(), batches(10)
    expected = expected_of(eager, data)
    mt.manual_seed(7)
    graphed, found = GraphedStep(other.step, num_warmup_iters=1), []
    for i, batch in enumerate(data):
        found += run(other, other.step if i in (4, 7) else graphed, [batch])
    assert graphed.replays == 7
    for x, y in zip(found, expected, strict=True):
        assert_same(x, y)
    assert_same(other.values(), eager.values())


@gpu
@pytest.mark.parametrize("optimizer", [mt.optim.Adam, mt.optim.AdamW])
@pytest.mark.parametrize("options", [{"amsgrad": True, "weight_decay": 0.1}, {"maximize": True}])
def test_options_of_the_optimizer(optimizer, options):
    eager, other = (Trainer(optimizer, dropout=0.0, **options) for _ in range(2))
    data = batches(5)
    expected = expected_of(eager, data)
    found = run(other, GraphedStep(other.step, num_warmup_iters=1), data)
    for x, y in zip(found, expected, strict=True):
        assert_same(x, y)
    assert_same(other.values(), eager.values())


@gpu
def test_options_that_change_between_replays():
    eager, other, data = Trainer(), Trainer(), batches(6)
    graphed, results = GraphedStep(other.step, num_warmup_iters=1), []
    for trainer, step in ((eager, eager.step), (other, graphed)):
        mt.manual_seed(7)
        found = []
        for i, batch in enumerate(data):
            trainer.optimizer.param_groups[0].update(
                betas=(0.9 - 0.1 * i, 0.99), weight_decay=0.1 * i, eps=10.0 ** -(8 - i)
            )
            found += run(trainer, step, [batch])
        results.append([x for outputs in found for x in outputs] + trainer.values())
    assert graphed.replays == 5
    assert_same(*results)


@gpu
def test_a_checkpoint_after_replays_resumes_as_one_after_steps():
    eager, other, data = Trainer(), Trainer(), batches(9)
    expected = expected_of(eager, data)
    mt.manual_seed(7)
    run(other, GraphedStep(other.step, num_warmup_iters=1), data[:6])
    saved = other.model.state_dict(), other.optimizer.state_dict(), other.schedule.state_dict()
    position = mt.backend.get_rng_state()
    resumed = Trainer()
    for target, state in zip(
        (resumed.model, resumed.optimizer, resumed.schedule), saved, strict=True
    ):
        target.load_state_dict(state)
    mt.backend.set_rng_state(position)
    found = run(resumed, GraphedStep(resumed.step, num_warmup_iters=1), data[6:])
    for x, y in zip(found, expected[6:], strict=True):
        assert_same(x, y)
    assert_same(resumed.values(), eager.values())


@gpu
def test_loading_a_state_captures_again():
    eager, other, data = Trainer(), Trainer(), batches(9)
    graphed, results = GraphedStep(other.step, num_warmup_iters=1), []
    for trainer, step in ((eager, eager.step), (other, graphed)):
        mt.manual_seed(7)
        found = run(trainer, step, data[:4])
        trainer.optimizer.load_state_dict(trainer.optimizer.state_dict())
        found += run(trainer, step, data[4:])
        results.append([x for outputs in found for x in outputs] + trainer.values())
    assert other.ran == 4 and graphed.replays == 7
    assert_same(*results)


@gpu
def test_train_and_eval_mode_capture_again():
    eager, other, data = Trainer(), Trainer(), batches(9)
    graphed, results = GraphedStep(other.step, num_warmup_iters=1), []
    for trainer, step in ((eager, eager.step), (other, graphed)):
        mt.manual_seed(7)
        found = run(trainer, step, data[:4])
        trainer.model.eval()
        found += run(trainer, step, data[4:])
        results.append([x for outputs in found for x in outputs] + trainer.values())
    assert graphed.replays == 7
    assert_same(*results)


@gpu
@pytest.mark.parametrize("where", ["before", "before, for a time", "after", "to zeros", "never"])
def test_gradients_are_those_of_the_step(where):
    """Zeroed outside the step, before or after it, or not at all: then they accumulate."""
    results = []
    for wrapped in (False, True):
        weight = mt.nn.Parameter(mt.tensor([[1.0, -2.0, 3.0]], device="cuda"))

        def step(x, weight=weight):
            loss = (x @ weight.mT).relu().sum()
            loss.backward()
            return loss

        run_it = GraphedStep(step, num_warmup_iters=1) if wrapped else step
        found, optimizer = [], mt.optim.AdamW([weight])
        for i in range(6):
            if where == "before" or (where == "before, for a time" and i < 4):
                optimizer.zero_grad()
            elif where == "to zeros" and i:
                weight.grad.zero_()
            run_it(mt.ones(2, 3, device="cuda") * i)
            found.append(weight.grad.numpy())
            if where == "after":
                optimizer.zero_grad()
        results.append(found)
    assert run_it.reason is None and run_it.replays > 1
    assert_same(*results)


@gpu
def test_new_gradients_at_every_step_end_without_a_graph():
    weight = mt.nn.Parameter(mt.ones(3, device="cuda"))

    def step(x):
        (x * weight).sum().backward()

    graphed = GraphedStep(step, num_warmup_iters=1, max_graphs=2)
    x, total = mt.ones(3, device="cuda"), 0.0
    with pytest.warns(UserWarning, match="more than 2 graphs"):
        for i in range(9):
            weight.grad = mt.full((3,), float(i), device="cuda")
            graphed(x)
            total += float(weight.grad[0])
    assert total == sum(range(9)) + 9


@gpu
def test_each_shape_and_each_other_argument_has_its_own_graph():
    trainer = Trainer(dropout=0.0)

    def forward(batch, *, scale=1.0, names=()):
        with mt.no_grad():
            logits = trainer.model(batch["ids"])
            return [logits * scale, {"names": names}]

    graphed = GraphedStep(forward, num_warmup_iters=2, max_graphs=3)
    inputs = [ids for size in (1, 2) for ids, _ in batches(5, size)]
    for scale in (1.0, 2.0):
        for ids in inputs[:5] if scale == 2.0 else inputs:
            logits, more = graphed({"ids": ids}, scale=scale, names=("a",))
            assert_same([logits.numpy()], [forward({"ids": ids}, scale=scale)[0].numpy()])
            assert more == {"names": ("a",)} and not logits.requires_grad
    assert graphed.replays == 9
    with pytest.warns(UserWarning, match="more than 3 graphs"):
        graphed({"ids": inputs[0]}, scale=3.0)
    graphed({"ids": inputs[0]}, scale=1.0, names=("a",))
    assert graphed.replays == 10 and graphed.reason is None
    graphed.reset()
    graphed({"ids": inputs[0]}, scale=3.0)
    assert graphed.replays == 10 and graphed.reason is None


@gpu
@pytest.mark.parametrize("copied", [True, False])
def test_outputs_are_copies_unless_the_next_call_may_overwrite_them(copied):
    graphed = GraphedStep(lambda x: x * 2, num_warmup_iters=1, copy_outputs=copied)
    outputs = [graphed(mt.ones(3, device="cuda") * i) for i in range(5)]
    assert [float(y[0]) for y in outputs[1:]] == ([2.0, 4.0, 6.0, 8.0] if copied else [8.0] * 4)


@gpu
def test_strided_inputs_and_the_memory_of_intermediate_results():
    def step(x):
        y = x
        for _ in range(5):
            y = (y * 2).exp().log() / 2  # memory that is freed and used again
        return y

    graphed = GraphedStep(step, num_warmup_iters=1)
    for i in range(4):
        x = mt.tensor(np.arange(12.0).reshape(3, 4) / 12 + i, device="cuda").mT
        kept = [mt.zeros(4, 3, device="cuda") for _ in range(20)]  # must not share that memory
        y = graphed(x)
        np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=1e-5)
        assert all(float(z.sum()) == 0 for z in kept)


@gpu
def test_an_index_out_of_range_is_reported_at_the_next_read():
    table = mt.nn.Embedding(5, 2).to("cuda")
    graphed = GraphedStep(table, num_warmup_iters=1)
    with mt.no_grad():
        for i in (1, 2, 3):
            graphed(mt.tensor([i], device="cuda")).numpy()
        y = graphed(mt.tensor([5], device="cuda"))
        with pytest.raises(IndexError):
            y.numpy()


def waits(x):
    return x * float(x.sum())


def depends_on_values(x):
    return x[x > 0]


def copies_from_the_host(x):
    return x + mt.tensor([1.0, 2.0, 3.0], device="cuda")


def draws_on_the_host(x):
    return x + mt.randn(3, device="cuda")


def decodes(x):
    cache = mt.nn.StaticKVCache(4)
    return cache.layer(0).update(x.reshape(1, 1, 1, 3), x.reshape(1, 1, 1, 3))[0]


def schedules(x):
    optimizer = mt.optim.AdamW([mt.nn.Parameter(x)])
    mt.optim.lr_scheduler.StepLR(optimizer, 2).step()
    return x


def updates_without_a_kernel(x):
    weight = mt.nn.Parameter(x.clone())
    weight.grad = x
    mt.optim.SGD([weight], lr=0.1).step()
    return weight


IMPOSSIBLE = {
    waits: "makes the host wait", depends_on_values: "the capture failed",
    copies_from_the_host: "copies an array from the host", draws_on_the_host: "random numbers",
    decodes: "KV cache", schedules: "learning-rate schedule", updates_without_a_kernel: "SGD",
}  # fmt: skip


@gpu
@pytest.mark.parametrize("step", IMPOSSIBLE, ids=lambda step: step.__name__)
def test_a_step_that_cannot_be_captured_runs_as_usual_and_says_why(step):
    graphed, x = GraphedStep(step, num_warmup_iters=2), mt.ones(3, device="cuda")
    graphed(x)
    assert graphed.reason is None
    with pytest.warns(UserWarning, match="GraphedStep runs without a graph") as caught:
        for _ in range(3):
            mt.manual_seed(3)
            y = graphed(x)
            mt.manual_seed(3)
            np.testing.assert_array_equal(y.detach().numpy(), step(x).detach().numpy())
    assert len(caught) == 1 and caught[0].filename == __file__
    assert IMPOSSIBLE[step] in graphed.reason and graphed.replays == 0


@gpu
@pytest.mark.parametrize("late", [False, True])
def test_a_capture_that_fails_leaves_no_trace(late, monkeypatch):
    """CuPy refuses something only while it captures: updates, gradients and dropout go on."""
    cupy = pytest.importorskip("cupy")
    eager, other, data = Trainer(), Trainer(), batches(7)

    def breaking(trainer):
        def step(ids, targets):
            def refused():
                cupy.ones((2, 2)) @ cupy.ones((2, 2))  # by CuPy: not during a capture

            if not late:
                refused()
            outputs = trainer.step(ids, targets)
            if late:
                refused()
            return outputs

        return step

    expected = expected_of(eager, data)
    mt.manual_seed(7)
    graphed = GraphedStep(breaking(other), num_warmup_iters=2)
    with pytest.warns(UserWarning, match="the capture failed: NotImplementedError"):
        found = run(other, graphed, data)
    assert graphed.replays == 0 and "NotImplementedError" in graphed.reason
    for x, y in zip(found, expected, strict=True):
        assert_same(x, y)
    assert_same(other.values(), eager.values())


@gpu
def test_a_capture_that_fails_leaves_no_gradients():
    cupy = pytest.importorskip("cupy")
    weight = mt.nn.Parameter(mt.ones(3, device="cuda"))

    def step(x):
        (x * weight).sum().backward()
        cupy.ones((2, 2)) @ cupy.ones((2, 2))

    graphed = GraphedStep(step, num_warmup_iters=1)
    with pytest.warns(UserWarning, match="the capture failed"):
        for i in range(4):
            weight.grad = None
            graphed(mt.full((3,), float(i), device="cuda"))
            np.testing.assert_array_equal(weight.grad.numpy(), [i] * 3)


@gpu
def test_other_parameters_capture_again():
    layer = mt.nn.Linear(3, 2).to("cuda")
    graphed, x = GraphedStep(layer, num_warmup_iters=1), mt.ones(1, 3, device="cuda")
    with mt.no_grad():
        for _ in range(3):
            graphed(x)
        layer.weight.data = mt.ones(2, 3, device="cuda")
        layer.bias.data = mt.zeros(2, device="cuda")
        np.testing.assert_array_equal(graphed(x).numpy(), [[3.0, 3.0]])


@gpu
def test_a_graph_has_memory_of_its_own():
    """What the pool of all other arrays frees or reuses, a replay would still write to."""
    cupy = pytest.importorskip("cupy")
    pool, x = cupy.get_default_memory_pool(), mt.ones(1 << 16, device="cuda")
    graphed = GraphedStep(lambda x: ((x * 2).exp() + 1).sum(), num_warmup_iters=1)
    pool.free_all_blocks()
    before = pool.total_bytes()
    for _ in range(3):
        graphed(x)
    assert pool.total_bytes() - before < 2 * x.array.nbytes  # the copy of x
    mt.cuda.empty_cache()
    assert float(graphed(x)) > 0


@gpu
def test_errors_of_the_step_are_its_own():
    def step(x):
        raise ValueError("wrong")

    graphed = GraphedStep(step)
    with pytest.raises(ValueError, match="wrong"):
        graphed(mt.ones(3, device="cuda"))


@gpu
def test_a_graphed_step_inside_another_becomes_part_of_it():
    inner = GraphedStep(lambda x: x * 2, num_warmup_iters=1)
    outer = GraphedStep(lambda x: inner(x) + 1, num_warmup_iters=1)
    assert [float(outer(mt.ones(1, device="cuda") * i)) for i in range(4)] == [1, 3, 5, 7]
    assert outer.replays == 3 and inner.replays == 0


@gpu
def test_arguments_that_a_graph_cannot_take():
    x = mt.ones(3, device="cuda")
    with pytest.warns(UserWarning, match="an argument requires grad"):
        GraphedStep(lambda x: x * 2)(x.clone().requires_grad_())
    with pytest.warns(UserWarning, match="a tensor is on the cpu"):
        GraphedStep(lambda x, y: x * 2)(x, mt.ones(2))


@gpu
def test_a_replay_is_two_calls_and_a_copy_for_each_tensor():
    cupysim = pytest.importorskip("cupysim")
    trainer, (batch, *_) = Trainer(), batches(1)
    graphed = GraphedStep(trainer.step, num_warmup_iters=1)
    graphed(*batch)
    cupysim.reset()
    trainer.step(*batch)
    calls = {kind: count for kind, (count, _) in cupysim.summary().items()}
    graphed(*batch)
    assert simulated_graphs.captured_nodes() == sum(
        calls.get(kind, 0) for kind in ("launch", "cublas", "memcpy DtoD", "memset")
    )
    cupysim.reset()
    graphed(*batch)
    after = {kind: count for kind, (count, _) in cupysim.summary().items()}
    assert after["graph"] == 1 and not any(kind.startswith("sync") for kind in after)
    assert after["launch"] - calls["launch"] <= 1 + 2 + 3  # numbers, inputs, outputs


@pytest.mark.parametrize("kind", ["cpu", "strict"])
def test_elsewhere_the_step_runs_as_usual(kind):
    graphed = GraphedStep(lambda x, y=1: (x * y, y))
    with pytest.warns(UserWarning, match=f"a tensor is on the {kind}") as caught:
        for y in (2, 3):
            product, same = graphed(mt.ones(2, device=kind), y=y)
            assert product.numpy()[0] == same == y
    assert len(caught) == 1 and graphed.replays == 0


def test_a_step_needs_a_warm_up():
    with pytest.raises(mt.errors.ArgumentError, match="num_warmup_iters"):
        GraphedStep(print, num_warmup_iters=0)


def test_the_strict_device_finds_what_a_graph_cannot_repeat():
    """A rehearsal needs no GPU: forward and backward pass, dropout and clipping are repeatable."""
    mt.manual_seed(3)
    model = mt.models.GPT(VOCABULARY, TOKENS, WIDTH, num_heads=2, num_layers=1, dropout=0.3)
    model = model.to("strict")
    ids = mt.tensor([[1, 2, 3]], device="strict")

    def step():
        loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    step()
    with recorded_by(Rehearsal()) as rehearsal:
        step()
    assert rehearsal.refused == []
    with recorded_by(Rehearsal()) as rehearsal:
        step().item()
    assert "makes the host wait" in rehearsal.refused[0]
    with recorded_by(Rehearsal()) as rehearsal:
        ids + mt.tensor([[1, 2, 3]], device="strict")
    assert rehearsal.refused == ["copies an array from the host to the device"]


@gpu
def test_the_step_of_w1_is_captured():
    from benchmarks.device_calls import WORKLOADS

    graphed = GraphedStep(WORKLOADS["w1"](), num_warmup_iters=1)
    for _ in range(3):
        graphed()
    assert graphed.reason is None and graphed.replays == 2


@pytest.mark.parametrize("warmups", [0, -1, 2.5, None, object()])
def test_warmups_are_a_positive_int(warmups):
    with pytest.raises(ArgumentError, match="num_warmup_iters must be an int, at least 1"):
        mt.cuda.GraphedStep(lambda: None, num_warmup_iters=warmups)
