"""Random number generator with its own seed.

The class is in a separate file, which is imported on first use. Importing this library therefore
does not load `numpy.random`.
"""

import numpy as np

from minitorch_attn.backend.random import seed_from_system
from minitorch_attn.named_errors import names_arguments

__all__ = ["Generator"]


class Generator(np.random.Generator):
    """Random number generator with its own seed, for `random_split`, `DataLoader` and others.

    Parameters
    ----------
    device : optional
        Accepted for compatibility with PyTorch; all numbers are drawn on the host.

    Examples
    --------
    >>> Generator().manual_seed(3).random() == Generator().manual_seed(3).random()
    True
    """

    def __init__(self, device="cpu"):
        super().__init__(np.random.Philox())
        self._seed = None

    @names_arguments
    def manual_seed(self, seed):
        """Set the seed, and return the generator itself."""
        self._seed = int(seed) % 2**64
        self.bit_generator.state = np.random.Philox(self._seed).state
        return self

    def initial_seed(self):
        """Return the seed, or draw one and set it if no seed was set."""
        if self._seed is None:
            self.manual_seed(seed_from_system())
        return self._seed
