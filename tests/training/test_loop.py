"""The training loop: it learns, stops, resumes exactly, and rejects NaN."""

import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import optim
from minitorch_attn.errors import ArgumentError, CheckpointError, NumericError
from minitorch_attn.training import Loop, RunFolder, mean_loss

ROOT = Path(__file__).resolve().parents[2]


class Lines:
    """Noisy points of one line, drawn with a position that can be saved."""

    def __init__(self, device=None, poison=None):
        self.position, self.device, self.poison = 0, device, poison

    def __next__(self):
        self.position += 1
        rng = np.random.default_rng([7, self.position])
        x = rng.uniform(-1, 1, (8, 1)).astype("float32")
        y = 3 * x + 1 + 0.1 * rng.standard_normal((8, 1)).astype("float32")
        if self.position == self.poison:
            y[3] = np.nan
        return mt.tensor(x, device=self.device), mt.tensor(y, device=self.device)

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


def squared_error(model, batch):
    x, y = batch
    return ((model(x) - y) * (model(x) - y)).mean()


def make_loop(run=None, device=None, seed=1, poison=None, **settings):
    mt.manual_seed(seed)
    model = mt.nn.Sequential(mt.nn.Linear(1, 4), mt.nn.Dropout(0.1), mt.nn.Linear(4, 1))
    model.to(device or "cpu")
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    settings = {"log_every": 3, "evaluate_every": 10, "save_every": 5, **settings}
    return Loop(
        model,
        optimizer,
        Lines(device, poison),
        squared_error,
        scheduler=optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step / 50)),
        max_norm=5.0,
        evaluate=lambda model: mean_loss(model, [next(Lines(device))], squared_error),
        run=run,
        **settings,
    )


def test_it_learns_and_logs(tmp_path, device):
    run = RunFolder.create(tmp_path, {})
    seen = []
    loop = make_loop(run, device, on_log=[seen.append], extra={"vocabulary": "abc"})
    assert loop.train(60) is True
    assert run.metrics() == seen
    assert [m["step"] for m in seen if "validation_loss" in m] == [0, 10, 20, 30, 40, 50, 60]
    assert [m["step"] for m in seen if "loss" in m][:5] == [3, 6, 9, 10, 12]
    assert seen[-1]["validation_loss"] < 0.2 * seen[0]["validation_loss"]
    assert seen[-1]["learning_rate"] == pytest.approx(0.05 / (1 + 60 / 50))
    assert run.checkpoints.steps() == [55, 60]
    step, state = run.checkpoints.load()
    assert state["vocabulary"] == "abc" and state["step"] == step == 60
    assert loop.seconds == pytest.approx(state["seconds"]) and loop.seconds > 0


def test_logged_losses_are_means_over_the_steps_since_the_last_entry():
    losses, entries = [], []
    loop = make_loop(evaluate_every=0, on_log=[entries.append])
    step = loop.training_step
    loop.training_step = lambda batch: (losses.append(step(batch)), losses[-1])[1]
    loop.train(6)
    values = [loss.item() for loss, _ in losses]
    logged = [e["loss"] for e in entries if "loss" in e]
    assert logged == pytest.approx([sum(values[:3]) / 3, sum(values[3:]) / 3])


@pytest.mark.parametrize("stop", [1, 4, 5, 6, 10, 11, 29])
def test_a_stopped_run_goes_on_to_the_same_bytes(stop, tmp_path, device):
    whole = RunFolder.create(tmp_path / "whole", {})
    make_loop(whole, device).train(30)

    halved = RunFolder.create(tmp_path / "halved", {})
    loop = make_loop(halved, device)
    step = loop.training_step

    def stop_later(batch):
        loop.stop_requested = loop.step + 1 == stop
        return step(batch)

    loop.training_step = stop_later
    assert loop.train(30) is False and loop.step == stop

    again = make_loop(RunFolder.open(halved.path), device, seed=99)  # other weights, other masks
    assert again.resume() == stop
    assert again.train(30) is True
    names = ["metrics.jsonl"]
    for name in names:
        assert (halved.path / name).read_bytes() == (whole.path / name).read_bytes()
    first, second = (r.checkpoints.load()[1] for r in (whole, halved))
    assert first["model"].keys() == second["model"].keys()
    for name, value in first["model"].items():
        assert value.numpy().tobytes() == second["model"][name].numpy().tobytes()


