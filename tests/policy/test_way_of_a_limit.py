"""The way of a limit through `evaluate`: one room after another, with few returns."""

import sys
from pathlib import Path
from types import FrameType

import pytest
import tiny
from judged import BARELY, GAPS, LEAKY, NO_DATA, NONE, SAFE, TODAY, WIDE, completed, limit

from audit.policy import Policy, evaluate
from audit.record import Result

ROOMS = ("policy", "stats")
"""Folders of `audit` that decide: what a reader of a verdict has to open."""
MOST_STAYS = 12
MOST_RETURNS = 3
POLICY = Policy(schema=1, name="test", limits=(limit(),), gaps=GAPS)


def room_of(frame: FrameType) -> str | None:
    """Return the module of a call as folder/name; None where it is no function of a room.

    Methods of the record and of the policy read one value, and are no rooms.
    """
    path = Path(frame.f_code.co_filename)
    is_method = "self" in frame.f_code.co_varnames[: frame.f_code.co_argcount]
    if path.parent.name not in ROOMS or is_method or frame.f_code.co_name.startswith("<"):
        return None
    return f"{path.parent.name}/{path.stem}"


def stays(result: Result) -> list[str]:
    """List the modules whose functions are entered, in order, without repeats of the same."""
    record = tiny.record(result)
    modules: list[str] = []

    def enter(frame: FrameType, event: str, _: object) -> None:
        room = room_of(frame)
        if event == "call" and room is not None and modules[-1:] != [room]:
            modules.append(room)

    sys.setprofile(enter)
    try:
        evaluate(record, POLICY, TODAY)
    finally:
        sys.setprofile(None)
    return modules


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(completed(SAFE), id="met"),
        pytest.param(completed(LEAKY), id="violated"),
        pytest.param(completed(WIDE), id="too wide"),
        pytest.param(completed(BARELY), id="barely over"),
        pytest.param(completed(NONE), id="too few units"),
        pytest.param(NO_DATA, id="nothing to attack"),
    ],
)
def test_a_limit_visits_few_rooms_and_returns_to_few(result: Result) -> None:
    modules = stays(result)
    assert modules[0] == "policy/verdict"
    assert len(modules) <= MOST_STAYS
    assert len(modules) - len(set(modules)) <= MOST_RETURNS
