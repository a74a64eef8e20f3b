"""Figure of the speed-up: as measured, and as the cost model predicts for up to 1,024 workers."""

import matplotlib

from . import cost_model

matplotlib.use("Agg")
from matplotlib import pyplot

__all__ = ["draw"]

MOST = 1024
COLOURS = dict(
    zip(cost_model.SCHEMES, ("tab:blue", "tab:green", "tab:orange", "tab:red"), strict=True)
)


def draw(found, work, path):
    """Draw the predicted speed-up of each scheme, up to its limit, and the measured speed-ups.

    The left panel shows the measured workload. The right panel shows a larger model, which all
    schemes can split among many workers.
    """
    alone = found["rows"][0]["step_s"] * found["rows"][0]["ranks"]
    small = cost_model.Machine(alone / work.batch, found["message_s"], found["byte_s"])
    # An example takes 100 times as long to compute. The network has 10 us latency and 12.5 GB/s.
    large = cost_model.Work(1024, 4096, 4096, 64, 64, 12 * 64 * 4096**2, micro_batches=64)
    cluster = cost_model.Machine(100 * small.example, 1e-5, 1 / 12.5e9)
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    _panel(panels[0], small, work, f"{found['workload'].upper()} on this machine's constants")
    cores = found["machine"]["cores"]
    for row in found["rows"]:
        shared = row["ranks"] > cores  # sharing cores cannot be faster, whatever the scheme
        label = f"measured, {row['ranks']} on {cores} cores" if shared else "measured, data"
        face = "white" if shared else "black"
        panels[0].plot(
            row["ranks"], alone / row["step_s"], "ko", markerfacecolor=face,
            label=label if shared or row is found["rows"][0] else None,
        )  # fmt: skip
    _panel(panels[1], cluster, large, "a model of 64 layers, width 4,096 (estimate)")
    for axes in panels:
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _panel(axes, constants, work, title):
    workers = [2**k for k in range(11)]
    axes.plot(workers, workers, color="0.8", label="ideal")
    for scheme in cost_model.SCHEMES:
        most = cost_model.limit(scheme, work)
        counts = sorted({n for n in workers if n <= most} | {min(most, MOST)})
        alone = cost_model.seconds(scheme, constants, work, 1)
        speeds = [alone / cost_model.seconds(scheme, constants, work, n) for n in counts]
        axes.plot(counts, speeds, color=COLOURS[scheme], label=scheme)
        if most < MOST:
            axes.plot(counts[-1], speeds[-1], "x", color=COLOURS[scheme])
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="times as fast as one")
    axes.set_title(title, fontsize=10)
