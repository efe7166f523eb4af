"""Feed every way in with hostile input, and print what went wrong as a table.

    DOCAUDIT_FUZZ_CASES=10000 python -m benchmarks.tools.hostile_run --seed 1 --workers 2 --out
    hostile_run.json

Each case is a fork of a process with docaudit imported, in which a folder of
`tests/fakes/hostile_surfaces.py` was edited. An audit hook notes connections and files outside of
the folder; the processor's time and memory are limited.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FAKES = Path(__file__).parents[2] / "tests" / "fakes"
COLUMNS = ("traceback", "hang", "code", "printed", "outside", "network", "steered", "left")
"""Kinds of faults, as columns of the table; "code" is an exit code that the table of codes does not
have."""
MOST_EXAMPLES = 20


class Share(NamedTuple):
    """What a worker runs: its number of how many, cases of all, the seed, the end in seconds, which, in rounds."""

    number: int
    workers: int
    cases: int
    seed: int
    end: float
    only: str
    rounds: int


class Counts(NamedTuple):
    """What a worker counted, by surface, and examples of faults."""

    cases: dict[str, int]
    faults: dict[str, dict[str, int]]
    examples: list[str]


def run_share(share: Share) -> Counts:
    """Run the cases of a worker."""
    sys.path.insert(0, str(FAKES))
    import hostile_surfaces
    import hostile_tables
    from hostile_hub import HostileHub
    from hostile_server import Server

    generator = random.Random(share.seed * 1_000 + share.number)
    seed = (share.seed * 1_000 + share.number) * 1_000
    counts = Counts({}, defaultdict(Counter), [])
    replies = list(hostile_tables.REPLIES.values())
    with (
        tempfile.TemporaryDirectory() as place,
        hostile_tables.HostileServer(lambda: generator.choice(replies)) as hostile,
        HostileHub(Path(place)) as hub,
        Server(hub.environment) as server,
    ):
        asked = [hostile_surfaces.served(hostile.address, 10), *hostile_surfaces.hubs(hub, 10)]
        surfaces = [*hostile_surfaces.SURFACES, *asked]
        total = sum(surface.share for surface in surfaces)
        chosen = [surface for surface in surfaces if share.only in surface.name]
        generator.shuffle(chosen)
        counts.cases.update((surface.name, 0) for surface in chosen)
        for number in range(share.rounds):
            for place_of_surface, surface in enumerate(chosen):
                if time.monotonic() > share.end:
                    return counts
                n_cases = max(
                    1, round(share.cases * surface.share / total / share.workers / share.rounds)
                )
                root = Path(place, str(place_of_surface))
                if number == 0:
                    _warm(server, surface, root)
                _run_surface(
                    server,
                    surface,
                    root,
                    share._replace(cases=n_cases, number=seed + number),
                    counts,
                )
    return counts


def _warm(server: Any, surface: Any, root: Path) -> None:
    """Write what a surface begins with, and import what its cases need."""
    import hostile_surfaces

    root.mkdir()
    for arguments in surface.commands:
        scratch = hostile_surfaces.fresh(root / "scratch")
        server.run(surface.folder(root), arguments, scratch, warm=True, drawn=surface.drawn)


def _run_surface(server: Any, surface: Any, root: Path, share: Share, counts: Counts) -> None:
    """Run the cases of a surface in a round, as many as the time allows."""
    import hostile_surfaces

    if surface.hub is not None:
        surface.hub.serve(root)

    @seeded(share.number)
    @settings(
        max_examples=share.cases,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(surface.cases())
    def run_case(case: Any) -> None:
        """Try one hostile case, and count its faults, until the surface's time is over."""
        if time.monotonic() > share.end:
            return
        folder = hostile_surfaces.edited_folder(surface, root, case)
        counts.cases[surface.name] += 1
        for fault in hostile_surfaces.faults_of(server, surface, folder, root):
            counts.faults[surface.name][fault.kind] += 1
            if len(counts.examples) < MOST_EXAMPLES:
                counts.examples.append(f"{surface.name}: {ascii(case)[:400]}: {fault}")

    run_case()
    faults = dict(counts.faults.get(surface.name, {}))
    print(
        f"{surface.name}: {counts.cases[surface.name]} cases {faults or ''}",
        file=sys.stderr,
        flush=True,
    )


def _group_of(surface: str) -> str:
    """Return the row of the table that a surface belongs to."""
    groups = {
        "import hf parquet": "Parquet",
        "import hf saved": "Arrow",
        "import": "other importers",
        "checkpoint": "checkpoints",
        "Hub": "Hub",
        "record": "records: gate, report, diff",
        "data of": "data sets: inspect, plan",
        "names in": "lists of members: init",
    }
    if "--" in surface:
        return "importers with options"
    return next(
        (group for beginning, group in groups.items() if surface.startswith(beginning)), surface
    )


def table_of(results: Sequence[Counts]) -> dict[str, dict[str, int]]:
    """Add up what the workers counted, by row of the table."""
    rows: dict[str, dict[str, int]] = defaultdict(Counter)
    for counts in results:
        for surface, n_cases in counts.cases.items():
            row = rows[_group_of(surface)]
            row["cases"] += n_cases
            for kind, number in counts.faults.get(surface, {}).items():
                row[kind] += number
    return rows


def lines_of(rows: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yield the lines of the table."""
    names = ("cases", *COLUMNS)
    yield f"| surface | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for group in sorted(rows):
        yield f"| {group} | {' | '.join(str(rows[group].get(name, 0)) for name in names)} |"
    totals = (str(sum(row.get(name, 0) for row in rows.values())) for name in names)
    yield f"| **all** | {' | '.join(totals)} |"


def _commit() -> str:
    """The commit that is tried."""
    told = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def main() -> int:
    """Run all workers, and print the table; 1 where a fault was counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--minutes", type=float, default=600.0, help="after which no further case begins"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="each over all surfaces, so that no end leaves one out",
    )
    parser.add_argument("--only", default="", help="surfaces whose name has this text")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    n_cases = int(os.environ.get("DOCAUDIT_FUZZ_CASES", "500"))
    began = time.monotonic()
    end = began + 60 * options.minutes
    shares = [
        Share(number, options.workers, n_cases, options.seed, end, options.only, options.rounds)
        for number in range(options.workers)
    ]
    with get_context("spawn").Pool(options.workers) as pool:
        results = pool.map(run_share, shares)
    rows = table_of(results)
    print("\n".join(lines_of(rows)))
    examples = [example for counts in results for example in counts.examples]
    print("\n".join(examples))
    if options.out is not None:
        about = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "commit": _commit(),
            "asked": n_cases,
            "seed": options.seed,
            "seconds": round(time.monotonic() - began),
            "rows": {group: dict(row) for group, row in sorted(rows.items())},
            "examples": examples,
        }
        options.out.write_text(json.dumps(about, indent=1) + "\n")
    return int(any(set(row) - {"cases"} for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
