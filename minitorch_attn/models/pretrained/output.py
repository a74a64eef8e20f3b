"""Output of a model with the Hugging Face interface: a dict of results."""

__all__ = ["Output"]


class Output(dict):
    """A dict of results, also accessible as attributes and by position, without None values.

    Examples
    --------
    >>> output = Output(loss=None, logits=3, hidden_states=(1, 2))
    >>> output["logits"], output.logits, output[0], "loss" in output
    (3, 3, 3, False)
    """

    def __init__(self, **results):
        super().__init__({name: value for name, value in results.items() if value is not None})

    def __getitem__(self, key):
        if isinstance(key, (int, slice)):
            return self.to_tuple()[key]
        return super().__getitem__(key)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)  # None for results that were not requested, as in Hugging Face

    def to_tuple(self):
        """Return all results as a tuple, in order."""
        return tuple(self.values())
