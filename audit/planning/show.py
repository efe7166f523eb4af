"""`docaudit plan`: read the data set and the policy, make the plan, show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from audit import console
from audit import policy as policies
from audit.attacks import known_metrics
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.corpus.near_copies import find_copies, without_copies
from audit.errors import UsageError
from audit.files import write_atomically
from audit.planning import words
from audit.planning.confounding import blind_checks
from audit.planning.cost import Cost, at_most
from audit.planning.limits import checked, plan


def planned(
    data_dir: Path,
    policy: str,
    budget: str,
    *,
    model: Path | None = None,
    references: Mapping[str, Sequence[Path]] | None = None,
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Print the plan of an audit, and write it to `out`.

    Args:
        data_dir: the data set.
        policy: name or path.
        budget: of the scan.
        model: the checkpoint to be audited, when trials are to be counted exactly and timed.
        references: folders by name; with a model only.
        device: where the model runs.
        out: a file for the plan as JSON.

    Raises:
        DocauditError: nothing can be planned; nothing was written.
    """
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise UsageError(f"--out {out}: no file can be written there", "name a file in a folder that there is")
    if references and model is None:
        raise UsageError("--reference is for timing a model's trials", "add --model MODEL_DIR")
    chosen = checked(policies.load(policy))
    policies.check_ranges(chosen, known_metrics())
    corpus = manifest.load(data_dir)
    manifest.check_references(corpus)
    copies = find_copies(corpus)
    corpus = without_copies(corpus, copies)
    if model is None:  # with one, the scan that is opened for it says so
        for warning in copies.warnings:
            console.warn(warning)
    costs = at_most(corpus, budget) if model is None else _probed(model, corpus, budget, references or {}, device)
    with console.Reporter() as progress:
        blind = blind_checks(corpus, chosen, budget, costs, progress)
    found = plan(corpus, chosen, budget, costs, blind, copies)
    console.show_table(*words.limits_table(found), gap=1)
    for line in (*words.legend(), "", *words.reasons(found), ""):
        console.say(line)
    console.show_table(*words.costs_table(found))
    console.say(words.conclusion(found))
    if out is not None:
        write_atomically(out, words.as_json(found))


def _probed(
    model: Path, corpus: Corpus, budget: str, references: Mapping[str, Sequence[Path]], device: str
) -> tuple[Cost, ...]:
    """Exact trials and their time."""
    # Loads torch, which a plan without a model does without.
    from audit import runner
    from audit.planning.probing import probe

    options = runner.ScanOptions(model, corpus.root, Path(), budget=budget, references=references, device=device)
    opened = runner.open_scan(options)
    for warning in opened.warnings:
        console.warn(warning)
    with console.Reporter() as progress:
        return probe(opened, progress)
