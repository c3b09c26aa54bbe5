"""Texts: found, read, split, made into batches."""
