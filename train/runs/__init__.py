"""The folder of a run: saves, logs, display and pictures."""
