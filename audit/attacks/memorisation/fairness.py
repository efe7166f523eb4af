"""Conditions under which net speaks of memory.

Of the baseline, of the pages, and of both without memory. A baseline that is stronger than the
target answers on its own what the target remembers, and hides it; a weaker one makes guesses look
like memory. Both show on held-out documents, which neither saw: in how well complete pages are read
(the gap of ANLS, paired by question) and in net itself, answers removed. What is shown to be wrong
leaves everything undecided; what is only not shown to be right lets nothing pass, and a leak that
is found all the same stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from audit.attacks.blind_baseline import Blind
from audit.attacks.memorisation.contexts import WAYS
from audit.attacks.text import SENTENCES, SHARED
from audit.measurements import Check, Estimate, Measurement, Unresolved

GAP = "anls_gap.heldout"
MAX_ANLS_GAP = 0.02
"""f_G must be as strong as f: held-out ANLS within 2 points.

Method: methods/memorisation.md#fairness-of-the-baseline.

Further apart is what has its whole 95 % interval beyond them: as points alone they part two models
of equal skill in half of all audits.
"""
WIDE_ANLS_GAP = 0.10
"""A baseline has to be shown to read at most so much better than the target, one-sided at `EQUIVALENCE` (of two
one-sided tests, Schuirmann 1987, the one that bears on a pass). To show 2 points would take
thousands of questions, and how much a stronger baseline can hide is held to `MAX_HIDDEN` where it
counts."""
EQUIVALENCE = 0.05
MAX_HIDDEN = 0.05
"""Share of held-out questions that the baseline may answer beyond the target.

It could hide as much memory of members. It is the limit of the default policy; a leak of twice that
passes in at most 2.5 % of audits.
"""
CONTROL = 0.005
"""One-sided level at which net on held-out documents is not 0 in another context (0.05 over five
contexts)."""
TRAIN_ALIKE = (
    "train the baseline with the target's recipe (docaudit references --train), and scan again"
)
TRAIN_APART = "train the baseline on documents outside the audit (docaudit references --train), and scan again"
_ROUNDING = 1e-9
"""2 points are 2 points, whatever the last bit of a sum says."""


def confounded(measured: Sequence[Measurement]) -> str | None:
    """Return why the strength of the baseline cannot be compared at all; None when it can."""
    gap = {item.name: item for item in measured}[GAP]
    if isinstance(gap, Unresolved) and not gap.n:
        return "no unseen question could be asked, so the strength of the baseline is unknown"
    return None


def checks(measured: Sequence[Measurement], blind: Blind) -> tuple[Check, ...]:
    """Test whether net may speak of memory.

    Each check counts among those of the scan (`audit.policy.checks`).

    The blind check binds as it does for membership where it finds a difference. Net compares two
    models on the same pages, so that pages of another time or kind are no reason to doubt it by
    themselves. But that both models are alike but for memory is known from held-out pages only, and
    these say nothing of pages of another kind.

    Args:
        measured: the attack's measurements.
        blind: the blind check of the documents whose questions were asked.
    """
    estimates = {item.name: item for item in measured}
    tests = (
        _check_equal_reading(estimates),
        _differs_without_memory(estimates),
        _knows_one_side(estimates),
        _uncontrolled_contexts(estimates),
    )
    return (*blind.checks, *filter(None, tests))


def weaknesses(measured: Sequence[Measurement], blind: Blind) -> tuple[str, ...]:
    """Return what is not shown of baseline and pages, so that nothing passes.

    A leak may be confirmed all the same.

    An assignment that was not by lot, with too few documents to look for differences, belongs here
    and not under `confounded`: nothing speaks against the comparison on the members' own pages.

    Args:
        measured: see `checks`.
        blind: see `checks`.
    """
    estimates = {item.name: item for item in measured}
    return tuple(filter(None, (_stronger(estimates), _hiding(estimates), blind.confounded)))


def control_contexts(measured: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Leave out net in each context whose held-out control shows that it measures something else.

    In the context of training that confounds everything (see `confounded`); another context is left
    out alone.
    """
    estimates = {item.name: item for item in measured}
    without = {
        f"net.{name}": reason
        for name in WAYS
        if (reason := _uncontrolled(estimates, name)) is not None
    }
    return tuple(
        Unresolved(item.name, without[item.name], item.n) if item.name in without else item
        for item in measured
    )


def _check_equal_reading(found: Mapping[str, Measurement]) -> Check | None:
    """Check whether target and baselines read unseen pages differently; None where unmeasured."""
    gap = found[GAP]
    if isinstance(gap, Unresolved):
        return None
    p_value = gap.p_outside(-MAX_ANLS_GAP - _ROUNDING, MAX_ANLS_GAP + _ROUNDING)
    compared = "weaker than" if gap.value > 0 else "stronger than"
    reason = f"the baseline is {compared} the model: {_anls_sentence(found, gap)}"
    return Check("unequal baseline", p_value, "confounded", reason, TRAIN_ALIKE)


