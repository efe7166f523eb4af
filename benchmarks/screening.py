"""What first-order screening of candidates saves, and what it loses.

    python benchmarks/cdmi_tables.py --stage train --only sroie-public-mlm --only
    sroie-token-classification-unimodal python benchmarks/screening.py

Attacks the same fields of the EE-BIO model on SROIE with every candidate's loss computed exactly,
and with the best few only (`Screened`). Every setting gets the same seed; what the attack is told
differs in the losses of candidates that were not scored. Besides, the estimates are laid beside the
exact losses on the way that the exact attack takes with its first attempt. Writes
`benchmarks/screening.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from cdmi_speed import SEED, AttackWork, open_case

from audit.arrays import Floats, Ints
from audit.attacks.budget import sample
from audit.attacks.interface import ask_all
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.cdmi import JudgedCandidates, Prefix
from audit.attacks.reconstruction.methods import SHIPPED, PrefixKnowledge, Rule, most_likely
from audit.attacks.reconstruction.table import DEFAULT
from audit.case import Case, References
from audit.engine.driver import WIDTH, drive
from audit.engine.interface import Json, Request, Trial
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.heads import page_losses, sum_of_losses
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import Candidates, Target, TrainingLoss

HERE = Path(__file__).parent


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/cdmi"))
    parser.add_argument("--fields", type=int, default=12)
    parser.add_argument("--n-candidates", type=int, default=64, help="128 in the paper")
    parser.add_argument("--n-attempts", type=int, default=8)
    parser.add_argument(
        "--screened", type=int, action="append", help="may be repeated; default: 16 and 4"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    options = parser.parse_args()
    opened = open_case(options)
    public: Any = opened.prepared.auxiliary
    case = Case(opened.target, opened.corpus, References(public.target))
    attack = Reconstruction(n_candidates=options.n_candidates, n_attempts=options.n_attempts)
    trials = sample(attack.usual_trials(case), 1.0, SEED)[: options.fields]
    kept = options.screened or [16, 4]
    report: dict[str, Any] = {
        "fields": len(trials),
        "n_candidates": attack.n_candidates,
        "n_attempts": attack.n_attempts,
        "settings": compare(case, attack, trials, kept),
        "estimates": judge_estimates(case, attack, trials, kept),
        "machine": options.machine,
        "device": options.device,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }
    (HERE / "screening.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


Outcomes = list[Json]


def estimate_losses(target: Target, queries: Sequence[TrainingLoss]) -> list[Floats]:
    """Estimate the training loss of pages with each candidate in place, to first order.

    Nats, (n_candidates,) each.

    The estimate is the loss of the page as it is, plus the gradient of that loss with respect to
    the word embedding at the position, times the difference between the candidate's embedding and
    that of the token that stands there. It is exact for that token, may be far off or below zero
    for others, and takes one forward and one backward pass.
    """
    assert isinstance(target, EncoderTarget)
    costs_of = target.head.costs
    assert costs_of is not None

    def judge(hidden: torch.Tensor, pages: Sequence[Encoding]) -> tuple[Floats, torch.Tensor]:
        costs = costs_of(target.model, hidden, pages)
        return page_losses(costs), sum_of_losses(costs)

    table = target.forward.words.weight
    answers: list[Floats] = [np.empty(0)] * len(queries)
    for rows, (losses, gradients) in target.forward.gradients(
        [query.page for query in queries], judge
    ):
        for row, loss, gradient in zip(rows, losses, gradients, strict=True):
            query = queries[row]
            away = table[query.candidates] - table[query.page.ids[query.position]]
            answers[row] = loss + (away @ gradient[query.position]).detach().cpu().double().numpy()
    return answers


@dataclass(frozen=True, eq=False)
class ScreenedCandidates(JudgedCandidates):
    """The exact attacker, but for candidates that an estimate screens.

    Candidates are ranked by what step 5 makes of the estimates. The exact losses of the best
    `n_exact` take the place of their estimates, and the other estimates stay. No loss is below
    zero, so no estimate is.
    """

    n_exact: int = 1

    def _asked(
        self, candidates: Mapping[Prefix, Candidates]
    ) -> Generator[Request, Any, list[Floats]]:
        queries = [
            TrainingLoss(
                self.proposals.page_after(prefix), self.proposals.positions[len(prefix)], found.ids
            )
            for prefix, found in candidates.items()
        ]
        losses = [np.maximum(found, 0.0) for found in estimate_losses(self.target, queries)]
        chosen = [
            most_likely(
                np.exp(
                    SHIPPED.node(
                        PrefixKnowledge(found.ids, found.logits, own), len(prefix)
                    ).log_target
                ),
                found.ids,
            )[: self.n_exact]
            for (prefix, found), own in zip(candidates.items(), losses, strict=True)
        ]
        exact = yield from ask_all(
            self.target,
            [
                replace(query, candidates=query.candidates[own])
                for query, own in zip(queries, chosen, strict=True)
            ],
        )
        for found, own, known in zip(losses, chosen, exact, strict=True):
            found[own] = known
        return losses


@dataclass(frozen=True)
class Screened(Reconstruction):
    """The attack with `ScreenedCandidates`."""

    n_exact: int = 1

    def _attacker(self, case: Case, page: Encoding, positions: tuple[int, ...]) -> JudgedCandidates:
        return ScreenedCandidates(
            self._from_public(case, page, positions), case.target, n_exact=self.n_exact
        )


def screened(attack: Reconstruction, n_exact: int) -> Screened:
    """Return the attack with so many candidates of a token scored exactly."""
    return Screened(n_candidates=attack.n_candidates, n_attempts=attack.n_attempts, n_exact=n_exact)


def compare(
    case: Case, attack: Reconstruction, trials: Sequence[Trial], kept: Sequence[int]
) -> list[dict[str, Any]]:
    """Seconds and outcomes of the exact attack and of the screened ones, one row each."""
    attacked(case, screened(attack, min(kept)), trials[:1])  # warm up
    exact, exact_seconds = attacked(case, attack, trials)
    rows = [row(exact, exact, exact_seconds, exact_seconds) | {"screened": None}]
    for n_exact in kept:
        found, seconds = attacked(case, screened(attack, n_exact), trials)
        rows.append(row(found, exact, seconds, exact_seconds) | {"screened": n_exact})
    return rows


def attacked(case: Case, attack: Reconstruction, trials: Sequence[Trial]) -> tuple[Outcomes, float]:
    """The outcomes of all trials, and the seconds they took."""
    began = time.perf_counter()
    outcomes = dict(drive(AttackWork(case, attack), trials, WIDTH))
    return [outcomes[trial.id] for trial in trials], time.perf_counter() - began


def row(found: Outcomes, exact: Outcomes, seconds: float, exact_seconds: float) -> dict[str, Any]:
    """What one setting took and gave, beside the exact attack."""
    same = [[shot["tokens"] for shot in outcome["attack"]] for outcome in found]
    wanted = [[shot["tokens"] for shot in outcome["attack"]] for outcome in exact]
    return {
        "seconds": seconds,
        "faster": exact_seconds / seconds,
        "one-shot tokens as exact": float(
            np.concatenate([np.equal(a[0], b[0]) for a, b in zip(same, wanted, strict=True)]).mean()
        ),
        "attempts as exact": float(
            np.mean(
                [
                    one == other
                    for a, b in zip(same, wanted, strict=True)
                    for one, other in zip(a, b, strict=True)
                ]
            )
        ),
        "PR, one-shot": float(
            np.mean([outcome["attack"][0]["tokens"] == outcome["truth"] for outcome in found])
        ),
        "1 - HD, one-shot": float(
            np.mean(
                [
                    np.equal(outcome["attack"][0]["tokens"], outcome["truth"]).mean()
                    for outcome in found
                ]
            )
        ),
    }


@dataclass(frozen=True)
class Comparison:
    """After one prefix: the candidates, and what both kinds of losses make of them, each (n_candidates,).

    Attributes:
        ids: the candidates.
        exact, estimated: losses in nats; estimates below zero are zero, as in the attack.
        log_exact, log_estimated: log p of step 5.
    """

    ids: Ints
    exact: Floats
    estimated: Floats
    log_exact: Floats
    log_estimated: Floats

    def rank(self) -> int:
        """Of the candidate that is most likely by the exact losses, among all by the estimates.

        From 0.
        """
        best = most_likely(np.exp(self.log_exact), self.ids)[0]
        return int(np.flatnonzero(most_likely(np.exp(self.log_estimated), self.ids) == best)[0])


@dataclass(frozen=True, eq=False)
class Watched(JudgedCandidates):
    """The exact attacker; whatever it is told is kept beside the estimates."""

    seen: list[Comparison] = field(default_factory=list)

    def knowledge(
        self, prefixes: Sequence[Prefix]
    ) -> Generator[Request, Any, list[PrefixKnowledge]]:
        """See `JudgedCandidates.knowledge`."""
        found = yield from super().knowledge(prefixes)
        estimated = estimate_losses(
            self.target,
            [
                TrainingLoss(
                    self.proposals.page_after(prefix),
                    self.proposals.positions[len(prefix)],
                    one.ids,
                )
                for prefix, one in zip(prefixes, found, strict=True)
            ],
        )
        for prefix, one, guesses in zip(prefixes, found, estimated, strict=True):
            assert one.losses is not None
            floored = np.maximum(guesses, 0.0)
            log_exact, log_estimated = (
                SHIPPED.node(replace(one, losses=losses), len(prefix)).log_target
                for losses in (one.losses, floored)
            )
            self.seen.append(Comparison(one.ids, one.losses, floored, log_exact, log_estimated))
        return found


@dataclass(frozen=True)
class WatchedAttack(Reconstruction):
    """The exact attack with a `Watched` attacker, one attempt a field."""

    n_attempts: int = 1
    seen: list[Comparison] = field(default_factory=list)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """See `Reconstruction.rules`."""
        return {DEFAULT: SHIPPED}

    def _attacker(self, case: Case, page: Encoding, positions: tuple[int, ...]) -> JudgedCandidates:
        return Watched(self._from_public(case, page, positions), case.target, seen=self.seen)


def judge_estimates(
    case: Case, attack: Reconstruction, trials: Sequence[Trial], kept: Sequence[int]
) -> dict[str, Any]:
    """How the estimates agree with the exact losses, over the prefixes of the exact attack's first attempts."""
    watched = WatchedAttack(n_candidates=attack.n_candidates)
    attacked(case, watched, trials)
    seen = watched.seen
    ranks = np.array([one.rank() for one in seen])
    return {
        "prefixes": len(seen),
        "the exactly best candidate is screened, share of prefixes": {
            str(n): float((ranks < n).mean()) for n in sorted({1, *kept}, reverse=True)
        },
        "rank correlation of losses, median over prefixes": float(
            np.median([correlation(one.exact, one.estimated) for one in seen])
        ),
        "median estimate / median loss, quartiles over prefixes": np.quantile(
            [np.median(one.estimated) / np.median(one.exact) for one in seen], [0.25, 0.5, 0.75]
        ).tolist(),
        "estimates at or below zero, share": float(
            np.mean([(one.estimated <= 0).mean() for one in seen])
        ),
    }


def correlation(a: Floats, b: Floats) -> float:
    """Spearman's rank correlation; 0 where all values of one are equal."""
    from scipy.stats import spearmanr

    return 0.0 if np.ptp(a) == 0 or np.ptp(b) == 0 else float(spearmanr(a, b).statistic)


if __name__ == "__main__":
    main()
