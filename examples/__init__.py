"""One program a report, and some to read or to try; `handloom train NAME` runs them from an installed package too."""
