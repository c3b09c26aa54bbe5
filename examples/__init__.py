"""The programs of the five reports and other examples; `handloom train NAME` runs them without a clone."""
