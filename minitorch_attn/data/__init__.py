"""Data: data sets of text and images, tokenizers, batches, padding and downloads."""

from . import tokenizers
from .baselines import baselines
from .batches import TextBatches, windows
from .cifar import CIFAR10_CLASSES, cifar10
from .digits import digits_split
from .download import download, local_path
from .examples import ShuffledBatches, in_batches
from .image_folder import ImageFolder
from .images import ImageProcessor, read_image
from .mnist import mnist, read_idx
from .padding import BucketedBatches, pad
from .parallel_text import read_parallel, read_tsv
from .text import default_text, read_text, split_text
from .tokenizers import ByteBPE, CharTokenizer, WordTokenizer

__all__ = [
    "BucketedBatches", "ByteBPE", "CIFAR10_CLASSES", "CharTokenizer", "ImageFolder",
    "ImageProcessor", "ShuffledBatches", "TextBatches", "WordTokenizer", "baselines", "cifar10",
    "default_text", "digits_split", "download", "in_batches", "local_path", "mnist", "pad",
    "read_idx", "read_image", "read_parallel", "read_text", "read_tsv", "split_text", "tokenizers",
    "windows",
]  # fmt: skip
