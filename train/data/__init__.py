"""Data sets: find, download, read and split texts, and group them into batches."""
