"""The folder of a run: what is saved, shown and drawn."""
