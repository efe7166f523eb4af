"""Audit every checkpoint of a list on public data, and write the page of the results.

    python -m benchmarks.checkpoints --allow-network --data DATA
    python -m benchmarks.checkpoints --only receipt-tagger --data DATA

DATA holds the sources that are no addresses of the Hub, as the list names them. Call it again to go
on after a stop: steps that are done are not repeated. To audit a row anew, remove its folder below
`--work`. A row that fails is named, and the others go on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from audit.errors import DocauditError, UsageError
from benchmarks.checkpoints.page import write_page
from benchmarks.checkpoints.results import Result, results_type
from benchmarks.checkpoints.rows import Checkpoint, load
from benchmarks.checkpoints.running import Runner, Settings, audit_row, run_apart

HERE = Path(__file__).resolve().parent
PAGE = "checkpoints.md"
RESULTS = "checkpoints.json"


def main(arguments: Sequence[str] | None = None, run: Runner = run_apart) -> int:
    """Audit the rows, write page and JSON after each, and return 1 if any row failed."""
    options = _parser().parse_args(arguments)
    try:
        rows = load(options.list)
        chosen = _choose(rows, options.only)
    except DocauditError as error:
        print("\n".join(error.lines))
        return error.exit_code
    work = options.work.resolve()
    settings = Settings(work, options.data.resolve(), options.allow_network, run)
    results = _read(options.out / RESULTS)
    failures = 0
    for row in chosen:
        print(f"{row.name}: begins", flush=True)
        result = audit_row(row, settings)
        print(f"{row.name}: {_summary(result)}", flush=True)
        failures += result.state == "failed"
        if _replaces(result, results.get(row.name)):
            results[row.name] = result
        _write(rows, results, options.out)
    return min(failures, 1)


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.checkpoints",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", type=Path, default=HERE / "checkpoints.toml")
    parser.add_argument("--only", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/checkpoints"))
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--out", type=Path, default=HERE, help="folder of page and JSON")
    parser.add_argument("--allow-network", action="store_true", help="download from the Hub")
    return parser


def _choose(rows: Sequence[Checkpoint], names: Sequence[str] | None) -> list[Checkpoint]:
    """Return the rows of these names; all rows without names.

    Raises:
        UsageError: no row has one of the names.
    """
    if not names:
        return [*rows]
    by_name = {row.name: row for row in rows}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise UsageError(
            f"--only: no row is called {', '.join(unknown)}; rows: {', '.join(by_name)}"
        )
    return [by_name[name] for name in names]


def _read(path: Path) -> dict[str, Result]:
    """Return the results of earlier calls by the name of their row."""
    if not path.exists():
        return {}
    results = results_type.validate_json(path.read_bytes())
    return {result.name: result for result in results}


def _replaces(result: Result, before: Result | None) -> bool:
    """Tell whether a result takes the place of an earlier one.

    A machine without a network does not forget what one with a network measured.
    """
    if before is None:
        return True
    return result.state != "not run" or before.state != "scanned"


def _summary(result: Result) -> str:
    """Write in a line what came of a row."""
    if result.state == "scanned":
        return f"{result.verdict}, {result.minutes:.1f} minutes"
    return f"{result.state}: {result.reason}"


def _write(rows: Sequence[Checkpoint], results: dict[str, Result], out: Path) -> None:
    """Write page and JSON of all rows of the list."""
    out.mkdir(parents=True, exist_ok=True)
    listed = tuple(results[row.name] for row in rows if row.name in results)
    text = results_type.dump_json(listed, indent=1).decode()
    (out / RESULTS).write_text(f"{text}\n", encoding="utf-8")
    (out / PAGE).write_text(write_page(rows, results), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
