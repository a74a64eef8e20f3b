"""An endless stream of batches that a checkpoint can put back where it stood."""

from ..errors import CheckpointError

__all__ = ["BatchStream"]


class BatchStream:
    """Batches without end; subclasses define `__next__`, which counts `position` up.

    What a batch holds follows from `seed` and `position` alone, so that is all a checkpoint keeps.

    Parameters
    ----------
    batch_size : int
    seed : int, default 0
    device : str or Device, optional

    Attributes
    ----------
    position : int
        How many batches have been drawn.
    """

    def __init__(self, batch_size, seed=0, device=None):
        self.batch_size = batch_size
        self.seed = seed % 2**64
        self.device = device
        self.position = 0

    def __iter__(self):
        return self

    def state_dict(self):
        """What a checkpoint keeps."""
        return {"position": self.position}

    def load_state_dict(self, state):
        """Go on where the stream with this state stood."""
        position = state.get("position") if isinstance(state, dict) else None
        if type(position) is not int or position < 0:
            name = type(self).__name__
            raise CheckpointError(f"{name}.load_state_dict: no position.", got=repr(state))
        self.position = position
