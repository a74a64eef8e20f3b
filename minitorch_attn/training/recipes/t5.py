"""T5 recipe: one small T5 learns four text tasks, selected by a prefix."""

import numpy as np

from ...data.text_tasks import PREFIXES, TextTasks
from ...models.t5 import T5 as T5Model
from ...nn import masks
from .base import Target, digest
from .options import Option, common_options
from .pair_recipe import PairRecipe, exact_matches

__all__ = ["T5"]


class PaddedT5(T5Model):
    """T5 for texts that are padded with 0, with the methods that `translate` calls."""

    def padding_mask(self, ids):
        """Return the padding Mask for a batch of texts."""
        return masks.from_key_padding(ids == 0)

    def forward(self, ids, decoder_ids, mask=None):
        return super().forward(ids, decoder_ids, self.padding_mask(ids) if mask is None else mask)


class T5(PairRecipe):
    """Train one T5 for four tasks, with prefixes "reverse: ", "sort: ", "vowels: ", "add: ".

    All tasks map text to text, character by character. A prefix selects the task. Words consist of
    random letters, and sums have terms below 100. 500 inputs of each task are held out.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    References
    ----------
    .. [1] Raffel et al. 2019, arXiv:1910.10683v4.
    """

    name = "t5"
    summary = "one T5 performs four tasks by prefix: reverse, sort, vowels, add"
    headline = "A T5 learns four tasks, each selected by a prefix."
    target = Target("worst_task", 0.95, "exact answers to held-out inputs, in each task")
    unit = "texts"
    start_id = 0  # as in T5, an answer starts with the padding token
    splits = ("data", "tensor")
    OPTIONS = (
        *common_options(steps=3000, lr=3e-3, batch=64, layers=2, dim=64, warmup=200),
        Option("shortest", 3, "Minimum number of letters in a word."),
        Option("longest", 7, "Maximum number of letters in a word."),
    )

    def prepare(self):
        """Create the tasks and their held-out inputs."""
        self.tasks = TextTasks(self.options["shortest"], self.options["longest"])
        self.vocabulary = self.tasks.characters
        by_task = self.tasks.held_out.values()
        self.held_out = [pair for some in zip(*by_task, strict=True) for pair in some]  # in turn
        return {
            "name": f"words of {self.options['shortest']} to {self.options['longest']} random "
            "letters, and sums of numbers below 100",
            "sha256": digest(self.vocabulary, *(" ".join(pair) for pair in self.held_out)),
        }

    def build(self):
        """Create a T5 with ReLU and tied embeddings, as in version 1.0."""
        options = self.options
        return PaddedT5(
            len(self.tokenizer), embed_dim=options["dim"], num_heads=options["heads"],
            num_layers=options["layers"], head_dim=options["dim"] // options["heads"],
            num_buckets=32, max_distance=32, dropout=options["dropout"],
        )  # fmt: skip

    def make_pair(self, generator):
        """Return a training example for a random task."""
        return self.tasks.draw(generator)

    def preface(self, page):
        """Print an example for each task."""
        page.text("The four tasks, with examples that do not occur in training:\n")
        page.table(self.held_out[: len(PREFIXES)])
        page.text("")
        super().preface(page)

    def measure(self, metrics):
        """Return the fraction of exact matches for each task on all held-out inputs."""
        sources, targets = zip(*self.held_out, strict=True)
        self.written = self.answers(sources)
        count = len(PREFIXES)
        by_task = {
            prefix: exact_matches(self.written[place::count], targets[place::count])
            for place, prefix in enumerate(PREFIXES)
        }
        return {"worst_task": min(by_task.values()), **by_task}

    def show(self, page, measured):
        """Show the results for each task and some mistakes."""
        rows = [("task", "right", "on", "for example", "answer")]
        for place, prefix in enumerate(PREFIXES):
            source = self.held_out[place][0]
            count = f"{len(self.held_out) // len(PREFIXES)} held out"
            right = f"{100 * measured[prefix]:.1f} %"
            rows.append((prefix, right, count, source, self.written[place]))
        page.table(rows)
        wrong = [
            f"{source!r}: {answer!r} instead of {target!r}"
            for (source, target), answer in zip(self.held_out, self.written, strict=True)
            if answer != target
        ]
        if wrong:
            page.heading("Some wrong answers")
            shown = np.linspace(0, len(wrong) - 1, min(8, len(wrong))).astype(int)
            page.text("\n".join("  " + wrong[i] for i in shown))
        page.write("mistakes.txt", "\n".join(wrong) + "\n", "wrong answers to held-out inputs")
        page.draw_loss("One T5, four tasks", unit="nats per character of the answer")
        return True
