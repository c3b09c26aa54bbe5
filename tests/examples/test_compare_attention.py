"""The example that compares attention methods, as a user runs it."""

import json

from ..support.examples import Example


def test_both_tables_and_a_picture(tmp_path) -> None:
    out = Example("compare_attention.py", tmp_path).succeeds("--preset", "smoke", "--out", "results")
    tables = (tmp_path / "results" / "tables.md").read_text(encoding="utf-8")
    assert tables in out
    told = out[: out.index(tables)].splitlines()
    assert [line.split(":")[0] for line in told if line] == [
        "measured length 64", "measured length 256", "trained with standard attention", "trained with blocked attention"
    ], "each measurement logs a line, so the log is not silent for minutes"  # fmt: skip
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in tables.splitlines() if line.startswith("|")]
    assert [row[:2] for row in rows if row[0] in ("64", "256")] == [
        [length, method] for length in ("64", "256") for method in ("standard", "blocked")
    ]
    errors = [float(cell) for row in rows if row[0] in ("64", "256") for cell in row[4:]]
    assert all(0 < error < 1e-5 for error in errors), "the methods differ only by rounding"
    trained = {row[0]: row for row in rows if row[0] in ("standard", "blocked")}
    assert abs(float(trained["standard"][8]) - float(trained["blocked"][8])) < 2e-3, "the validation losses agree"
    assert trained["standard"][9] == "16.15", "the row shows the report's loss"
    results = json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8"))
    assert [(name, len(rows)) for name, rows in results["tables"].items()] == [("lengths", 4), ("training", 2)]
    assert results["seed"] == 0
    for name in ("time", "memory"):
        assert (tmp_path / "results" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
