"""Output of a recipe: text in the terminal, files and figures in the run folder."""

import json

from .. import viz
from ..files import atomic_file
from ..viz.style import save_figure
from .console import printable, table

__all__ = ["Page"]


class Page:
    """Output to the terminal and the run folder, for `Recipe.preface` and `Recipe.show`.

    Parameters
    ----------
    folder : RunFolder
    baselines : dict of str to float
        Name and loss of each baseline.
    console : rich.console.Console

    Attributes
    ----------
    viz : module
        Functions that draw figures, for example `page.viz.attention_figure(...)`.
    files : dict of str to str
        Name and description of each file that was written.
    """

    viz = viz

    def __init__(self, folder, baselines, console):
        self.folder = folder
        self.baselines = baselines
        self.console = console
        self.files = {
            "config.json": "every setting, the vocabulary, the baselines",
            "metrics.jsonl": "the losses, one line for each logged step",
        }

    @property
    def metrics(self):
        """Entries of metrics.jsonl."""
        return self.folder.metrics()

    def heading(self, text):
        """Print a bold line between two empty lines."""
        self.console.print(f"\n{printable(text)}\n", style="bold")

    def text(self, text):
        """Print plain text."""
        self.console.print(printable(text))

    def table(self, rows):
        """Print rows of text in aligned columns."""
        self.console.print(printable(table(rows)))

    def write(self, name, text, meaning):
        """Write a text file into the run folder.

        Parameters
        ----------
        name, text : str
            File name and content.
        meaning : str
            Short description for the list of files.
        """
        with atomic_file(self.folder.path / name) as file:
            file.write(text.encode("utf-8", "replace"))
        self.files[name] = meaning

    def save(self, name, figure, meaning):
        """Write a figure into the run folder.

        Parameters
        ----------
        name : str
            File name.
        figure : matplotlib.figure.Figure
        meaning : str
            Short description for the list of files.
        """
        save_figure(figure, self.folder.path / name)
        self.files[name] = meaning

    def draw_loss(self, title, metrics=None, **settings):
        """Draw the loss curve, and save it as loss.png in the run folder.

        Parameters
        ----------
        title : str
        metrics : list of dict, optional
            Entries of metrics.jsonl to draw. Defaults to all entries.
        **settings
            Further arguments of `viz.loss_figure`.
        """
        figure = viz.loss_figure(metrics or self.metrics, self.baselines, title, **settings)
        with_baselines = ", with the baselines" if self.baselines else ""
        self.save("loss.png", figure, f"the loss curve{with_baselines}")

    def write_result(self, recipe, measured):
        """Write result.json: the measured values, and whether the recipe reached its target.

        Parameters
        ----------
        recipe : Recipe
        measured : dict of float
            Value of each metric at the end of training.
        """
        target = recipe.target
        result = {
            "recipe": recipe.name,
            "metric": target.metric,
            "value": measured[target.metric],
            "target": target.figure,
            "reached": target.reached(measured[target.metric]),
            "measured": measured,
        }
        text = json.dumps(result, indent=2) + "\n"
        self.write("result.json", text, "the results at the end of training")

    def list_files(self):
        """Print the name and description of each file that the run has written."""
        self.files["checkpoints/"] = "model and training state, read with mt.load(file)"
        self.heading(f"Files in {self.folder.path}")
        self.table(list(self.files.items()))
