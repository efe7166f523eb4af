"""A decision names its ground and its remedy, so that no reader of it compares sentences."""

import pytest
from judged import LEAKY, NONE, SAFE, SKIPPED, WIDE, area, completed, judge, judged, limit

from audit.measurements import Check
from audit.policy.grounds import OWN_WORDS, Ground, Remedy
from audit.policy.reasons import REMEDIES
from audit.record import Result
from audit.report.facts.build import facts_of

ALARM = Check("epsilon", 0.001, "alarm", "epsilon is over 0", "train again")


@pytest.mark.parametrize(
    ("result", "ground", "remedy"),
    [
        pytest.param(completed(SAFE), Ground.WITHIN, None, id="met"),
        pytest.param(completed(LEAKY), Ground.CONFIRMED, None, id="exceeded"),
        pytest.param(completed(WIDE), Ground.CROSSES, Remedy.NO_HELDOUT, id="too wide"),
        pytest.param(completed(NONE), Ground.FEW_UNITS, Remedy.NO_HELDOUT, id="too few"),
        pytest.param(SKIPPED, Ground.SKIPPED, Remedy.OF_ATTACK, id="skipped"),
        pytest.param(
            completed(SAFE, checks=(ALARM,)), Ground.CHECK, Remedy.OF_RECORD, id="an alarm"
        ),
        pytest.param(
            completed(SAFE, ablations=("no public model",)),
            Ground.WEAKENED,
            Remedy.STRENGTHEN,
            id="a weakened attacker",
        ),
        pytest.param(
            completed(SAFE, ablations=("the blind check is too weak",), unvouched=True),
            Ground.WEAKENED,
            Remedy.STATE_RULE,
            id="a comparison that too few documents vouch for",
        ),
    ],
)
def test_a_decision_names_its_ground_and_its_remedy(
    result: Result, ground: Ground, remedy: Remedy | None
) -> None:
    (decision,) = judge([result], limit()).decisions
    assert (decision.ground, decision.remedy_id) == (ground, remedy)
    if remedy is None:
        assert decision.remedy == ""
    elif remedy not in OWN_WORDS:
        assert decision.remedy == REMEDIES[remedy]


def test_an_area_under_chance_is_mended_before_another_scan() -> None:
    audited, verdict = judged([completed(area("leak", 0.1))], limit(max=0.95))
    (decision,) = verdict.decisions
    assert (decision.ground, decision.remedy_id) == (Ground.CHECK, Remedy.CHECK_SIDES)
    alarm = facts_of(audited, verdict).alarm
    assert alarm is not None
    assert (alarm.remedy_id, alarm.reason) == (Remedy.CHECK_SIDES, decision.reason)
