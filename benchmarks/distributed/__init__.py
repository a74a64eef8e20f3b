"""Several processes: data-parallel training beside PyTorch, counted messages, and a cost model."""
