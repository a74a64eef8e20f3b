"""What a model with the peers' face returns: its results by name."""

__all__ = ["Output"]


class Output(dict):
    """Results by name, as key, as attribute, or by position; a result that is None is left out.

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
        return self.get(name)  # None for what was not asked for, as in the peer

    def to_tuple(self):
        """All results, in order."""
        return tuple(self.values())
