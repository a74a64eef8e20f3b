"""Data: data sets of text, images and sound, tokenizers, batches, padding and downloads."""

from . import audio, tokenizers
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
from .speech_folder import SpeechFolder
from .text import default_text, read_text, split_text
from .tokenizers import ByteBPE, CharTokenizer, WordTokenizer
from .wav import read_wav, write_wav

__all__ = [
    "BucketedBatches", "ByteBPE", "CIFAR10_CLASSES", "CharTokenizer", "ImageFolder",
    "ImageProcessor", "ShuffledBatches", "SpeechFolder", "TextBatches", "WordTokenizer", "audio",
    "baselines", "cifar10", "default_text", "digits_split", "download", "in_batches", "local_path",
    "mnist", "pad", "read_idx", "read_image", "read_parallel", "read_text", "read_tsv", "read_wav",
    "split_text", "tokenizers", "windows", "write_wav",
]  # fmt: skip
