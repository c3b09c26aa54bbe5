"""Whole models and how to generate with them."""
