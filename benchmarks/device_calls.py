"""`python -m benchmarks device-calls`: count the device calls of a step on a simulated GPU.

A device call is a kernel launch, a matrix product by cuBLAS, a copy within the device or a memset.
From Python, each takes 5 to 10 microseconds, longer than its arithmetic takes in a small model. The
counts are exact and do not depend on the batch size. Counting needs `cupysim`, a version of CuPy
that runs on a CPU. The command writes tables of the counts and of the estimated times on a GPU into
`docs/devices.md`, and draws a picture. With `--draw`, it uses the stored counts and does not need
`cupysim`.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from . import device_chart, device_estimate
from .gpu.calls import STORED
from .gpu.kernels import without_kernels

__all__ = ["WORKLOADS", "Calls", "count", "main", "rows_of"]

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURE = DOCS / "devices.md", DOCS / "images" / "device-calls.png"
START, END = "<!-- device calls: start -->", "<!-- device calls: end -->"
ESTIMATE = "<!-- estimate: start -->", "<!-- estimate: end -->"
KINDS = ("launch", "cublas", "memcpy DtoD", "memset")
HOST_COPIES = ("memcpy HtoD", "memcpy DtoH", "memcpy HtoH")


@dataclass(frozen=True)
class Calls:
    """Numbers of device calls in one step.

    Attributes
    ----------
    launches, products, copies, memsets : int
    synchronisations : int
        How often the host waited for the device.
    host_copies : int
        Copies between host and device.
    """

    launches: int
    products: int
    copies: int
    memsets: int
    synchronisations: int
    host_copies: int

    @property
    def total(self):
        """Number of device calls."""
        return self.launches + self.products + self.copies + self.memsets


def count(name, **changes):
    """Count the device calls of one step of a workload, after a warm-up step.

    Parameters
    ----------
    name : str
        A key of `WORKLOADS`.
    **changes
        Arguments of the workload's function.

    Returns
    -------
    Calls
    """
    import cupysim

    step = WORKLOADS[name](**changes)
    for _ in range(2):  # the first step compiles kernels and fills the memory pool
        cupysim.reset()
        step()
    found = {kind: calls for kind, (calls, _) in cupysim.summary().items()}
    waits = sum(calls for kind, calls in found.items() if kind.startswith("sync"))
    copies = sum(found.get(kind, 0) for kind in HOST_COPIES)
    return Calls(*[found.get(kind, 0) for kind in KINDS], waits, copies)


def _w1(batch=1):
    """Return a function that runs a training step of W1: forward, backward and AdamW."""
    import minitorch_attn as mt
    from minitorch_attn.nn import functional as F

    from .workloads import gpt_step, w1
    from .workloads.ours import filled

    sizes = {name: size for name, size in w1.SIZES.items() if name != "batch"}
    model = filled(gpt_step.our_model(**sizes)).to("cuda")
    tokens = gpt_step.tokens(batch, sizes["context"], sizes["vocabulary"])
    ids, targets = (mt.tensor(a, device="cuda") for a in tokens)
    optimizer = mt.optim.AdamW(model.parameters(), lr=gpt_step.LEARNING_RATE)

    def step():
        model.zero_grad()
        F.cross_entropy(model(ids).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()

    return step


def _w4b(batch=1):
    """Return a function that runs the forward and backward pass of W4b."""
    import minitorch_attn as mt
    from minitorch_attn.models.vit_sizes import vit_ti_16
    from minitorch_attn.nn import functional as F

    from .workloads import vit_step

    model = vit_ti_16().to("cuda")
    images, labels = (mt.tensor(a[:batch], device="cuda") for a in vit_step.arrays())

    def step():
        model.zero_grad()
        F.cross_entropy(model(images), labels).backward()

    return step


def _w5(batch=1):
    """Return a function that runs the forward and backward pass of W5."""
    import minitorch_attn as mt

    from .workloads import w5

    model = w5.our_model().to("cuda")
    x, cotangents = (mt.tensor(a[:batch], device="cuda") for a in w5.arrays())
    x.requires_grad_()

    def step():
        model.zero_grad()
        x.grad = None
        (model(x) * cotangents).sum().backward()

    return step


def _w7():
    """Return a function that decodes one token in workload W7."""
    import minitorch_attn as mt

    from .workloads import gpt_step, w7

    model = gpt_step.our_model(**w7.SIZES).to("cuda").eval()
    cache = mt.nn.StaticKVCache(w7.SIZES["context"])
    latest = [mt.tensor([[0]], device="cuda")]

    def step():
        with mt.no_grad():
            latest[0] = model(latest[0], cache)[:, -1].argmax(-1, keepdim=True)
            latest[0].item()

    return step


WORKLOADS = {"w1": _w1, "w4b": _w4b, "w5": _w5, "w7": _w7}
TITLES = {
    "w1": "W1, training step", "w4b": "W4b, forward and backward",
    "w5": "W5, forward and backward", "w7": "W7, one token",
}  # fmt: skip
BEFORE = {"w1": 948, "w4b": 2089, "w5": 406, "w7": 372}  # when the GPU ran the CPU's operations
MUST = {"w1": 340, "w4b": 835, "w5": 162, "w7": 150}
AIM = {"w1": 220, "w4b": 522, "w5": 101, "w7": 100}


def rows_of(composed, now):
    """Return each workload's device-call counts and reference totals, to be stored and plotted.

    The reference totals are an earlier total (`BEFORE`), the total that must be reached (`MUST`)
    and the total to aim for (`AIM`).

    Parameters
    ----------
    composed, now : dict of str to Calls
        Counts of each workload without the library's CUDA kernels, and with them.
    """
    return {
        name: {
            "before": BEFORE[name], "must": MUST[name], "aim": AIM[name],
            "composed": _with_sum(composed[name]), "now": _with_sum(now[name]),
        }
        for name in now
    }  # fmt: skip


def _with_sum(calls):
    return {**asdict(calls), "all": calls.total}


def table(rows):
    """Return the counts as a Markdown table."""
    columns = (
        "workload", "before", "without kernels", "must", "aim", "now", "launches", "products",
        "copies", "memsets", "host waits", "host copies",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for name, row in rows.items():
        now = row["now"]
        values = (
            row["before"], row["composed"]["all"], row["must"], row["aim"], f"**{now['all']}**",
            now["launches"], now["products"], now["copies"], now["memsets"],
            now["synchronisations"], now["host_copies"],
        )  # fmt: skip
        lines.append(f"| {TITLES[name]} | " + " | ".join(map(str, values)) + " |")
    return "\n".join(lines)


def _counted():
    """Count the device calls of all workloads, and store the counts."""
    composed, now = {}, {}
    for name in WORKLOADS:
        now[name] = count(name)
        with without_kernels():
            composed[name] = count(name)
        print(f"{TITLES[name]:28}{now[name].total:6,} device calls  {now[name]}", flush=True)
    rows = rows_of(composed, now)
    STORED.write_text(json.dumps({"workloads": rows}, indent=1) + "\n", encoding="utf-8")


def _replaced(text, marks, new):
    """Return a text with the lines between two markers replaced."""
    before, _, rest = text.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    return f"{before}{marks[0]}\n{new}\n{marks[1]}{after}"


def main(words=()):
    """Write the device calls and estimated times of all workloads into `docs/devices.md`."""
    if "--draw" not in words:
        _counted()
    rows = json.loads(STORED.read_text(encoding="utf-8"))["workloads"]
    estimates = {
        name: device_estimate.estimate(name, row["now"]["all"]) for name, row in rows.items()
    }
    device_chart.draw(TITLES, rows, estimates, PICTURE)
    text = _replaced(PAGE.read_text(encoding="utf-8"), (START, END), table(rows))
    text = _replaced(text, ESTIMATE, device_estimate.table(TITLES, estimates))
    PAGE.write_text(text, encoding="utf-8")
    print(device_estimate.table(TITLES, estimates))
    return 0
