"""`python -m benchmarks device-calls`: count what a step asks of a GPU, on a simulated one.

A device call is a kernel launch, a product of cuBLAS, a copy within the device or a memset. From
Python, each takes 5 to 10 microseconds, more than the arithmetic of a small model. The counts are
exact and do not depend on the batch. They need `cupysim`, CuPy with a processor in place of the
GPU; the table is written into `docs/devices.md`.
"""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["WORKLOADS", "Calls", "count", "main"]

PAGE = Path(__file__).parents[1] / "docs" / "devices.md"
START, END = "<!-- device calls: start -->", "<!-- device calls: end -->"
KINDS = ("launch", "cublas", "memcpy DtoD", "memset")
HOST_COPIES = ("memcpy HtoD", "memcpy DtoH", "memcpy HtoH")


@dataclass(frozen=True)
class Calls:
    """Device calls of one step.

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
    """Count the device calls of one steady step of a workload.

    Parameters
    ----------
    name : str
        A key of `WORKLOADS`.
    **changes
        Arguments of its function.

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
    """Return the training step of W1: forward, backward and AdamW."""
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
    """Return the forward and backward pass of W4b."""
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
    """Return the forward and backward pass of W5."""
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
    """Return the decoding of one token of W7."""
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
BEFORE = {"w1": 948, "w4b": 2089, "w5": 406, "w7": 372}  # device calls without kernels


def table(found):
    """Return the counts as a Markdown table."""
    columns = (
        "workload", "before", "launches", "products", "copies", "memsets", "all",
        "host waits", "host copies",
    )  # fmt: skip
    rows = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for name, calls in found.items():
        values = (
            BEFORE[name], calls.launches, calls.products, calls.copies, calls.memsets,
            f"**{calls.total}**", calls.synchronisations, calls.host_copies,
        )  # fmt: skip
        rows.append(f"| {TITLES[name]} | " + " | ".join(map(str, values)) + " |")
    return "\n".join(rows)


def main():
    """Count all workloads, and write the table into `docs/devices.md`."""
    found = {}
    for name in WORKLOADS:
        found[name] = count(name)
        print(f"{TITLES[name]:28}{found[name].total:6,} device calls  {found[name]}", flush=True)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n{table(found)}\n{END}{after}", encoding="utf-8")
    return 0
