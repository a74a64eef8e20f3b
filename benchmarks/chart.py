"""Chart of the stored results: time and memory of each engine relative to PyTorch."""

from minitorch_attn.viz.style import COLOURS, new_figure, save_figure

__all__ = ["draw"]

ENGINES = (
    "minitorch_attn",
    "minitorch_attn_processes",
    "minitorch_attn_plain",
    "minitorch_attn_unsplit",
    "torch_compile",
    "jax",
)
TOP = 2.5  # upper limit of the vertical axis; longer bars are labeled with their values


def draw(results, path):
    """Write a PNG with two panels: step time and peak memory, relative to PyTorch.

    Parameters
    ----------
    results : dict
        Contents of a file `results/cpu-*.json`.
    path : path
    """
    workloads = [w for w in results["workloads"] if w["workload"].startswith("w")]
    figure = new_figure(10, 4.2)
    panels = figure.subplots(1, 2)
    _bars(panels[0], workloads, "ratio", "step time / PyTorch eager's")
    _bars(panels[1], workloads, "memory_ratio", "peak memory / PyTorch eager's")
    labelled = panels[0].get_legend_handles_labels()
    figure.legend(*labelled, loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    machine = results["machine"]
    figure.suptitle(
        f"{machine['cpu']}, {machine['cores']} cores, BLAS with {machine['blas_kernels']} kernels,"
        f" PyTorch with {results['torch_threads']} threads; below 1 is better",
        fontsize="medium",
    )
    save_figure(figure, path)


def _bars(axes, workloads, quantity, label):
    """Draw a group of bars for each workload and, for time ratios, their range over the rounds."""
    found = _rows_by_engine(workloads)
    width = 0.8 / len(found)
    for number, (engine, rows) in enumerate(found.items()):
        colour = COLOURS[ENGINES.index(engine)]
        places = [place + (number - (len(found) - 1) / 2) * width for place, _ in rows]
        values = [row[quantity] for _, row in rows]
        axes.bar(places, values, width, color=colour, label=engine)
        for place, value in zip(places, values, strict=True):
            if value > TOP:
                axes.text(place - width, TOP, f"{value:.1f}", ha="right", va="top", size="small")
        if quantity == "ratio":
            ranges = [row["ratio_range"] for _, row in rows]
            axes.vlines(places, *zip(*ranges, strict=True), color="0.3", linewidth=1)
    axes.axhline(1, color="0.45", linewidth=1, linestyle=(0, (4, 3)))
    axes.set_xticks(range(len(workloads)), [w["workload"].upper() for w in workloads])
    axes.set(ylabel=label, ylim=(0, TOP))
    axes.spines[["top", "right"]].set_visible(False)


def _rows_by_engine(workloads):
    """Return {engine: [(index of the workload, the engine's row in it), ...]}."""
    found = {engine: [] for engine in ENGINES}
    for place, workload in enumerate(workloads):
        for row in workload["engines"]:
            if row["engine"] in found:
                found[row["engine"]].append((place, row))
    return {engine: rows for engine, rows in found.items() if rows}
