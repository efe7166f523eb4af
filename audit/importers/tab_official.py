"""TAB as its authors hand it out: `echr_train.json`, `echr_dev.json`, `echr_test.json`, a list of court cases each.

A case has its text and `annotations`, by annotator, each with `entity_mentions` (or these at once, an entry for each
annotator). Hidden is what one annotator marked as DIRECT or QUASI: the one whose work was checked by others, else the
first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ConfigDict, Field, StrictInt, TypeAdapter
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.paths import inside
from audit.corpus.problems import Problems
from audit.errors import ManifestError
from audit.importers.source_files import read_json
from audit.importers.splits import OfficialPart

PATTERN = "echr_*.json"
PARTS: Mapping[str, OfficialPart] = {"train": "train", "dev": "validation", "test": "validation"}
MASKED = ("DIRECT", "QUASI")
_LOOSE = ConfigDict(hide_input_in_errors=True)
Span = tuple[int, int, str]


@strict_dataclass(frozen=True, config=_LOOSE)
class _Mention:
    start: StrictInt = Field(validation_alias="start_offset")
    end: StrictInt = Field(validation_alias="end_offset")
    kind: str = Field(validation_alias="entity_type")
    masked: str = Field(default="DIRECT", validation_alias="identifier_type")


@strict_dataclass(frozen=True, config=_LOOSE)
class _Annotation:
    mentions: tuple[_Mention, ...] = Field(validation_alias="entity_mentions")


@strict_dataclass(frozen=True, config=_LOOSE)
class _Case:
    text: str
    name: str = Field(validation_alias="doc_id")
    annotations: dict[str, _Annotation] = Field(default_factory=dict)
    mentions: tuple[_Mention, ...] | None = Field(default=None, validation_alias="entity_mentions")
    checked: bool = Field(default=False, validation_alias="quality_checked")

    def marked(self) -> Iterable[_Mention] | None:
        """The mentions of the entry's first annotator; None where there is none."""
        first = next(iter(self.annotations.values()), None)
        return self.mentions if first is None else first.mentions


_type = TypeAdapter(list[_Case])


def official_files(src: Path) -> list[Path]:
    """List the files of the official layout; empty where `src` has another."""
    return sorted(src.glob(PATTERN))


def read_official(src: Path) -> tuple[dict[str, str], dict[str, list[Span]], dict[str, OfficialPart]]:
    """Read texts, spans to be hidden and parts, by the id of the case.

    Raises:
        ManifestError: a file is broken, or a case is in two files or has two texts; all problems are listed.
    """
    problems, cases = Problems(), dict[str, _Case]()
    parts: dict[str, OfficialPart] = {}
    for path in official_files(src):
        part = PARTS.get(path.stem.removeprefix("echr_"))
        with problems.catch():
            if part is None:
                raise ManifestError(f"{path.name}: the name says none of {', '.join(PARTS)}")
            for case in read_json(inside(src.resolve(), path.name), _type):
                first = cases.setdefault(case.name, case)
                if first.text != case.text or parts.setdefault(case.name, part) != part:
                    problems.add(path.name, [f"{case.name}: another text or part than in an earlier entry"])
                elif case.checked and not first.checked:
                    cases[case.name] = case
    problems.add("", (f"{name}: no entity_mentions" for name, case in cases.items() if case.marked() is None))
    problems.raise_if_any()
    spans = {
        name: [(one.start, one.end, one.kind) for one in case.marked() or () if one.masked in MASKED]
        for name, case in sorted(cases.items())
    }
    return {name: cases[name].text for name in spans}, spans, parts
