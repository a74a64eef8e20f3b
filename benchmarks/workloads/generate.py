"""Workload `generate`: greedy generation of 128 tokens with a model the size of GPT-2 small."""

from . import Step
from .gpt2_folder import gpt2_folder, prompt

TITLE = "generate 128 tokens with a GPT-2-small-sized model, batch 1, greedy, KV cache"
TOKENS = 128
SETTINGS = dict(
    max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, pad_token_id=50256,
    return_dict_in_generate=True, output_logits=True,
)  # fmt: skip


def minitorch_attn():
    import minitorch_attn as mt

    model, ids = mt.models.from_pretrained(gpt2_folder()), mt.tensor(prompt())
    latest = {}

    def run():
        mask = mt.ones_like(ids)
        latest["output"] = model.generate(ids, attention_mask=mask, **SETTINGS)

    def evidence():
        return _evidence(latest["output"])

    return Step(run, evidence, operations=TOKENS)


def torch():
    import torch
    import transformers

    transformers.logging.disable_progress_bar()
    model = transformers.GPT2LMHeadModel.from_pretrained(gpt2_folder()).eval()
    ids, latest = torch.tensor(prompt()), {}

    def run():
        mask = torch.ones_like(ids)
        latest["output"] = model.generate(ids, attention_mask=mask, **SETTINGS)

    def evidence():
        return _evidence(latest["output"])

    return Step(run, evidence, operations=TOKENS)


def _evidence(output):
    """Return results to compare: all ids, and the logits of the first and the last new token."""
    logits = output["logits"]
    return {
        "ids": output["sequences"].numpy(),
        "first logits": logits[0].numpy(),
        "last logits": logits[-1].numpy(),
    }


ENGINES = {"minitorch_attn": minitorch_attn, "torch": torch}
