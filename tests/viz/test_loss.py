"""The loss curve shows the metrics and the baselines."""

import numpy as np

from minitorch_attn.viz import loss_figure
from minitorch_attn.viz.loss import _running_mean

METRICS = [
    {"step": 0, "validation_loss": 4.6},
    {"step": 10, "loss": 4.0},
    {"step": 20, "loss": 3.0, "validation_loss": 3.1},
    {"step": 30, "loss": 2.5},
]


def test_lines_and_baselines():
    axes = loss_figure(METRICS, {"bigram": 2.32, "uniform": 4.63}).axes[0]
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()}
    assert lines["validation"] == [[0, 4.6], [20, 3.1]]
    assert [x for x, _ in lines["training"]] == [10, 20, 30]
    assert [[10, 4.0], [20, 3.0], [30, 2.5]] in lines.values()
    assert {2.32, 4.63} <= {line.get_ydata()[0] for line in axes.get_lines()}
    texts = {text.get_text() for text in axes.texts}
    assert {"bigram 2.32", "uniform 4.63", "3.100"} <= texts


def test_a_run_that_has_no_metrics_yet():
    assert loss_figure([], {"uniform": 1.0}).axes[0].get_legend() is None


def test_the_running_mean_has_no_pull_to_zero():
    np.testing.assert_allclose(_running_mean([3.0] * 5, 0.9), 3.0)
    np.testing.assert_allclose(_running_mean([1.0, 2.0], 0.5), [1.0, (0.25 * 1 + 0.5 * 2) / 0.75])
