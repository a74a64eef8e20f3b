"""Run a model one token at a time, reading every token once."""

from .. import ops
from ..errors import ArgumentError

__all__ = ["Stepper"]


class Stepper:
    """The model as the loops see it: ids so far in, output for the last of them out.

    Parameters
    ----------
    model : PretrainedModel
    cache : KVCache or None
        None = all tokens are read again at every step.
    mask : int64 Tensor of shape (row, token), optional
        Of the tokens that the decoder reads: 0 = padding.
    positions : int64 Tensor of shape (row, token), optional
        Of those tokens, for a model that takes them.
    constants : dict
        Arguments that are the same at every step.
    growing : dict
        Arguments with a value per token, (row, token), whose last value goes on.
    embedded : Tensor of shape (row, token, embed), optional
        Read instead of ids at the first step.
    covered : int, optional
        How many tokens the caller's mask is about, which tells what a cache from an earlier call
        has read: with as many ids, its tokens are among them; otherwise the ids are all new.
    """

    def __init__(
        self, model, cache, mask=None, positions=None, constants=None, growing=None,
        embedded=None, covered=None,
    ):  # fmt: skip
        self.model, self.cache = model, cache
        self.mask, self.positions = mask, positions
        self.embedded, self.covered = embedded, covered
        self.constants, self.growing = dict(constants or {}), dict(growing or {})
        self.decoder = "decoder_" if "encoder_outputs" in self.constants else ""
        self._first = True

    def __call__(self, ids):
        """The model's output after the tokens `ids`, (row, token), of which it saw a part."""
        new = self._new_tokens(ids)
        arguments = dict(self.constants)
        if self.embedded is not None and self._first:
            arguments["inputs_embeds"] = self.embedded[:, -new:]
        else:
            arguments[f"{self.decoder}input_ids"] = ids[:, -new:]
        if self.mask is not None:
            arguments[f"{self.decoder}attention_mask"] = self.mask
        if self.positions is not None:
            arguments[f"{self.decoder}position_ids"] = self.positions[:, -new:]
        arguments.update({name: value[:, -new:] for name, value in self.growing.items()})
        if self.cache is not None:
            arguments["past_key_values"] = self.cache
        output = self.model(**arguments, use_cache=self.cache is not None)
        if self._first:
            _check_writes(self.model, output)
        self._grow()
        return output

    def _new_tokens(self, ids):
        """How many of the last tokens have not been read."""
        if self.embedded is not None and self._first:
            return self.embedded.shape[1] - self.cache.length
        if self.cache is None:
            return ids.shape[1]
        if not self._first:
            return 1
        known = self.cache.length if self.covered == ids.shape[1] else 0
        return ids.shape[1] - known

    def _grow(self):
        """Make room for the next token."""
        self._first = False
        if self.mask is not None:
            self.mask = ops.cat((self.mask, ops.ones_like(self.mask[:, :1])), 1)
        if self.positions is not None:
            self.positions = ops.cat((self.positions, self.positions[:, -1:] + 1), 1)
        for name, value in self.growing.items():
            self.growing[name] = ops.cat((value, value[:, -1:]), 1)

    def reorder(self, rows):
        """Go on from other rows of the same inputs: int64 Tensor of shape (row,)."""
        if self.cache is not None:
            self.cache.reorder(rows, cross=False)


def _check_writes(model, output):
    """A model that writes has logits of the next token, (row, token, vocabulary)."""
    logits = output.get("logits")
    if logits is None or logits.ndim != 3:
        raise ArgumentError(
            f"generate: {type(model).__name__} does not say which token comes next.",
            got="no logits" if logits is None else f"logits of shape {logits.shape}",
            expected="logits of shape (row, token, vocabulary)",
            hint="a class with a language-model head, such as GPT2LMHeadModel",
        )