def test_stopping_before_the_first_step(tmp_path):
    run = RunFolder.create(tmp_path, {})
    loop = make_loop(run)
    loop.stop_requested = True
    assert loop.train(5) is False
    again = make_loop(run)
    assert again.resume() == 0
    again.train(5)
    assert [m["step"] for m in run.metrics()] == [0, 3, 5]


def test_going_back_to_the_checkpoint_before(tmp_path):
    run = RunFolder.create(tmp_path, {})
    make_loop(run).train(20)
    before = run.metrics()
    newest = run.checkpoints.path(20)
    newest.write_bytes(newest.read_bytes()[:-5])
    loop = make_loop(run)
    with pytest.raises(CheckpointError, match="step-00000020.*damaged"):
        loop.resume()
    assert run.metrics() == before  # nothing was cut
    assert loop.resume("previous") == 15
    assert run.metrics()[-1]["step"] <= 15 and run.checkpoints.steps()[-1] == 15
    loop.train(20)
    assert run.metrics() == before
    assert run.checkpoints.load()[0] == 20


def test_nan_stops_the_run_and_keeps_the_checkpoint(tmp_path):
    run = RunFolder.create(tmp_path, {})
    loop = make_loop(run, poison=8)
    with pytest.raises(NumericError) as caught:
        loop.train(30)
    message = str(caught.value)
    assert "the loss of step 8 is nan" in message
    assert "checkpoint of step 5 is intact" in message
    assert "--lr" in message and "detect_anomaly" in message
    assert run.checkpoints.steps() == [5]
    assert all(map(math.isfinite, (m["loss"] for m in run.metrics() if "loss" in m)))


def test_nan_is_never_saved_when_the_run_is_stopped(tmp_path):
    run = RunFolder.create(tmp_path, {})
    loop = make_loop(run, poison=7, log_every=0, evaluate_every=0, save_every=100)
    step = loop.training_step

    def stop_at_seven(batch):
        loop.stop_requested = loop.step == 6
        return step(batch)

    loop.training_step = stop_at_seven
    with pytest.raises(NumericError, match="step 7"):
        loop.train(30)
    assert run.checkpoints.steps() == []


def test_an_infinite_gradient_is_named():
    loop = make_loop(evaluate_every=0)
    loop.backward.loss_function = lambda model, batch: (
        model[2].bias.sum() * 0 + 1e30 * (model(batch[0]) * 1e30).sum().clamp(max=1.0)
    )
    with pytest.raises(NumericError, match="gradient of step 1 is inf|loss of step 1 is"):
        loop.train(3)


def test_a_state_of_something_else():
    with pytest.raises(CheckpointError, match="state: model is missing"):
        make_loop().load_state_dict({"weights": 3})


KILLED = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from minitorch_attn.training import RunFolder
from test_loop import make_loop
run = RunFolder.open({path!r})
loop = make_loop(run)
loop.resume()
print("going", flush=True)
loop.train(250)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.slow
def test_killed_at_random_moments_it_ends_as_if_never_interrupted(tmp_path, rng):
    whole = RunFolder.create(tmp_path / "whole", {})
    make_loop(whole).train(250)
    killed = RunFolder.create(tmp_path / "killed", {})
    code = KILLED.format(root=str(ROOT), tests=str(Path(__file__).parent), path=str(killed.path))
    kills = 0
    for attempt in range(60):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        if attempt % 3:  # else the kill may come while Python starts, or while the run is loaded
            process.stdout.readline()
        try:
            process.wait(timeout=0.03 * (attempt + 1) * rng.random())  # a busy machine is slow
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate()
        if process.returncode == 0:
            break
    assert process.returncode == 0
    assert kills >= 2
    name = "metrics.jsonl"
    assert (killed.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_processes_train_as_threads_do(tmp_path):
    folders = [RunFolder.create(tmp_path / name, {}) for name in ("threads", "processes")]
    for folder in folders:
        make_loop(folder, **{folder.path.name: 2}).train(12)
    first, second = (folder.checkpoints.load()[1]["model"] for folder in folders)
    for name, value in first.items():
        assert value.numpy().tobytes() == second[name].numpy().tobytes()


@pytest.mark.parametrize("threads, processes", [(2, 2), (0, 2), (1, 0)])
def test_an_invalid_number_of_processes_is_refused(threads, processes):
    with pytest.raises(ArgumentError, match="processes"):
        make_loop(threads=threads, processes=processes)
