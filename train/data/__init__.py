"""Data sets: finding, reading, splitting and batching texts."""
