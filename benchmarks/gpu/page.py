"""Format the results of `python -m benchmarks gpu` as Markdown tables."""

__all__ = ["END", "START", "table"]

START, END = "<!-- gpu: start -->", "<!-- gpu: end -->"


def table(results):
    """Return all results as Markdown.

    Parameters
    ----------
    results : dict
        Contents of a file `benchmarks/results/gpu-*.json`: the name of the GPU, the version of
        CuPy, and the results of each part.
    """
    lines = [f"{results['name']}, CuPy {results['cupy']}:"]
    for part, heading in (("kernels", "Tests of the kernels"), ("tests", "Test suite")):
        if part in results:
            lines += ["", f"{heading}: {results[part].get('summary', 'no time left')}"]
    for part, draw in TABLES.items():
        if part in results:
            good = {name: row for name, row in results[part].items() if "failed" not in row}
            lines += ["", *(draw(good) if good else [])]
            lines += _failures(part, results[part])
    return "\n".join(lines)


def _failures(part, rows):
    failed = [f"* {part}, {name}: {row['failed']}" for name, row in rows.items() if "failed" in row]
    return ["", *failed] if failed else []


def _rows(heads, rows):
    """Return a Markdown table."""
    return [
        f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]  # fmt: skip


def _number(row, key, digits=2):
    return f"{row[key]:.{digits}f}" if row.get(key) is not None else ""


def _ratio(row):
    """Format this library's time divided by PyTorch's; "" if PyTorch's time is missing."""
    return f"{row['ms'] / row['torch_ms']:.2f}x" if row.get("torch_ms") else ""


def _workloads(rows):
    heads = (
        "workload", "median, ms", "range, ms", "PyTorch, ms", "ratio", "device calls",
        "device busy, ms", "TFLOP/s", "GB/s", "memory, MB", "PyTorch, MB",
    )  # fmt: skip
    body = [
        (
            name.upper(), _number(row, "ms"), f"{row['least_ms']:.2f} to {row['most_ms']:.2f}",
            _number(row, "torch_ms"), _ratio(row), row["calls"].get("all", ""),
            _number(row["calls"], "busy_ms"), _number(row, "tflops"), _number(row, "gb_per_s", 0),
            _number(row, "mb", 0), _number(row, "torch_mb", 0),
        )
        for name, row in rows.items()
    ]  # fmt: skip
    return [*_rows(heads, body), *_notes(rows)]


def _notes(rows):
    """Return notes: how the device calls were counted, and why PyTorch's times are missing."""
    counted = sorted({row["calls"]["by"] for row in rows.values() if row["calls"]})
    missing = sorted({row["torch"] for row in rows.values() if row.get("torch")})
    notes = [f"Device calls are counted by: {', '.join(counted)}."] if counted else []
    return ["", *notes, *(f"{reason}." for reason in missing)]


def _kernels(rows):
    heads = ("operation", "kernel, ms", "composed, ms", "composed / kernel", "range")
    body = [
        (
            name, _number(row, "kernel_ms", 3), _number(row, "composed_ms", 3),
            f"{row['ratio']:.1f}x", "{:.1f} to {:.1f}".format(*row["ratio_range"]),
        )
        for name, row in rows.items()
    ]  # fmt: skip
    return _rows(heads, body)


def _attention(rows):
    heads = ["tokens"]
    for passes in ("forward", "with backward"):
        heads += [f"{passes}, ms", "PyTorch, ms", "TFLOP/s", "memory, MB"]
    body = [
        (
            length,
            *(
                cell
                for row in (both["forward"], both["both"])
                for cell in (
                    _number(row, "ms"), _number(row, "torch_ms"), _number(row, "tflops", 1),
                    _number(row, "mb", 0),
                )
            ),
        )
        for length, both in rows.items()
    ]  # fmt: skip
    return _rows(heads, body)


def _graphs(rows):
    body = [
        (
            "W7, one token" if name == "w7" else name.upper(),
            _number(row, "eager_ms"), _number(row, "graph_ms"),
            f"{row['eager_ms'] / row['graph_ms']:.1f}x" if "graph_ms" in row else "",
            f"not available: {row['reason']}" if row["reason"] else "",
        )
        for name, row in rows.items()
    ]  # fmt: skip
    return _rows(("step", "call by call, ms", "graph, ms", "ratio", "note"), body)


TABLES = {
    "workloads": _workloads, "kernel-times": _kernels, "attention": _attention, "graphs": _graphs,
}  # fmt: skip
