"""Collapse figure: the entropies of a teacher's targets during several training runs.

In self-distillation (DINO), a student learns the targets of a teacher. Training has collapsed if
the teacher gives every image the same target. The figure shows the mean entropy of the targets and
the entropy of the mean target. They distinguish two kinds of collapse: if all targets are uniform,
both entropies are maximal; if one class gets all probability, both are 0.
"""

from ..named_errors import names_arguments
from .style import COLOURS, check_axes, host, new_figure

__all__ = ["collapse_figure"]


@names_arguments
def collapse_figure(runs, every, uniform, title="Entropy of the teacher's targets"):
    """Plot the mean entropy of the targets and the entropy of the mean target, one panel per run.

    Parameters
    ----------
    runs : dict of str to Tensor or array of shape (point, 2)
        For each run, by its name: mean entropy of the targets, and entropy of the mean target, in
        nats.
    every : int
        Number of training steps between two points.
    uniform : float
        Entropy of the uniform distribution, drawn as a dotted line.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(3.0 * max(len(runs), 1) + 0.6, 3.4)
    panels = figure.subplots(1, max(len(runs), 1), squeeze=False, sharey=True)[0]
    for axes, (name, run) in zip(panels, runs.items(), strict=False):
        check_axes(run, 2, "collapse_figure", "runs", "(point, 2)")
        run = host(run)
        steps = [every * i for i in range(len(run))]
        axes.plot(steps, run[:, 1], color=COLOURS[0], label="mean target")
        axes.plot(steps, run[:, 0], color=COLOURS[1], label="each target")
        axes.axhline(float(uniform), linestyle=":", color="0.5")
        axes.set(title=name, xlabel="step")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("entropy (nats)")
    panels[-1].legend(fontsize="small", frameon=False)
    figure.suptitle(title, fontsize=12)
    return figure
