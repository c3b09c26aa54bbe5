"""The command line of the examples."""
