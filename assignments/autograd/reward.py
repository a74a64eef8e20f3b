"""The reward: a GPT whose gradients all pass through your engine learns to write."""

import math
import sys
import time

import minitorch_attn as mt

CONTEXT, STEPS, WARMUP, TOP_RATE = 64, 300, 30, 6e-3


def main():
    """Train, print the loss as it falls, and let the model write."""
    mt.manual_seed(1)
    text = mt.data.default_text()  # the help topics of Python
    tokenizer = mt.data.CharTokenizer.from_text(text)
    ids = tokenizer.encode(text)
    model = mt.models.GPT(len(tokenizer), CONTEXT, embed_dim=64, num_heads=4, num_layers=2)
    optimiser = mt.optim.AdamW(model.parameters(), lr=TOP_RATE, betas=(0.9, 0.95))
    unsure = math.log(len(tokenizer))
    print(f"{len(text):,} characters; a model that knows nothing has a loss of {unsure:.2f}")
    losses, start = [], time.perf_counter()
    for step, (inputs, targets) in enumerate(mt.data.TextBatches(ids, 12, CONTEXT), 1):
        optimiser.param_groups[0]["lr"] = TOP_RATE * min(step / WARMUP, 1.05 - step / STEPS)
        logits = model(inputs)  # (batch, token, vocabulary)
        loss = mt.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
        if step % 50 == 0:
            recent = sum(losses[-50:]) / 50
            bar = "#" * round(12 * recent)
            print(f"step {step:>4}  loss {recent:5.2f}  {bar}", flush=True)
        if step == STEPS:
            break
    print(f"{time.perf_counter() - start:.0f} s. It writes:\n")
    found = mt.generation.sample(model, tokenizer.encode("The "), 240, temperature=0.6)
    print(tokenizer.decode(found))
    return 0 if sum(losses[-50:]) / 50 < 0.7 * unsure else 1


if __name__ == "__main__":
    sys.exit(main())
