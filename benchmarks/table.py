"""Format benchmark results as lines for the terminal and as a table for the README."""

import json
import statistics
from pathlib import Path

__all__ = ["conditions", "geometric_mean", "plain", "replace_between", "write_readme"]

FOLDER = Path(__file__).parent
AVERAGED = ("w1", "w2", "w3", "w4f", "w4b", "w5", "w6", "w7")
BEGIN, END = "<!-- table: made by python -m benchmarks -->", "<!-- end of table -->"


def plain(found):
    """Format one workload's benchmark result for the terminal."""
    lines = [f"{found['workload'].upper()}  {found['title']}"]
    for row in found["engines"]:
        low, high = row["ratio_range"]
        lines.append(
            f"  {row['engine']:<22} {row['step_ms']:9.2f} ms  {row['ratio']:5.2f}x"
            f" ({low:.2f} to {high:.2f})  {row['peak_mb']:5.0f} MB ({row['memory_ratio']:.2f}x)"
            f"  {row['page_faults_per_step']:7.0f} faults/step"
        )
    lines += [f"  {name:<22} left out: {why}" for name, why in found["unavailable"].items()]
    lines.append(
        f"  {found['rounds']} rounds, {found['discarded']} discarded as contended; ratios to"
        f" {found['reference']}; largest difference {found['largest_difference']:.1e}"
    )
    return "\n".join(lines)


def geometric_mean(workloads, engine="minitorch_attn_plain", otherwise="minitorch_attn"):
    """Return the geometric mean of an engine's times relative to PyTorch's over W1 to W7.

    A workload that was not run with `engine` counts with the time of `otherwise`. Return None if a
    workload has neither of the two engines, or if no workload has `engine`.

    Parameters
    ----------
    workloads : list of dict
        Results of the workloads.
    engine : str
        Name of the engine.
    otherwise : str
        Name of the engine to use instead in workloads that were not run with `engine`.
    """
    stored = {found["workload"]: found["engines"] for found in workloads}
    ratios = []
    if not any(row["engine"] == engine for rows in stored.values() for row in rows):
        return None
    for name in AVERAGED:
        rows = {row["engine"]: row["ratio"] for row in stored.get(name, ())}
        if engine not in rows and otherwise not in rows:
            return None
        ratios.append(rows.get(engine, rows.get(otherwise)))
    return statistics.geometric_mean(ratios)


def write_readme():
    """Write a table of all stored results between the markers in benchmarks/README.md."""
    paths = sorted(FOLDER.glob("results/cpu-*.json"))
    replace_between(BEGIN, END, "\n\n".join(_section(path) for path in paths))


def replace_between(begin, end, text, path=FOLDER / "README.md"):
    """Replace the text between two markers in a file."""
    before, rest = path.read_text().split(begin, 1)
    after = rest.split(end, 1)[1]
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def conditions(machine):
    """Describe the machine, versions and settings of a benchmark run in one or two sentences."""
    settings = ", ".join(f"{k}={v}" for k, v in machine["environment"].items() if v) or "none set"
    versions = ", ".join(f"{k} {v}" for k, v in machine["versions"].items())
    versions = versions.replace(
        "minitorch-attn not installed", "minitorch-attn from its source folder"
    )
    return (
        f"**{machine['cpu']}, {machine['cores']} cores.** Python {machine['python']}, {versions};"
        f" NumPy's BLAS: {machine['numpy_blas']} with {machine['blas_kernels']} kernels;"
        f" environment: {settings}."
    )


def _section(path):
    results = json.loads(path.read_text())
    lines = [
        f"{conditions(results['machine'])} PyTorch with {results['torch_threads']} threads.",
        "",
        f"![Time and memory relative to PyTorch](results/{path.stem}.png)",
        "",
        "| | engine | step | ratio (range over rounds) | peak memory | page faults | first step |",
        "|---|---|---|---|---|---|---|",
    ]
    for found in results["workloads"]:
        for row in found["engines"]:
            low, high = row["ratio_range"]
            lines.append(
                f"| {found['workload'].upper()} | {row['engine']} | {row['step_ms']:.2f} ms"
                f" | {row['ratio']:.2f}x ({low:.2f} to {high:.2f})"
                f" | {row['peak_mb']:.0f} MB, {row['memory_ratio']:.2f}x"
                f" | {row['page_faults_per_step']:.0f} | {row['first_step_s']:.2f} s |"
            )
        lines.append(
            f"| | | {found['rounds']} rounds | {found['discarded']} discarded, ratios to"
            f" {found['reference']} | results agree to {found['largest_difference']:.0e} | | |"
        )
    mean = geometric_mean(results["workloads"])
    if mean is not None:
        lines += ["", f"Geometric mean of the plain loop's ratios over W1 to W7: {mean:.2f}x."]
    return "\n".join(lines)
