"""One program per report, and further programs; `handloom train NAME` also runs them from an installed package."""
