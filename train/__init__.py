"""Training: data, optimisers, the loop, checkpoints, metrics and pictures."""
