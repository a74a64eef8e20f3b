"""Small models for generation: a table of scores, and random models of two families."""

import numpy as np

import minitorch_attn as mt
from minitorch_attn.models.pretrained.config import Config
from minitorch_attn.models.pretrained.output import Output

VOCABULARY = 11


class Table(mt.nn.Module):
    """The scores of the next token depend on the last token only: row i of a table.

    Parameters
    ----------
    table : ndarray of shape (vocabulary, vocabulary)
    """

    def __init__(self, table, device="cpu", **config):
        super().__init__()
        self.table = mt.nn.Parameter(mt.tensor(np.array(table, dtype=float), device=device))
        self.config = Config(config)
        self.generation_config = {}
        self.seen = []

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, use_cache=None):
        self.seen.append((input_ids.shape, attention_mask))
        return Output(logits=self.table[input_ids])


def randomised(model, device, dtype, seed):
    rng = np.random.default_rng(seed)
    model = model.to(device).to(dtype).eval()
    for parameter in model.parameters():
        parameter.data = mt.tensor(rng.normal(size=parameter.shape, scale=0.5).astype(dtype),
                                   device=device)  # fmt: skip
    return model


def gpt2(device="cpu", dtype="float64", seed=3, **config):
    """A decoder of two layers with random weights."""
    sizes = {"vocab_size": VOCABULARY, "n_positions": 31, "n_embd": 6, "n_layer": 2, "n_head": 2}
    ids = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    model = mt.models.pretrained.GPT2LMHeadModel({**sizes, **ids, **config})
    return randomised(model, device, dtype, seed)


def t5(device="cpu", dtype="float64", seed=3, **config):
    """An encoder and a decoder of one layer with random weights."""
    sizes = {"vocab_size": VOCABULARY, "d_model": 6, "d_kv": 3, "d_ff": 7, "num_layers": 1}
    ids = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "num_heads": 2}
    model = mt.models.pretrained.T5ForConditionalGeneration({**sizes, **ids, **config})
    return randomised(model, device, dtype, seed)
