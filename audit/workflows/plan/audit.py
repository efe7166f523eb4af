"""The plan of an audit: the data set and the policy are read, what each limit needs is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from audit.attacks.battery import BATTERY
from audit.attacks.blind_baseline import Blind, of_trials
from audit.attacks.budget import SHARES
from audit.attacks.interface import compared_units, may_try
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import find_copies, without_copies
from audit.engine.interface import SILENT, Progress
from audit.errors import UsageError
from audit.files import check_file, write_atomically
from audit.policy import Policy
from audit.workflows.gate import load_policy
from audit.workflows.plan.limits import Cost, Plan, at_most, plan_limits
from audit.workflows.plan.summary import as_json


def plan_audit(
    data_dir: Path,
    policy: str,
    budget: str,
    *,
    model: Path | None = None,
    references: Mapping[str, Sequence[Path]] | None = None,
    device: str = "auto",
    dtype: str = "auto",
    documents: int | None = None,
    seconds: float | None = None,
    out: Path | None = None,
    progress: Progress = SILENT,
) -> Iterator[str | Plan]:
    """Plan an audit.

    Args:
        data_dir: the data set.
        policy: name or path.
        budget: of the scan.
        model: the checkpoint to be audited, when trials are to be counted exactly and timed.
        references: folders by name; with a model only.
        device: of the model.
        dtype: see `ScanOptions`.
        documents: units of both sides that are tried at most.
        seconds: the time that the trials are bounded to; with a model only.
        out: a file for the plan as JSON.
        progress: of trials that are timed, and of documents described.

    Yields:
        Warnings as they arise, and at the end the plan; then it is written to `out`.

    Raises:
        DocauditError: nothing can be planned; nothing was written.
    """
    if out is not None:
        check_file("--out", out)
    if out is not None and not out.parent.is_dir():
        raise UsageError(f"--out {out}: no file can be written there", "name a file in a folder that there is")
    if references and model is None:
        raise UsageError("--reference is for timing a model's trials", "add --model MODEL_DIR")
    if seconds is not None and model is None:
        raise UsageError("--time is for a model whose trials are timed", "add --model MODEL_DIR")
    chosen = load_policy(policy)
    corpus = manifest.load(data_dir)
    manifest.check_references(corpus)
    if model is None:
        copies = find_copies(corpus)
        yield from copies.warnings
        corpus = without_copies(corpus, copies)
        costs, place = at_most(corpus, budget, documents), ""
    else:  # the scan that is opened for it warns of copies
        # These load torch, which a plan without a model does without.
        from audit.workflows.options import ScanOptions
        from audit.workflows.plan.timing import bounded_by_time, time_attacks
        from audit.workflows.setup import open_scan

        opened = open_scan(
            ScanOptions(
                model,
                corpus.root,
                Path(),
                budget=budget,
                references=references or {},
                device=device,
                dtype=dtype,
                documents=documents,
                seconds=seconds,
            )
        )
        yield from opened.warnings
        corpus, copies, place = opened.corpus, opened.copies, opened.target.card.device
        costs = bounded_by_time(opened, time_attacks(opened, progress))
    blind = blind_checks(corpus, chosen, budget, costs, progress)
    plan = plan_limits(corpus, chosen, budget, costs, blind, copies)
    plan = replace(plan, device=place, documents=documents, seconds=seconds)
    yield plan
    if out is not None:
        write_atomically(out, as_json(plan))


def blind_checks(
    corpus: Corpus, policy: Policy, budget: str, costs: Sequence[Cost], progress: Progress = SILENT
) -> dict[str, Blind]:
    """Run the blind check of every attack that the policy limits and that compares members with others, by its name.

    It describes what a scan with this budget compares, but for documents that a model turns out not to read, or none of
    whose fields its tokens spell, and before those of providers are cut to as many on both sides, which takes the
    model's questions. Most of its time goes into opening page images (`blindness.MAX_UNITS`).

    Args:
        corpus: the data set.
        policy: the one that limits attacks.
        budget: of the scan.
        costs: of every attack: one that cannot be fed, or is not applicable, needs no check.
        progress: of every document described.

    Raises:
        ManifestError: an image is missing, damaged or too large.
    """
    limited = {limit.attack for limit in policy.limits if limit.max is not None}
    fed = {cost.attack for cost in costs if cost.lacks is None and cost.inapplicable is None} & limited
    found = {}
    for attack in (kind.preset(budget) for kind in BATTERY if kind.name in fed):
        unit = compared_units(attack, corpus)
        if unit is not None:
            found[attack.name] = of_trials(corpus, may_try(attack, corpus), SHARES[budget], unit, progress)
    return found
