"""Tables and pictures of several runs, or of one finished model."""
