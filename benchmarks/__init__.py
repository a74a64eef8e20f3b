"""Step time and memory beside PyTorch eager, in one interleaved run."""
