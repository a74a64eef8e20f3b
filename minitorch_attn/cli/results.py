"""What a trained model is looked at with: a gradient check, pictures, a sample."""

import copy
import math
import re

from ..autograd import no_grad
from ..autograd.gradcheck import gradcheck_module_report
from ..files import atomic_file
from ..generation import sample
from ..nn import masks
from ..tensor import tensor
from ..training.progress import duration
from ..viz import attention_figure, attention_maps, loss_figure
from ..viz.style import save_figure
from .console import table

__all__ = ["Results"]

_SAMPLE_LENGTH = 400
_CHECKED_TOKENS = 8


class Results:
    """Looks at a trained character GPT and writes what it finds into the run folder.

    Parameters
    ----------
    recipe : CharacterGPT
    folder : RunFolder
    loop : Loop
    console : rich.console.Console
    """

    def __init__(self, recipe, folder, loop, console):
        self.recipe = recipe
        self.folder = folder
        self.loop = loop
        self.console = console

    def show(self, baselines):
        """Do everything and print it.

        Returns
        -------
        bool
            Whether all gradients are right.
        """
        self._compare(baselines)
        right = self._check_gradients()
        self._write_sample()
        self._draw(baselines)
        self._list_files()
        return right

    def _heading(self, text):
        self.console.print(f"\n{text}\n", style="bold")

    def _compare(self, baselines):
        """The last validation loss beside the baselines."""
        losses = [m["validation_loss"] for m in self.folder.metrics() if "validation_loss" in m]
        self._heading(f"What it has learned in {duration(self.loop.seconds)}")
        rows = [(f"{loss:.3f}", name) for name, loss in baselines.items()]
        rows.append((f"{losses[-1]:.3f}", "this model"))
        rows = [(*row, f"{math.exp(min(float(row[0]), 700)):.3g}") for row in rows]
        self.console.print(table(rows))
        self.console.print(
            "\nThird column: exp(loss), the number of equally likely characters that would\n"
            "leave one as unsure about the next."
        )

    def _check_gradients(self):
        """Compare the trained blocks' derivatives with central differences, in float64."""
        self._heading("Is its backward pass the derivative of its forward pass?")
        reports = check_blocks(self.recipe)
        first = reports[0]
        rows = [
            (item.name, " x ".join(map(str, item.shape)), f"{item.error:.0e}", item.verdict)
            for item in first.items
        ]
        self.console.print(
            "Block 1 as it was trained, in float64, on a few characters of the text. Along\n"
            "random directions: the slope that backward gives against the one that forward\n"
            "has, and how much they differ.\n"
        )
        self.console.print(table([("", "", "difference", ""), *rows]))
        count = sum(len(report.items) for report in reports)
        worst = max(item.error for report in reports for item in report.items)
        wrong = [number for number, report in enumerate(reports, 1) if not report.ok]
        if wrong:
            for number in wrong:
                self.console.print(f"\nblock {number}: {reports[number - 1]}")
        else:
            self.console.print(
                f"\nAll {count} inputs and parameters of all {len(reports)} blocks agree to "
                f"{worst:.0e} or better."
            )
        text = "\n\n".join(f"block {n}\n{report}" for n, report in enumerate(reports, 1))
        self._write("gradcheck.txt", text + "\n")
        return not wrong

    def _write_sample(self):
        recipe = self.recipe
        prompt = "The " if set("The ") <= set(recipe.tokenizer.vocabulary) else None
        prompt = prompt or recipe.validation_text[:4]
        ids = sample(
            recipe.model,
            recipe.tokenizer.encode(prompt),
            _SAMPLE_LENGTH,
            temperature=0.8,
            seed=recipe.options["seed"],
        )
        text = recipe.tokenizer.decode(ids)
        self._heading(f"What it writes after {prompt!r}")
        self.console.print("\n".join("  " + line for line in text.splitlines()))
        self._write("sample.txt", text + "\n")

    def _draw(self, baselines):
        title = f"Character GPT on {self.recipe.text_name.rsplit('/', 1)[-1]}"
        figure = loss_figure(self.folder.metrics(), baselines, title)
        save_figure(figure, self.folder.path / "loss.png")
        sentence = a_sentence(self.recipe.validation_text, min(40, self.recipe.options["context"]))
        ids = tensor([self.recipe.tokenizer.encode(sentence)], device=self.recipe.options["device"])
        maps = attention_maps(self.recipe.model, ids)
        title = f"Attention of every head, reading: {sentence.strip()!r}"
        save_figure(
            attention_figure(maps, list(sentence), title), self.folder.path / "attention.png"
        )

    def _list_files(self):
        meanings = {
            "config.json": "every setting, the vocabulary, the baselines",
            "metrics.jsonl": "the losses, one line for each entry",
            "loss.png": "the loss curve, with the baselines",
            "attention.png": "the attention map of every head",
            "gradcheck.txt": "the gradient check in full",
            "sample.txt": "what it wrote",
            "checkpoints/": "the model and all that a resumed run needs: mt.load(file)",
        }
        self._heading(f"What was made in {self.folder.path}")
        self.console.print(table(list(meanings.items())))

    def _write(self, name, text):
        with atomic_file(self.folder.path / name) as file:
            file.write(text.encode("utf-8", "replace"))


def check_blocks(recipe):
    """Gradient checks of every block of a trained model, on what really reaches it.

    The step is 1e-6: a young model's activations are of size 0.02, and layer norm, which divides
    by that size, bends too much within the usual 1e-5.

    Returns
    -------
    list of GradcheckReport
    """
    model = copy.deepcopy(recipe.model).to("cpu").double().eval()
    length = min(_CHECKED_TOKENS, recipe.options["context"])
    ids = tensor([recipe.validation_ids[:length]])  # (1, token)
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
        reports.append(gradcheck_module_report(block, x, masks.causal(length), fast=True, eps=1e-6))
    return reports


def a_sentence(text, length):
    """A sentence of the text that fits into `length` characters, or as much of the text as fits."""
    found = re.findall(r"(?<=[.] )[A-Z][a-z]+(?: [a-z,]+){3,}\.", text.replace("\n", " "))
    fitting = [sentence for sentence in found if len(sentence) <= length]
    return max(fitting, key=len) if fitting else text[:length]
