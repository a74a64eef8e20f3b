"""Code shared by the `reward.py` scripts: train GPTs and image classifiers, draw as text."""

import json
import re
import sys
import textwrap
import time
import traceback
from pathlib import Path

import numpy as np

import minitorch_attn as mt

HERE = Path(__file__).resolve().parent
CONTEXT, BATCH, TOP_RATE, WARMUP = 64, 12, 6e-3, 30
SHADES = " .:-=+*#%@"


def run(reward):
    """Run the function `reward`; if one of your functions is missing, print where to write it.

    Returns
    -------
    int
        Result of the reward (0 if the model has learned), or 1 if the reward could not run.
    """
    try:
        code = reward()
        if code:
            print("\nThe model has not learned the task. Do all checks of `python check.py` pass?")
        return code
    except mt.errors.NotYetWritten as error:
        print("\n".join(missing(error)), file=sys.stderr)
        return 1


def missing(error):
    """Return two lines for a function without a body: where it is, and what to do."""
    name = error.message.partition(":")[0]
    place = traceback.extract_tb(error.__traceback__)[-1]
    path = Path(place.filename).resolve().relative_to(HERE)
    function = f"{'.'.join(path.with_suffix('').parts)}:{name}"
    where = f"{path.as_posix()}, line {place.lineno}"
    table = json.loads((HERE / "public" / "checks.json").read_text(encoding="utf-8"))
    checked = {entry["function"]: entry["of"] for entry in table}
    if function in checked:
        check = f"check it with: python check.py {checked[function]}"
        return f"{name} is not written yet: {where}", check
    return f"{name} is removed from this library: {where}", "write your function without it"


# Writing


def prose():
    """Return the prose paragraphs of Python's help topics, without tables and code."""
    kept = []
    for block in re.split(r"\n\s*\n", mt.data.default_text()):
        line = " ".join(block.split())
        plain = sum(c.isalpha() or c == " " for c in line)
        if len(line) > 120 and plain > 0.93 * len(line) and line[0].isupper():
            kept.append(re.sub(r"[^A-Za-z .,;:'\"()-]", "", line))
    return "\n".join(kept)


def learn_to_write(steps=1500, change=None, length=400, **settings):
    """Train a small GPT and show what it writes during training; return 0 if it has learned.

    Parameters
    ----------
    steps : int
        Number of training steps.
    change : callable, optional
        Function `change(model)` that changes the model before training.
    length : int
        Number of characters that the model writes at the end.
    **settings
        Further arguments of `GPT`.
    """
    mt.manual_seed(1)
    text = prose()
    tokenizer = mt.data.CharTokenizer.from_text(text)
    ids = tokenizer.encode(text)
    model = mt.models.GPT(
        len(tokenizer), CONTEXT, embed_dim=64, num_heads=4, num_layers=2, **settings
    )
    if change is not None:
        change(model)
    known = mt.data.baselines(ids[:-10_000], ids[-10_000:], len(tokenizer))
    print(f"{len(text):,} characters of text; {steps:,} steps of {BATCH * CONTEXT} characters")
    print(f"loss of random guesses: {known['uniform']:.2f}; "
          f"of guesses from the previous character: {known['bigram']:.2f}\n")  # fmt: skip
    print("step  loss  it writes", flush=True)
    losses, start = [], time.perf_counter()
    shown = {1, 20, 50, 100, *range(200, steps, 200), steps}
    for loss in fit(model, ids, steps):
        losses.append(loss)
        if len(losses) in shown:
            recent = np.mean(losses[-50:] if len(losses) > 50 else losses[-1:])
            line = write(model, tokenizer, 62).replace("\n", " ")
            print(f"{len(losses):>4}  {recent:4.2f}  {line}", flush=True)
    print(f"\n{time.perf_counter() - start:.0f} s. A longer sample:\n")
    print(textwrap.fill(write(model, tokenizer, length), 76, initial_indent="  ",
                        subsequent_indent="  "))  # fmt: skip
    return 0 if np.mean(losses[-50:]) < 0.5 * known["uniform"] else 1


