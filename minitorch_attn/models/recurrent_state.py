"""Recurrent state that a decoder keeps between calls: the counterpart of a KV cache."""

from .. import nn

__all__ = ["RecurrentState"]


class RecurrentState(nn.KVCache):
    """State from which a `RecurrentDecoder` continues: the counterpart of a KV cache.

    Attributes
    ----------
    state : tuple of Tensor of shape (layer, batch, hidden), or None at the start
    attentional : Tensor of shape (batch, 1, hidden), or None
        Attentional state of the last step, which input feeding passes to the next step.
    projected : Tensor of shape (batch, source, size), or None
        Projected encoder states, which do not change between steps.
    position : int
        Number of target words that the decoder has read.

    Examples
    --------
    >>> past = RecurrentState()
    >>> past.length, past.state is None
    (0, True)
    """

    def __init__(self):
        super().__init__()
        self.state = self.attentional = self.projected = None
        self.position = 0

    def _length(self):
        return self.position

    def reorder(self, index, cross=True):
        """Replace the batch by its rows `index`, in place. For example, keep only the best beams.

        Parameters
        ----------
        index : int64 Tensor of shape (new batch,)
            For each new row, the index of the old row to copy.
        cross : bool, default True
            Whether to select the rows of `projected` too. Beam search passes False, because all
            beams of an input share the same encoder states.
        """
        if self.state is not None:
            self.state = tuple([s.index_select(1, index) for s in self.state])
        if self.attentional is not None:
            self.attentional = self.attentional.index_select(0, index)
        if cross and self.projected is not None:
            self.projected = self.projected.index_select(0, index)
