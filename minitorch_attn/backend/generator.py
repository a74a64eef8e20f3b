"""Generator of random numbers with its own seed.

A file of its own, because NumPy loads `numpy.random` only when it is first used.
"""

import os

import numpy as np

__all__ = ["Generator"]


class Generator(np.random.Generator):
    """Generator of random numbers with its own seed, for `random_split`, `DataLoader` and others.

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

    def manual_seed(self, seed):
        """Set the seed, and return the generator itself."""
        self._seed = int(seed) % 2**64
        self.bit_generator.state = np.random.Philox(self._seed).state
        return self

    def initial_seed(self):
        """Return the seed, or draw one and set it if no seed was set."""
        if self._seed is None:
            self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
        return self._seed
