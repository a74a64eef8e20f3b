"""Gradient check for the blocks of a trained model."""

import copy

from ...autograd import no_grad
from ...gradcheck.gradcheck import gradcheck_module_report
from ...nn import masks
from ...tensor import tensor

__all__ = ["check_blocks", "show_gradient_check"]

_CHECKED_TOKENS = 8
_STEP = 2e-5


def check_blocks(model, ids):
    """Check the gradients of every block of a trained GPT, on inputs from a text.

    The input of a block is the one that it receives when the GPT reads the text `ids`.

    The check uses float64 and a step of 2e-5. A larger step is too inaccurate, because layer
    norm is very nonlinear early in training, when it divides by a standard deviation of about 0.02.
    With a smaller step, rounding errors dominate the query and key gradients, which are small while
    attention is nearly uniform.

    Parameters
    ----------
    model : GPT
    ids : sequence of int
        Token ids of a text. The check uses only the first few.

    Returns
    -------
    list of GradcheckReport
    """
    model = copy.deepcopy(model).to("cpu").double().eval()
    length = min(_CHECKED_TOKENS, model.context_length)
    ids = tensor([ids[:length]])  # (1, token)
    inputs, reports = [], []
    handles = [
        block.register_forward_pre_hook(lambda module, args: inputs.append(args[0].detach()))
        for block in model.blocks
    ]
    with no_grad():
        model(ids)
    for handle in handles:
        handle.remove()
    for block, x in zip(model.blocks, inputs, strict=True):
        mask = masks.causal(length)
        reports.append(gradcheck_module_report(block, x, mask, fast=True, eps=_STEP))
    return reports


def show_gradient_check(page, reports):
    """Print the first block's report and a summary of all reports, and write all to gradcheck.txt.

    Parameters
    ----------
    page : Page
    reports : list of GradcheckReport

    Returns
    -------
    bool
        True if all gradients are correct.
    """
    page.heading("Is its backward pass the derivative of its forward pass?")
    rows = [
        (item.name, " x ".join(map(str, item.shape)), f"{item.error:.0e}", item.verdict)
        for item in reports[0].items
    ]
    page.text(
        "Block 1 with its trained weights, in float64, on a few characters of the text.\n"
        "Each line compares the slope along a random direction according to backward\n"
        "with the slope that finite differences of forward give.\n"
    )
    page.table([("", "", "difference", ""), *rows])
    count = sum(len(report.items) for report in reports)
    worst = max(item.error for report in reports for item in report.items)
    wrong = [number for number, report in enumerate(reports, 1) if not report.ok]
    if wrong:
        for number in wrong:
            page.text(f"\nblock {number}: {reports[number - 1]}")
    else:
        page.text(
            f"\nThe gradients of all {count} inputs and parameters of the {len(reports)} blocks "
            f"agree with\nfinite differences to {worst:.0e} or better."
        )
    text = "\n\n".join(f"block {n}\n{report}" for n, report in enumerate(reports, 1))
    page.write("gradcheck.txt", text + "\n", "the gradient check in full")
    return not wrong
