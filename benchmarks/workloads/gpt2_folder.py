"""Write a Hugging Face model folder: GPT-2 small with random weights.

`python -m benchmarks.workloads.gpt2_folder PATH` uses transformers to write the folder (500 MB).
Both libraries load the model from this folder, which stays in the temporary directory for later
runs.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

NAME = "minitorch-attn-benchmark-gpt2-small"


def gpt2_folder():
    """Return the path of the model folder. If it does not exist, a separate process writes it."""
    path = Path(tempfile.gettempdir()) / NAME
    if not path.exists():
        subprocess.run([sys.executable, "-m", __name__, str(path)], check=True)
    return path


def prompt():
    """Return random token ids of shape (1, 16)."""
    return np.random.default_rng(2).integers(0, 50257, (1, 16))


def _write(path):
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as unfinished:
        model.save_pretrained(unfinished)
        os.rename(unfinished, path)
        os.mkdir(unfinished)


if __name__ == "__main__":
    _write(sys.argv[1])
