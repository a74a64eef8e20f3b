"""Data sets and loaders with PyTorch's names: `Dataset`, `DataLoader` and related classes."""

from ...absent_names import absent as _absent
from .dataloader import DataLoader, default_collate
from .dataset import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split
from .sampler import BatchSampler, EpochSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler", "ConcatDataset", "DataLoader", "Dataset", "EpochSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "Subset", "TensorDataset",
    "default_collate", "random_split",
]  # fmt: skip

__getattr__ = _absent(__name__)
