"""What a recipe prints, writes and draws on: the terminal and the run folder."""

import json

from .. import viz
from ..files import atomic_file
from ..viz.style import save_figure
from .console import table

__all__ = ["Page"]


class Page:
    """The terminal and the run folder of a session, for `Recipe.preface` and `Recipe.show`.

    Parameters
    ----------
    folder : RunFolder
    baselines : dict of str to float
        Losses to beat.
    console : rich.console.Console

    Attributes
    ----------
    viz : module
        The figures: `page.viz.attention_figure(...)`.
    files : dict of str to str
        What was made, and what it is.
    """

    viz = viz

    def __init__(self, folder, baselines, console):
        self.folder = folder
        self.baselines = baselines
        self.console = console
        self.files = {
            "config.json": "every setting, the vocabulary, the baselines",
            "metrics.jsonl": "the losses, one line for each entry",
        }

    @property
    def metrics(self):
        """The entries of metrics.jsonl."""
        return self.folder.metrics()

    def heading(self, text):
        """A line in bold between two empty ones."""
        self.console.print(f"\n{text}\n", style="bold")

    def text(self, text):
        """Plain text."""
        self.console.print(text)

    def table(self, rows):
        """Rows of text in aligned columns."""
        self.console.print(table(rows))

    def write(self, name, text, meaning):
        """Write a text file into the run folder.

        Parameters
        ----------
        name, text : str
        meaning : str
            A few words for the list of files.
        """
        with atomic_file(self.folder.path / name) as file:
            file.write(text.encode("utf-8", "replace"))
        self.files[name] = meaning

    def save(self, name, figure, meaning):
        """Write a figure into the run folder.

        Parameters
        ----------
        name : str
        figure : matplotlib.figure.Figure
        meaning : str
        """
        save_figure(figure, self.folder.path / name)
        self.files[name] = meaning

    def draw_loss(self, title, metrics=None, **settings):
        """Draw loss.png.

        Parameters
        ----------
        title : str
        metrics : list of dict, optional
            The entries to draw; by default all.
        **settings
            More arguments of `viz.loss_figure`.
        """
        figure = viz.loss_figure(metrics or self.metrics, self.baselines, title, **settings)
        with_baselines = ", with the baselines" if self.baselines else ""
        self.save("loss.png", figure, f"the loss curve{with_baselines}")

    def write_result(self, recipe, measured):
        """Write result.json: what was measured, and whether the figure is reached.

        Parameters
        ----------
        recipe : Recipe
        measured : dict of float
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
        self.write("result.json", text, "what was measured at the end")

    def list_files(self):
        """Print the names and meanings of all files."""
        self.files["checkpoints/"] = "the model and all that a resumed run needs: mt.load(file)"
        self.heading(f"What was made in {self.folder.path}")
        self.table(list(self.files.items()))
