"""Optimisers, schedules, loss scaling and averages of weights."""