def _anls_sentence(found: Mapping[str, Measurement], gap: Estimate) -> str:
    """State the ANLS of target and baselines on unseen documents, and their difference."""
    target = found.get("anls.heldout.target")
    stated = ""
    if isinstance(target, Estimate):
        stated = (
            f"ANLS on unseen documents {target.value - gap.value:.3f} against {target.value:.3f}, "
        )
    return f"{stated}a difference of {-gap.value:.3f} [{-gap.high:.3f}, {-gap.low:.3f}]"


def _differs_without_memory(found: Mapping[str, Measurement]) -> Check | None:
    """Test whether net, asked as in training, is 0 on documents that neither model saw."""
    control = found.get("net.heldout")
    if not isinstance(control, Estimate):
        return None
    reason = SENTENCES["heldout_net"].format(control=control)
    return Check("held-out net", control.p_outside(0, 0), "confounded", reason, TRAIN_ALIKE)


def _knows_one_side(found: Mapping[str, Measurement]) -> Check | None:
    """Test whether the baselines answer more often about one split than about the other.

    Having seen neither, they answer equally often when the answer is gone. A baseline that knows
    the members hides the model's memory of them; one that knows the held-out documents hides that
    the model does not. Two one-sided bounds at a level that do not overlap give a p-value of twice
    the level; Bonferroni's rule doubles it for both directions.
    """
    member, heldout = (found.get(f"baseline_extracted.{split}") for split in ("member", "heldout"))
    if not (isinstance(member, Estimate) and isinstance(heldout, Estimate)):
        return None
    levels = {bound.alpha: bound for bound in heldout.bounds}
    apart: list[float] = []
    for bound in member.bounds:
        beside = levels.get(bound.alpha)
        if beside is not None and (bound.lower > beside.upper or bound.upper < beside.lower):
            apart.append(bound.alpha)
    documents = SHARED["documents"]["member" if member.value > heldout.value else "heldout"]
    reason = SENTENCES["baseline_knows"].format(documents=documents, member=member, heldout=heldout)
    return Check(
        "baseline knows one side",
        min(1.0, 4 * min(apart, default=1.0)),
        "confounded",
        reason,
        TRAIN_APART,
    )


def _uncontrolled_contexts(found: Mapping[str, Measurement]) -> Check | None:
    """Test whether net is 0 on unseen documents in every context but that of training.

    That is in every context but that of training.
    """
    controls = {name: found.get(f"net.heldout.{name}") for name in WAYS if name != "exact"}
    tested = {name: control for name, control in controls.items() if isinstance(control, Estimate)}
    if not tested:
        return None
    name, worst = min(tested.items(), key=lambda item: item[1].p_outside(0, 0))
    p_value = min(1.0, len(tested) * worst.p_outside(0, 0))
    return Check(
        "held-out net in other contexts",
        p_value,
        "alarm",
        _unlike_sentence(name, worst),
        TRAIN_ALIKE,
    )


def _stronger(found: Mapping[str, Measurement]) -> str | None:
    """Return why the baseline may read far better than the target; None when that is ruled out."""
    gap = found[GAP]
    if isinstance(gap, Unresolved):
        return f"the strength of the baseline could not be measured: {gap.reason}"
    if (
        next((bound.lower for bound in gap.bounds if bound.alpha == EQUIVALENCE), gap.low)
        >= -WIDE_ANLS_GAP - _ROUNDING
    ):
        return None
    return SENTENCES["baseline_stronger"].format(
        most=100 * WIDE_ANLS_GAP, readings=_anls_sentence(found, gap)
    )


def _hiding(found: Mapping[str, Measurement]) -> str | None:
    """Return why a baseline too strong on held-out pages may hide the target's memory.

    None when that is ruled out.
    """
    control = found.get("net.heldout")
    if not isinstance(control, Estimate):
        return "no control on unseen documents shows how two models differ without memory"
    if control.low >= -MAX_HIDDEN - _ROUNDING:
        return None
    return SENTENCES["baseline_hides"].format(most=-100 * control.low, control=control)


def _uncontrolled(found: Mapping[str, Measurement], context: str) -> str | None:
    """Return that net is not 0 in this context on documents that neither model saw.

    None where it may be.
    """
    control = found.get(f"net.heldout.{context}")
    if (
        context == "exact"
        or not isinstance(control, Estimate)
        or control.p_outside(0, 0) > 2 * CONTROL
    ):
        return None
    return _unlike_sentence(context, control)


def _unlike_sentence(context: str, control: Estimate) -> str:
    """State that net on held-out documents differs from 0 in this context."""
    return SENTENCES["unlike_context"].format(context=context, control=control)
