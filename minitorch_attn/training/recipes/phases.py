"""Base classes for recipes that train in phases, and for the batch streams of recipes."""

import math

from ...backend import as_dtype
from ...data.batch_stream import BatchStream
from .base import Recipe

__all__ = ["PhasedRecipe", "RecipeStream"]


class PhasedRecipe(Recipe):
    """Base class for recipes in three phases, each with its own warm-up and cosine decay.

    Two options are named after the first and the last phase. Each is the fraction of the steps that
    its phase takes. A recipe with other phases or options overrides `phase`. The method `count`
    expects a batch to be a dict with the key "images". A recipe with other batches overrides it.

    Attributes
    ----------
    phases : tuple of str
        Names of the phases.
    """

    phases = ()

    def phase(self, step):
        """Return a step's phase, the phase's first step, and the next phase's first step."""
        steps = self.options["steps"]
        first = round(self.options[self.phases[0]] * steps)
        last = max(steps - round(self.options[self.phases[2]] * steps), first)
        which = (step >= first) + (step >= last)
        return self.phases[which], *((0, first), (first, last), (last, steps))[which]

    def rate(self, phase):
        """Return the maximum learning rate of a phase, as a fraction of `lr`."""
        raise NotImplementedError

    def learning_rate_factor(self, step):
        """Return the learning-rate factor: in each phase a linear warm-up, then cosine decay."""
        phase, start, end = self.phase(min(step, self.options["steps"] - 1))
        warmup = min(self.options["warmup"], (end - start) // 3)
        rate = self.rate(phase)
        if step - start < warmup:
            return rate * (step - start + 1) / (warmup + 1)
        done = (step - start - warmup) / max(end - start - warmup, 1)
        return rate / 2 * (1 + math.cos(math.pi * min(done, 1.0)))

    def count(self, batch):
        """Return the number of images."""
        return len(batch["images"])


class RecipeStream(BatchStream):
    """Base class for streams whose batches depend on the options and the data of a recipe.

    Parameters
    ----------
    recipe : Recipe
    """

    def __init__(self, recipe):
        options = recipe.options
        super().__init__(options["batch"], options["seed"], options["device"])
        self.recipe, self.dtype = recipe, as_dtype(options["dtype"])
