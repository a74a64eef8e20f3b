"""BatchStream: an infinite stream of batches whose position a checkpoint can restore."""

import operator

from ..errors import CheckpointError
from ..named_errors import NamedErrors
from ..nn.checks import check_sizes

__all__ = ["BatchStream"]


class BatchStream(NamedErrors):
    """Base class for infinite streams of batches. Subclasses define `__next__`.

    `__next__` must increment `position`. A batch depends only on `seed` and `position`, so a
    checkpoint stores only the position.

    Parameters
    ----------
    batch_size : int
    seed : int, default 0
    device : str or Device, optional

    Attributes
    ----------
    position : int
        Number of batches drawn so far.
    """

    def __init__(self, batch_size, seed=0, device=None):
        check_sizes(type(self).__name__, batch_size=batch_size)
        self.batch_size = batch_size
        self.seed = operator.index(seed) % 2**64
        self.device = device
        self.position = 0

    def __iter__(self):
        return self

    def state_dict(self):
        """Return the position as a dict, for a checkpoint."""
        return {"position": self.position}

    def load_state_dict(self, state):
        """Continue at the position in a dict that `state_dict` returned."""
        position = state.get("position") if isinstance(state, dict) else None
        if type(position) is not int or position < 0:
            name = type(self).__name__
            raise CheckpointError(
                f"{name}: position is missing or invalid",
                got=repr(state), hint="pass the result of state_dict()",
            )  # fmt: skip
        self.position = position
