"""Format the scaling curves, and the memory that attention weights take, as tables."""

from ..table import conditions, replace_between

__all__ = ["sums_table", "table", "write_readme"]

BEGIN, END = "<!-- scaling: made by python -m benchmarks scaling -->", "<!-- end of scaling -->"
UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def table(curves):
    """Format one row for each curve: its first and last points, and its scaling exponents."""
    lines = [
        "| what grows | | from | to | time | exponent | memory | exponent |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for curve in curves:
        first, last = curve["points"][0], curve["points"][-1]
        lines.append(
            f"| {curve['what']} | {curve['label']} | {first['size']:,} | {last['size']:,}"
            f" | {first['seconds'] * 1e3:.1f} to {last['seconds'] * 1e3:,.0f} ms"
            f" | {curve['seconds_exponent']:.2f}"
            f" | {amount(first['bytes'])} to {amount(last['bytes'])}"
            f" | {curve['bytes_exponent']:.2f} |"
        )
    return "\n".join(lines)


def sums_table(sums):
    """Format a table of the memory of attention weights: by formula, and counted in a model."""
    lines = ["| all attention weights of one example | by formula | in a model |", "|---|---|---|"]
    for row in sums:
        counted = "not measured" if row["counted"] is None else amount(row["counted"])
        lines.append(f"| {row['what']} | {amount(row['formula'])} | {counted} |")
    return "\n".join(lines)


def amount(count):
    """Format a number of bytes with a suitable unit.

    Examples
    --------
    >>> amount(3 * 2**29)
    '1.5 GiB'
    """
    unit, size = next((u for u in UNITS if count >= u[1]), UNITS[-1])
    return f"{count / size:,.4g} {unit}"


def write_readme(results):
    """Write the tables between their markers in benchmarks/README.md."""
    parts = [conditions(results["machine"]), table(results["curves"]), sums_table(results["sums"])]
    replace_between(BEGIN, END, "\n\n".join(parts))
