"""The differentiable operations, one subject a file."""
