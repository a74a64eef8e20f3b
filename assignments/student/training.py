"""What the rewards train: small models, in about half a minute."""

import math
import time

import numpy as np

import minitorch_attn as mt

CONTEXT, WRITING_STEPS, WARMUP, TOP_RATE = 64, 300, 30, 6e-3


def learn_to_write(**settings):
    """Train a small GPT, print the loss as it falls, and let it write; 0 if it has learned."""
    mt.manual_seed(1)
    text = mt.data.default_text()  # the help topics of Python
    tokenizer = mt.data.CharTokenizer.from_text(text)
    ids = tokenizer.encode(text)
    model = mt.models.GPT(
        len(tokenizer), CONTEXT, embed_dim=64, num_heads=4, num_layers=2, **settings
    )
    optimiser = mt.optim.AdamW(model.parameters(), lr=TOP_RATE, betas=(0.9, 0.95))
    unsure = math.log(len(tokenizer))
    print(f"{len(text):,} characters; a model that knows nothing has a loss of {unsure:.2f}")
    losses, start = [], time.perf_counter()
    for step, (inputs, targets) in enumerate(mt.data.TextBatches(ids, 12, CONTEXT), 1):
        optimiser.param_groups[0]["lr"] = TOP_RATE * min(step / WARMUP, 1.05 - step / WRITING_STEPS)
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
        if step == WRITING_STEPS:
            break
    print(f"{time.perf_counter() - start:.0f} s. It writes:\n")
    found = mt.generation.sample(model, tokenizer.encode("The "), 240, temperature=0.6)
    print(tokenizer.decode(found))
    return 0 if sum(losses[-50:]) / 50 < 0.7 * unsure else 1


def pictures():
    """Handwritten digits; without scikit-learn, bars at four angles in noise."""
    try:
        return mt.data.digits_split()
    except mt.errors.DataError:
        rng = np.random.default_rng(0)
        place = np.arange(8) - 3.5
        bars = [
            abs(a * place[:, None] + b * place) < 1.2 for a, b in ((1, 0), (0, 1), (1, 1), (1, -1))
        ]
        labels = rng.integers(0, 4, 1600)
        images = np.stack(bars)[labels] + 0.5 * rng.normal(size=(1600, 8, 8))
        images = images[:, None].astype("float32")
        return images[:1200], labels[:1200], images[1200:], labels[1200:]


def share_right(model, images, labels):
    """The share of pictures whose label is the likeliest."""
    model.eval()
    with mt.no_grad():
        found = model(mt.tensor(images)).argmax(-1).numpy()
    model.train()
    return (found == labels).mean()


def tell_pictures_apart(make_model, steps, rate):
    """Train `make_model(classes)`, print its accuracy, and draw a picture; 0 if it has learned."""
    mt.manual_seed(0)
    images, labels, test_images, test_labels = pictures()
    classes = int(labels.max()) + 1
    model = make_model(classes)
    optimiser = mt.optim.AdamW(model.parameters(), lr=rate)
    rng, start, losses = np.random.default_rng(0), time.perf_counter(), []
    print(f"{len(images):,} pictures of {classes} kinds; guessing is right in {1 / classes:.0%}")
    for step in range(1, steps + 1):
        chosen = rng.integers(0, len(images), 64)
        logits = model(mt.tensor(images[chosen]))  # (batch, classes)
        loss = mt.nn.functional.cross_entropy(logits, mt.tensor(labels[chosen]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        if step % 40 == 0:
            right = share_right(model, test_images, test_labels)
            bar = "#" * round(40 * right)
            print(f"step {step:>4}  loss {np.mean(losses[-40:]):5.2f}  right {right:4.0%}  {bar}")
    print(f"{time.perf_counter() - start:.0f} s. One that it has not seen:\n")
    with mt.no_grad():
        answer = model.eval()(mt.tensor(test_images[:1])).argmax(-1).item()
    shades = " .:-=+*#%@"
    picture = np.clip(test_images[0, 0], 0, 1)
    for row in picture:
        print("    " + "".join(2 * shades[int(9 * value)] for value in row))
    print(f"\nit says {answer}, the label is {test_labels[0]}")
    return 0 if right > 0.8 else 1
