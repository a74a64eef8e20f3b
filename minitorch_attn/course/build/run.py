"""Run the learner's GPT: train it alongside the library's GPT, sample from it, or trace it.

This module runs in a child process:
`python -m minitorch_attn.course.build.run train|sample|trace FILE ...`.
"""

import math
import os
import sys
import time
from pathlib import Path

import numpy as np

from ...autograd import no_grad
from ...training.recipes import load_recipe
from ..exercises.child import load
from .text import batches, mean_loss, tour_text
from .trees import flat, nested

__all__ = ["ONE_THREAD", "arguments", "record", "train", "write"]

# The matrix products are so small that several threads would slow them down. Variables that the
# user has set take precedence.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_TIED = "head.weight"  # the output layer's weight in the library; it is the token embedding
_TRIED = 10  # steps after which the remaining time is estimated


def arguments(what, file, *rest):
    """Return the command line that runs this module in a child process.

    Parameters
    ----------
    what : {"train", "sample", "trace"}
    file : str or path
        The learner's file.
    *rest
        Arguments of `main` after the file.

    Returns
    -------
    list of str
    """
    module = f"{__package__}.run"  # not __name__, which is "__main__" in the child process
    return list(map(str, [sys.executable, "-P", "-m", module, what, file, *rest]))


def train(file, steps=1500, beside=True, every=100, **options):
    """Train the learner's GPT with the text, model sizes, batches and settings of `mta tour`.

    Parameters
    ----------
    file : str
        The learner's file. The weights are written next to it, as `.npz`.
    steps : int
    beside : bool
        Whether the library's GPT is trained, too, from the same weights and on the same batches.
    every : int
        Number of steps between two lines of output.
    **options
        Options of `mta train gpt`, such as `layers`.

    Returns
    -------
    (float, float or None)
        Validation losses of the learner's model and of the library's.
    """
    m, recipe = load(file, "my_gpt"), load_recipe("gpt")({"steps": steps, **options})
    sizes, heads = recipe.options, recipe.options["heads"]
    state = {name: p.detach().numpy().copy() for name, p in recipe.model.named_parameters()}
    state.pop(_TIED, None)
    p = nested(state, m.Tensor)
    _introduce(recipe, state)
    latest, loop, stream = [], recipe.loop(), recipe.batches()
    loop.model.train()
    losses = m.train(p, heads, _remembered(stream, latest), steps)
    started, mine_s = time.perf_counter(), 0.0
    print(f"{'step':>6}  {'yours':>7}" + ("  library" if beside else ""))
    parent = os.getppid()
    for step in range(steps):
        if os.getppid() != parent:
            raise SystemExit("stopped: the command that started this training has ended")
        begun = time.perf_counter()
        mine = next(losses)
        mine_s += time.perf_counter() - begun
        theirs = loop.training_step(latest[-1])[0] if beside else None
        if step % every == 0 or step == steps - 1:
            library = f"  {theirs.item():7.4f}" if beside else ""
            print(f"{step:6,}  {mine:7.4f}{library}", flush=True)
        if step == _TRIED and steps - step > every:
            left = (time.perf_counter() - started) / (step + 1) * (steps - step - 1)
            print(f"{'':6}  about {max(1, round(left / 60))} min left", flush=True)
    seconds = time.perf_counter() - started
    found = mean_loss(m, lambda ids: m.gpt(ids, p, heads), recipe.validation_ids, sizes["context"])
    library = _evaluate(recipe, loop.model) if beside else None
    _conclude(recipe, found, library, mine_s, seconds)
    np.savez(Path(file).with_suffix(".npz"), **{name: leaf.data for name, leaf in flat(p)})
    write(file, "The ", heads=heads, context=sizes["context"])
    return found, library


def _remembered(stream, latest):
    for batch in stream:
        latest[:] = [batch]
        yield tuple(part.numpy() for part in batch)


def _evaluate(recipe, model):
    model.eval()
    with no_grad():
        return float(recipe.evaluate(model))


def _introduce(recipe, state):
    count = sum(array.size for array in state.values())
    options = recipe.options
    print(
        f"your GPT: {options['layers']} layers, {options['heads']} heads, width {options['dim']}, ",
        end="",
    )
    print(f"{count:,} parameters")
    print(
        f"{options['steps']:,} steps of {options['batch']} x {options['context']} characters of ",
        end="",
    )
    print(f"{recipe.data['name']}\n")


def _conclude(recipe, mine, library, mine_s, seconds):
    print(f"\n{seconds:.0f} s, of which your model took {mine_s:.0f} s\n")
    who = "it was not" if library is None else "neither was"
    print(f"The loss on the last tenth of the text, on which {who} trained:\n")
    rows = [*recipe.baselines().items(), ("your GPT", mine)]
    rows += [("the library's GPT", library)] if library is not None else []
    for name, loss in rows:
        print(f"  {loss:.3f}  {name}")
    if library is not None and math.isfinite(mine):
        print(f"\nThe difference between the two is {abs(mine - library):.4f} nats.")


def write(file, prompt, count=400, heads=4, context=64, seed=1):
    """Print text generated by the learner's trained GPT.

    Parameters
    ----------
    file : str
        The learner's file, with the weights next to it.
    prompt : str
    count : int
        Number of characters.
    heads, context, seed : int
    """
    m, characters = load(file, "my_gpt"), tour_text().characters
    with np.load(Path(file).with_suffix(".npz"), allow_pickle=False) as stored:
        p = nested(dict(stored), m.Tensor)
    known = "".join(c for c in prompt if c in characters) or " "
    start, rng = m.encode(known, characters), np.random.default_rng(seed)
    ids = m.sample(lambda window: m.gpt(window, p, heads), start, count, context, rng)
    print(f"\nWhat it writes after {known!r}\n")
    print("\n".join("  " + line for line in m.decode(ids, characters).splitlines()))


def record(file, page):
    """Record how the learner's file runs in a forward and backward pass of a small GPT.

    The recording shows the lines of `file` that compute arrays, in the order in which they run. It
    is written to `page`, an HTML file.

    Returns
    -------
    LineRecording
    """
    from ...tracing import LineRecording

    m, text = load(file, "my_gpt"), tour_text()
    p = m.initialize(len(text.characters), 8, 8, 1, np.random.default_rng(1))
    inputs, targets = next(batches(text.training, 1, 6))
    with LineRecording([file], title=f"{Path(file).name}: one block, two heads") as recording:
        m.cross_entropy(m.gpt(inputs, p, 2), targets).backward()
    recording.save_html(page)
    return recording


def main(what, file, *arguments):
    """Train, sample from or trace the learner's GPT, with arguments from the command line."""
    if what == "train":
        train(file, int(arguments[0]), beside=arguments[1] == "beside")
    elif what == "sample":
        write(file, arguments[0], int(arguments[1]))
    else:
        recording = record(file, arguments[0])
        print(f"{len(recording.steps):,} steps: open {arguments[0]} in a browser")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
