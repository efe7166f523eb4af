"""Read a scan as its files hold it: printed text, outcomes of the journals, and documents.

Nothing here calls code that measures or writes reports. `recount` and the tests of the samples
recompute the printed numbers from these files.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from audit.corpus.folding import fold

SAMPLES = Path(__file__).parents[2] / "sample_models"
JOINT = "\x1f"
"""Between the parts of a trial's id in a journal."""
SHORTEST_ON_PAGES = 4
"""Folded signs of a value that is looked for on whole pages; shorter ones stand there by chance."""
Key = tuple[str, ...]
Outcome = dict[str, Any]
Document = dict[str, Any]


CELL = " | "
"""Between the cells of a row."""
N_CELLS = 8
"""Cells of a row of the table of limits."""


def cells_of(line: str) -> list[str]:
    """Return the cells of a row's line."""
    return [cell.strip() for cell in line.split(CELL.strip())]


def lines_of(fragment: str) -> str:
    """Return the text of HTML: a line for each row or paragraph, `CELL` between cells.

    Drawings are left out: they repeat the numbers of their row.
    """
    page = re.sub(r"<svg.*?</svg>", "", fragment, flags=re.S)
    page = re.sub(r"\s+", " ", page)
    page = re.sub(r'(<td colspan="2">.*?</td>)', rf"\1{CELL}", page)
    page = re.sub(r"</t[dh]>", CELL, page)
    page = re.sub(r"<br\s*/?>", " ; ", page)
    for row in re.findall(r"<tr.*?</tr>", page):
        page = page.replace(row, re.sub(r"</?p[ >]", " ", row))
    page = re.sub(r"</tr>|</p>|</h\d>|</li>|</caption>|</div>|</section>", "\n", page)
    text = html.unescape(re.sub(r"<[^>]*>", "", page)).replace("\u00a0", " ")
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.split("\n")]
    return "\n".join(filter(None, lines))


