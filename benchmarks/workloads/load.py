"""Workload `load`: load a weights folder the size of GPT-2 small (124M parameters)."""

from . import Step
from .gpt2_folder import gpt2_folder, prompt

TITLE = "load a GPT-2-small-sized folder, 124M parameters, float32"


def minitorch_attn():
    import minitorch_attn as mt

    folder, latest = gpt2_folder(), {}

    def run():
        latest.clear()
        latest["model"] = mt.models.from_pretrained(folder)

    def evidence():
        with mt.no_grad():
            return {"logits": latest["model"](mt.tensor(prompt())).logits.numpy()}

    return Step(run, evidence)


def torch():
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    folder, latest = gpt2_folder(), {}

    def run():
        latest.clear()
        latest["model"] = transformers.GPT2LMHeadModel.from_pretrained(folder)

    def evidence():
        with torch.no_grad():
            return {"logits": latest["model"](torch.tensor(prompt())).logits.numpy()}

    return Step(run, evidence)


ENGINES = {"minitorch_attn": minitorch_attn, "torch": torch}
