"""Training: data sets, optimisers, the training loop, checkpoints, metrics and pictures."""
