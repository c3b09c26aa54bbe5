"""The programs of the five reports and other examples; `handloom train NAME` runs six of them without a clone."""
