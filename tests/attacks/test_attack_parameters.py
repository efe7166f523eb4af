"""A file of parameters: every attack says itself what its parameters may be."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import pytest
from pydantic import Field

from audit.attacks import battery as parameters
from audit.attacks.battery import BATTERY
from audit.attacks.interface import Attack
from audit.errors import UsageError
from audit.record import Result


@dataclass(frozen=True)
class Toy(Attack):
    threshold: Annotated[float, Field(ge=0)] = 0.5
    rounds: int = 3

    name: ClassVar[str] = "toy"

    def trials(self, case: Any) -> list[Any]:
        return []

    def attempt(self, case: Any, trial: Any, rng: Any) -> Any:
        yield from ()

    def measure(self, case: Any, trials: Any, outcomes: Any, rng: Any, progress: Any) -> Result:
        return Result(self.name)


def numbers(kind: type[Attack]) -> dict[str, Any]:
    """Type of each parameter that is a number."""
    hints = get_type_hints(kind, include_extras=True)
    found = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    return {
        name: hint
        for name, hint in found.items()
        if (isinstance(hint, type) and issubclass(hint, int | float) and hint is not bool)
        or {int, float}
        & {*get_args(hint), *(part for one in get_args(hint) for part in get_args(one))}
    }


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in BATTERY for name in numbers(kind)]
)
def test_a_number_out_of_its_range_is_refused(kind, name, tmp_path):
    file = tmp_path / "attack.toml"
    file.write_text(f"[{kind.name}]\n{name} = -1\n")
    with pytest.raises(UsageError) as caught:
        parameters.read_parameters(file)
    (problem,) = caught.value.problems
    assert f"[{kind.name}] {name}: Input should be greater than" in problem


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("threshold = -5.0", "threshold: Input should be greater than or equal to 0"),
        ("threshold = nan", "threshold: Input should be a finite number"),
        # no range was declared: the type binds
        ("rounds = 2.5", "rounds: Input should be a valid integer"),
        ('rounds = "many"', "rounds: Input should be a valid integer"),
        ("rounds = true", "rounds: Input should be a valid integer"),
    ],
)
def test_what_a_new_attack_declares_binds_and_its_types_do_without_a_range(
    line, problem, tmp_path, monkeypatch
):
    monkeypatch.setattr(parameters, "BATTERY", (*BATTERY, Toy))
    file = tmp_path / "attack.toml"
    file.write_text(f"[toy]\n{line}\n")
    with pytest.raises(UsageError) as caught:
        parameters.read_parameters(file)
    assert [problem in found for found in caught.value.problems] == [True]


def test_lengths_are_in_order_whether_one_is_set_or_both(tmp_path):
    file = tmp_path / "attack.toml"
    for lines in ("min_tokens = 16", "max_tokens = 2", "min_tokens = 6\nmax_tokens = 5"):
        file.write_text(f"[reconstruction]\n{lines}\n")
        with pytest.raises(UsageError, match="is more than max_tokens"):
            parameters.read_parameters(file)
