"""Records of two scans on disk, and their comparison."""

from dataclasses import replace
from pathlib import Path

from example_records import mean, record
from policy_texts import policy_text

from audit import record as records
from audit.compare.paired import write_scores
from audit.measurements import Estimate, Unresolved
from audit.record import Reason, Result
from audit.workflows.diff import diff_scans

N = 120
POLICY = policy_text(
    "membership auc max = 0.65\nrequired = false",
    "reconstruction excess_pr.unique max = 0.5\nrequired = false",
    name="own",
)


def auc(value: float, error: float = 0.02, name: str = "auc") -> Estimate:
    return replace(mean(name, value, error, N, 0.5, "chance"), unit="documents")


def membership(*measurements, **more) -> Result:
    return Result("membership", parameters={"n_masks": 7}, measurements=measurements, **more)


def reconstruction(value: float, error: float = 0.02, **more) -> Result:
    items = (mean("excess_pr.unique", value, error, N, 0.0, "held-out"),)
    return Result("reconstruction", parameters={"n_attempts": 8}, measurements=items, **more)


def scan(*attacks, **more):
    """A record of a docaudit that knows two attacks."""
    return replace(record(*attacks, battery=("reconstruction", "membership")), **more)


def gone(attack, status, kind, why="this attack was not run"):
    """An attack that gave no numbers."""
    return Result(attack, status=status, reason=Reason(kind, why, "scan without --only"))


def saved(folder: Path, audited, scores=None) -> Path:
    """The folder of a scan; `scores` by attack and metric are its values of units."""
    (folder / "evidence").mkdir(parents=True)
    records.write(audited, folder / "record.json")
    for result in audited.attacks:
        if scores is not None and result.status == "completed":
            write_scores(folder / "evidence", result, scores.get(result.attack, {}))
    return folder


def compared(tmp_path, old, new, scores=(None, None), **more):
    places = [
        saved(tmp_path / name, one, own)
        for name, one, own in zip("ab", (old, new), scores, strict=True)
    ]
    return diff_scans(*places, **more)


def change(found, metric):
    return next(one for one in found.changes if one.metric == metric)


LEAKS = scan(reconstruction(0.6))
QUIET = scan(reconstruction(0.1))
BOTH = scan(membership(auc(0.9)), reconstruction(0.1))
SKIPPED = scan(gone("membership", "skipped", "missing"), reconstruction(0.1))
UNRESOLVED = scan(membership(Unresolved("auc", "too few documents", 3, 20)), reconstruction(0.1))
NOT_ASKED = scan(reconstruction(0.1), left_out=(gone("membership", "left out", "left out"),))


def area(value, **more):
    return scan(membership(auc(value)), **more)
