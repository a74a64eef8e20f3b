"""Token-by-token generation: run a model with a cache so that it reads every token once."""

from .. import ops
from ..errors import ArgumentError

__all__ = ["Stepper"]


class Stepper:
    """Run a model step by step. Each call takes the ids so far and processes the new ones.

    Parameters
    ----------
    model : PretrainedModel
    cache : KVCache or None
        The decoder's cache. If None, all tokens are read again at every step.
    mask : int64 Tensor of shape (row, token), optional
        Attention mask for the decoder's tokens, 0 at padding.
    positions : int64 Tensor of shape (row, token), optional
        Positions of the decoder's tokens, for models that take positions.
    constants : dict
        Arguments that are the same at every step.
    growing : dict
        Arguments of shape (row, token). The values of new tokens repeat the last value.
    embedded : Tensor of shape (row, token, embed), optional
        Embeddings to use instead of ids at the first step.
    covered : int, optional
        Length of the attention mask that the caller gave. If it equals the number of ids, the first
        ids are already in the cache, from an earlier call. Otherwise all ids are new.
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
        """Return the model's output for the `ids` (row, token) that are not in the cache."""
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
        """Return the number of tokens at the end of `ids` that are not in the cache."""
        if self.embedded is not None and self._first:
            return self.embedded.shape[1] - self.cache.length
        if self.cache is None:
            return ids.shape[1]
        if not self._first:
            return 1
        known = self.cache.length if self.covered == ids.shape[1] else 0
        return ids.shape[1] - known

    def _grow(self):
        """Extend the mask, the positions and the `growing` arguments by one token."""
        self._first = False
        if self.mask is not None:
            self.mask = ops.cat((self.mask, ops.ones_like(self.mask[:, :1])), 1)
        if self.positions is not None:
            self.positions = ops.cat((self.positions, self.positions[:, -1:] + 1), 1)
        for name, value in self.growing.items():
            self.growing[name] = ops.cat((value, value[:, -1:]), 1)

    def reorder(self, rows):
        """Reorder the self-attention cache by `rows`, an int64 Tensor of shape (row,)."""
        if self.cache is not None:
            self.cache.reorder(rows, cross=False)


def _check_writes(model, output):
    """Raise an error unless the output has logits of shape (row, token, vocabulary)."""
    logits = output.get("logits")
    if logits is None or logits.ndim != 3:
        raise ArgumentError(
            f"generate: {type(model).__name__} does not return logits of the next token",
            got="no logits" if logits is None else f"logits of shape {logits.shape}",
            expected="logits of shape (row, token, vocabulary)",
            hint="use a class with a language-model head, such as GPT2LMHeadModel",
        )