class Scan:
    """A scan as its files hold it.

    Attributes:
        name: of its folder, SAMPLE-MODEL.
        record: record.json.
        documents: documents of the data set by id.
        outcomes: outcomes of the journals by attack, then by the parts of a trial's id.
    """

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        """Read a scan folder; None: the data set is that of the sample that names the folder."""
        self.folder = folder
        self.name = folder.name
        if data is None:
            data = SAMPLES / folder.name.partition("-")[0] / "data"
        self.data = data
        self.record: dict[str, Any] = json.loads((folder / "record.json").read_text())
        lines = (data / "documents.jsonl").read_text().splitlines()
        self.documents: dict[str, Document] = {row["id"]: row for row in map(json.loads, lines)}
        self.outcomes: dict[str, dict[Key, Outcome]] = {}
        for path in folder.glob("evidence/journal-*.jsonl"):
            rows = map(json.loads, path.read_text().splitlines())
            attack = path.name.removeprefix("journal-").rpartition("-")[0]
            self.outcomes[attack] = {tuple(row["id"].split(JOINT)): row["outcome"] for row in rows}

    @property
    def task(self) -> str:
        """Return the task of the data set."""
        return str(self.record["corpus"]["task"])

    @property
    def page(self) -> str:
        """Return report.html without scripts and styles."""
        text = (self.folder / "report.html").read_text()
        return re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.S)

    @cached_property
    def page_one(self) -> str:
        """Return the lines of page one; see `lines_of`."""
        section = self.page.partition('id="summary"')[2].partition("</section>")[0]
        return lines_of(f"<{section}")

    @cached_property
    def access(self) -> str:
        """Return the lines of the table of access on page two; empty where no attack ran."""
        return lines_of(self.page.partition('<section id="access">')[2].partition("</section>")[0])

    @cached_property
    def scope(self) -> str:
        """Return “Scope and independence” of page two as the PDF has it, on one line."""
        command = ["pdftotext", "-raw", str(self.folder / "report.pdf"), "-"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        text = re.sub(r"\s+", " ", text.replace("\u00a0", " "))
        section = text.partition("Scope and independence ")[2]
        return section.partition("Attackers by access to the model")[0]

    @cached_property
    def limits_table(self) -> list[list[str]]:
        """Return the cells of each row of the table of limits."""
        rows = map(cells_of, lines_of(self.page).split("\n"))
        return [row for row in rows if len(row) >= N_CELLS and row[3].startswith("at ")]

    def of(self, attack: str, split: str) -> Iterator[tuple[Key, Outcome]]:
        """Yield the outcomes of an attack on documents of a split."""
        for key, outcome in self.outcomes.get(attack, {}).items():
            if key[0] in self.documents and self.documents[key[0]]["split"] == split:
                yield key, outcome

    def measured(self, attack: str) -> dict[str, dict[str, Any]]:
        """Return the estimates of an attack in the record, by name; empty where it did not run."""
        for result in self.record["attacks"]:
            if result["attack"] == attack:
                rows = [row for row in result["measurements"] if row["kind"] == "estimate"]
                return {row["name"]: row for row in rows}
        return {}

    def n_documents(self, split: str) -> int:
        """Count the documents of a split, without those that the record counts as left out."""
        corpus = self.record["corpus"]
        n_left_out = corpus["near_copies"].get(split, 0) + corpus["unread"].get(split, 0)
        n_labelled = sum(document["split"] == split for document in self.documents.values())
        return int(n_labelled - n_left_out)

    def entity(self, name: str, entity_id: str) -> dict[str, Any]:
        """Return an entity of a document."""
        rows = [row for row in self.documents[name]["entities"] if row["id"] == entity_id]
        return dict(rows[0])

    @cached_property
    def holders(self) -> Mapping[str, frozenset[str]]:
        """Return the ids of the documents that hold each entity's value, folded.

        A document holds a value as an entity, or as whole words of its page.
        """
        holders: dict[str, set[str]] = defaultdict(set)
        for name, document in self.documents.items():
            for entity in document.get("entities", ()):
                holders[value_of(document, entity)].add(name)
        on_pages = {value for value in holders if len(value) >= SHORTEST_ON_PAGES}
        lengths = sorted({len(value) for value in on_pages})
        for name, document in self.documents.items():
            for value in _runs_of_words(document, lengths) & on_pages:
                holders[value].add(name)
        return {value: frozenset(names) for value, names in holders.items()}

    def is_alone(self, value: str) -> bool:
        """Tell whether a folded value stands in one document only."""
        return len(self.holders.get(value, ())) == 1

    @cached_property
    def answered(self) -> Mapping[str, frozenset[str]]:
        """Return the ids of the documents of training that answer a question so, folded."""
        answered: dict[str, set[str]] = defaultdict(set)
        for name, document in self.documents.items():
            if document["split"] == "member":
                for question in document.get("questions", ()):
                    for answer in question["answers"]:
                        answered[fold(answer)].add(name)
        return {value: frozenset(names) for value, names in answered.items()}

    @cached_property
    def trained(self) -> Mapping[str, frozenset[str]]:
        """Return the ids of the documents of training that hold an answer or a field, folded."""
        trained: dict[str, set[str]] = defaultdict(set)
        for value, answering in self.answered.items():
            trained[value] |= answering
        for name, document in self.documents.items():
            if document["split"] == "member":
                for entity in document.get("entities", ()):
                    trained[value_of(document, entity)].add(name)
        return {value: frozenset(names) for value, names in trained.items()}

    def totals(self) -> dict[str, int]:
        """Count what the documents of training hold.

        These are fields, questions with an answer, values of either, and documents without an
        unseen copy.
        """
        members = [row for row in self.documents.values() if row["split"] == "member"]
        fields = sum(len(row.get("entities", ())) for row in members)
        questions = 0
        unasked = 0
        for row in members:
            asked = row.get("questions", ())
            questions += sum(any(question["answers"]) for question in asked)
            about = {question.get("entity") for question in asked}
            unasked += sum(entity["id"] not in about for entity in row.get("entities", ()))
        values = fields
        if questions:
            values = questions + unasked
        return {
            "fields": fields,
            "values": values,
            "questions": questions,
            "documents": self._n_without_copy(members),
        }

    def _n_without_copy(self, members: list[Document]) -> int:
        """Count the documents of training whose words no unseen document has."""
        unseen = [row for row in self.documents.values() if row["split"] == "heldout"]
        copied = set(map(spelling, unseen))
        return sum(spelling(row) not in copied for row in members)

    def attacked(self) -> dict[str, int]:
        """Count what each attack asked about, of documents of training."""
        counts = {}
        for attack, outcomes in self.outcomes.items():
            if attack not in UNITS:
                continue
            units = set()
            for key, outcome in self.of(attack, "member"):
                if _counts(attack, outcome):
                    units.add(_unit_of(key))
            if outcomes:
                counts[attack] = len(units)
        return counts


UNITS = {
    "reconstruction": "fields",
    "attribute_inference": "values",
    "memorisation": "questions",
    "membership": "documents",
}
"""What each attack tries."""


def _counts(attack: str, outcome: Outcome) -> bool:
    """Tell whether an attack really asked about what a trial is of."""
    if attack == "attribute_inference":
        return outcome["lost"] is None
    if attack == "memorisation":
        return outcome["status"] == "proven" and "exact" in outcome["replies"]
    if attack == "membership":
        return outcome["target"] is not None
    return True


def _unit_of(key: Key) -> Key:
    """Return what a trial is about: a document, a field, a question, or a value without one."""
    has_no_question = key[1:2] == ("",)
    if has_no_question:
        return key[:3]
    return key[:2]


def spelling(document: Document) -> str:
    """Return the words of a document, without case."""
    return " ".join(word["text"] for word in document["words"]).casefold()


def text_of(document: Document, entity: Mapping[str, Any]) -> str:
    """Return the text of an entity."""
    return " ".join(document["words"][index]["text"] for index in entity["words"])


def value_of(document: Document, entity: Mapping[str, Any]) -> str:
    """Return the folded text of an entity."""
    return fold(text_of(document, entity))


def _runs_of_words(document: Document, lengths: list[int]) -> set[str]:
    """Return the consecutive whole words of a page that make texts of these lengths."""
    words = [fold(word["text"]) for word in document["words"]]
    page = "".join(words)
    edges = {0}
    for word in words:
        edges.add(max(edges) + len(word))
    runs = set()
    for start in edges:
        for length in lengths:
            if start + length in edges:
                runs.add(page[start : start + length])
    return runs


def categories(scan: Scan) -> Counter[str]:
    """Count the entities of all documents by category."""
    counted: Counter[str] = Counter()
    for document in scan.documents.values():
        counted.update(entity["category"] for entity in document.get("entities", ()))
    return counted
