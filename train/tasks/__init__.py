"""The tasks that models learn (translation, classification, language modelling), and their metrics."""
