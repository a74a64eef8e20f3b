"""Loss curve of a run, with baselines."""

from ..named_errors import names_arguments
from .style import COLOURS, new_figure

__all__ = ["loss_figure"]


@names_arguments
def loss_figure(
    metrics, baselines=None, title="Loss", smoothing=0.6, unit="nats per token",
    what="cross-entropy", highest=None,
):  # fmt: skip
    """Plot the training and validation loss over the steps.

    Parameters
    ----------
    metrics : list of dict
        Entries with "step" and "loss", "validation_loss" or both, as in metrics.jsonl.
    baselines : dict of str to float, optional
        Baseline losses, drawn as horizontal lines with their names.
    title : str
    smoothing : float, default 0.6
        Weight of past values in the moving average of the training loss. The figure also shows the
        raw values, behind the average.
    unit, what : str
        Unit and name of the loss for the axis label.
    highest : float, optional
        Upper limit of the loss axis, for runs whose first losses are far larger than later ones.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(8, 4.8)
    axes = figure.add_subplot()
    training, validation = _curve(metrics, "loss"), _curve(metrics, "validation_loss")
    if training:
        steps, losses = zip(*training, strict=True)
        axes.plot(steps, losses, color=COLOURS[0], alpha=0.25, linewidth=1)
        axes.plot(
            steps, _running_mean(losses, smoothing), color=COLOURS[0], linewidth=1.8,
            label="training",
        )  # fmt: skip
    if validation:
        steps, losses = zip(*validation, strict=True)
        axes.plot(steps, losses, color=COLOURS[1], marker="o", markersize=4, label="validation")
        axes.annotate(
            f"{losses[-1]:.3f}" if losses[-1] >= 0.1 else f"{losses[-1]:.2g}",
            (steps[-1], losses[-1]),
            xytext=(2, -14),
            textcoords="offset points",
            ha="right",
            color=COLOURS[1],
        )
    _draw_baselines(axes, baselines or {})
    axes.set(xlabel="step", ylabel=f"{what} ({unit})" if unit else what, title=title)
    axes.margins(x=0.02, y=0.08)
    if highest is not None:
        axes.set_ylim(0, float(highest))
    axes.spines[["top", "right"]].set_visible(False)
    if training or validation:
        axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.97))
    return figure


def _curve(metrics, name):
    """Return (step, value) for each entry that has a value under `name`."""
    return [(float(entry["step"]), float(entry[name])) for entry in metrics if name in entry]


def _draw_baselines(axes, baselines):
    for name, loss in baselines.items():
        loss = float(loss)
        axes.axhline(loss, color="0.45", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            f"{name} {loss:.2f}" if loss >= 1 else f"{name} {loss:.3g}",
            (0.995, loss),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize="small",
            color="0.35",
        )


def _running_mean(values, weight):
    """Return the exponential moving average, with the same bias correction as in Adam."""
    mean, means = 0.0, []
    for count, value in enumerate(values, 1):
        mean = weight * mean + (1 - weight) * value
        means.append(mean / (1 - weight**count))
    return means
