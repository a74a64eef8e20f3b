"""Output of `generate`: the ids, and the requested scores, attentions and states of each step."""

__all__ = ["GenerateOutput"]


class GenerateOutput(dict):
    """Results of `generate`, as a dict that omits results that are None.

    The results are also accessible as attributes and by index.

    Examples
    --------
    >>> output = GenerateOutput(sequences=[[1, 2]], scores=None)
    >>> output.sequences, output[0], output.scores
    ([[1, 2]], [[1, 2]], None)
    """

    def __init__(self, **results):
        super().__init__({name: value for name, value in results.items() if value is not None})

    def __getitem__(self, key):
        return (
            tuple(self.values())[key] if isinstance(key, (int, slice)) else super().__getitem__(key)
        )

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)


class Record:
    """Recorder of the requested scores, logits, attentions and hidden states of each step.

    Parameters
    ----------
    config : GenerationConfig
    encoded : mapping, optional
        The encoder's output, if the model has an encoder.
    """

    def __init__(self, config, encoded=None):
        wanted = config.return_dict_in_generate
        self.is_wanted, self.encoded = wanted, encoded
        prefix = "" if encoded is None else "decoder_"
        self._sources = {}  # name of the result -> name of the model's output
        if wanted and config.output_attentions:
            self._sources[f"{prefix}attentions"] = f"{prefix}attentions"
            if encoded is not None:
                self._sources["cross_attentions"] = "cross_attentions"
        if wanted and config.output_hidden_states:
            self._sources[f"{prefix}hidden_states"] = f"{prefix}hidden_states"
        own = [n for n in ("scores", "logits") if wanted and getattr(config, f"output_{n}")]
        self.steps = {name: [] for name in (*own, *self._sources)}

    @property
    def scores(self):
        """Processed scores of the steps so far, or None if they were not requested."""
        return tuple(self.steps["scores"]) if "scores" in self.steps else None

    def add(self, output, logits, scores):
        """Store the requested results of one generation step."""
        for name, kept in self.steps.items():
            if name in self._sources:
                kept.append(output[self._sources[name]])
            else:
                kept.append(scores if name == "scores" else logits)

    def result(self, sequences, cache=None, **more):
        """Return the ids or, if `return_dict_in_generate` is set, all recorded results."""
        if not self.is_wanted:
            return sequences
        kept = {name: tuple(steps) for name, steps in self.steps.items()}
        if self.encoded is not None:
            for name in ("attentions", "hidden_states"):
                if f"decoder_{name}" in kept:
                    kept[f"encoder_{name}"] = self.encoded[name]
        return GenerateOutput(sequences=sequences, **more, **kept, past_key_values=cache)
