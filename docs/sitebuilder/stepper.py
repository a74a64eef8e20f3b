"""Example page of `mt.trace`: step through the forward and backward pass of a small GPT."""

from pathlib import Path

import minitorch_attn as mt

FILE = "stepper_gpt.html"


def record(text="attention"):
    """Record the forward and the backward pass of a GPT with two layers on one word."""
    mt.manual_seed(0)
    tokenizer = mt.data.CharTokenizer.from_text(text)
    ids = mt.tensor(tokenizer.encode(text)[None])  # (batch, token)
    model = mt.models.GPT(
        len(tokenizer), context_length=len(text), embed_dim=16, num_heads=2, num_layers=2
    )
    with mt.trace(title=f"A GPT reads {text!r}", labels=list(text[:-1])) as recording:
        logits = model(ids[:, :-1])
        loss = mt.nn.functional.cross_entropy(
            logits.reshape(-1, len(tokenizer)), ids[:, 1:].reshape(-1)
        )
        loss.backward()
    return recording


def setup(app):
    """Write the example page into the site's folder after the site has been built."""

    def write(app, error):
        if error is None and app.builder.format == "html":
            record().save_html(str(Path(app.outdir) / FILE))

    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
