"""The tables and pictures of the five reports, which the examples print and save."""