def fit(model, ids, steps, top_rate=TOP_RATE, steady=False):
    """Train a GPT on a text, and yield the loss of each step.

    If `steady`, the learning rate stays constant after the warm-up, and gradients are not clipped.
    """
    optimizer = mt.optim.AdamW(model.parameters(), lr=top_rate, betas=(0.9, 0.95))
    batches = mt.data.TextBatches(ids, BATCH, CONTEXT)
    for step in range(1, steps + 1):
        inputs, targets = next(batches)
        end = 1.0 if steady else 1.05 - step / steps
        optimizer.param_groups[0]["lr"] = top_rate * min(step / WARMUP, end)
        logits = model(inputs)  # (batch, token, vocabulary)
        loss = mt.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        if not steady:
            mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


def write(model, tokenizer, count):
    """Generate `count` characters that start with "The "."""
    ids = tokenizer.encode("The ")
    return tokenizer.decode(mt.generation.sample(model, ids, count - len(ids), temperature=0.6))


# Images


def pictures():
    """Return handwritten digits or, without scikit-learn, noisy images of bars at four angles."""
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


def answers(model, images):
    """Return the most likely label of each image."""
    model.eval()
    with mt.no_grad():
        found = model(mt.tensor(images)).argmax(-1).numpy()
    model.train()
    return found


def tell_pictures_apart(make_model, steps, rate, look):
    """Train an image classifier and show its predictions; return 0 if it has learned.

    Parameters
    ----------
    make_model : callable
        Function `make_model(classes)` that makes the model.
    steps : int
        Number of training steps.
    rate : float
        Learning rate after the warm-up.
    look : callable
        Function `look(model, image)`, called at the end, that draws a figure for one image
        (1, 1, 8, 8).
    """
    mt.manual_seed(0)
    images, labels, test_images, test_labels = pictures()
    classes = int(labels.max()) + 1
    model = make_model(classes)
    optimizer = mt.optim.AdamW(model.parameters(), lr=rate)
    rng, start, losses = np.random.default_rng(0), time.perf_counter(), []
    print(f"{len(images):,} images of {classes} classes; random guesses: {1 / classes:.0%} correct")
    print(f"correct: share of correct labels for {len(test_images)} images not used for training\n")
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = rate * min(step / WARMUP, 1.05 - step / steps)
        chosen = rng.integers(0, len(images), 64)
        logits = model(mt.tensor(images[chosen]))  # (batch, classes)
        loss = mt.nn.functional.cross_entropy(logits, mt.tensor(labels[chosen]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step in (1, 10, 20, 40) or step % 80 == 0:
            right = (answers(model, test_images) == test_labels).mean()
            bar = "#" * round(40 * right)
            print(f"step {step:>4}  loss {np.mean(losses[-20:]):5.2f}  correct {right:4.0%}  {bar}",
                  flush=True)  # fmt: skip
    print(f"\n{time.perf_counter() - start:.0f} s. Some test images and predictions:\n")
    found = answers(model, test_images)
    beside(*(panel(f"{found[i]}", test_images[i, 0]) for i in range(4)))
    wrong = np.flatnonzero(found != test_labels)[:4]
    if len(wrong):
        print("\nSome wrong predictions:\n")
        beside(*(panel(f"{found[i]}, not {test_labels[i]}", test_images[i, 0]) for i in wrong))
    print()
    look(model, test_images[:1])
    return 0 if right > 0.8 else 1


# Drawings


def panel(title, values, top=None):
    """Return a title and rows of shaded cells, two characters each; `top` is the darkest value."""
    values = np.clip(np.asarray(values, dtype=float), 0, None)
    scale = (top or values.max() or 1.0) / (len(SHADES) - 1)
    rows = ["".join(2 * SHADES[min(int(v / scale + 0.5), 9)] for v in row) for row in values]
    return [title, *(f"|{row}|" for row in rows)]


def beside(*panels, gap=3):
    """Print panels side by side."""
    widths = [max(map(len, lines)) for lines in panels]
    for row in range(max(map(len, panels))):
        cells = [
            (lines[row] if row < len(lines) else "").ljust(width)
            for lines, width in zip(panels, widths, strict=True)
        ]
        print(("  " + (" " * gap).join(cells)).rstrip())
