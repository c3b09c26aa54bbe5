"""The command line: options of the examples and commands, sweeps, comparisons of runs, export."""
