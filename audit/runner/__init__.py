"""One scan: what is asked, the outcomes of all trials, the record."""

from audit.attacks import known_metrics
from audit.runner.opening import ScanOptions, ScanSetup, check_ray, open_scan, trial_counts
from audit.runner.scan import attempted, claimed, run

__all__ = [
    "ScanOptions",
    "ScanSetup",
    "attempted",
    "check_ray",
    "claimed",
    "known_metrics",
    "open_scan",
    "run",
    "trial_counts",
]
