"""Account for every number on page one of a report."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

from benchmarks.tools.recount_attacks import Found, Reached, asked_of, values_found
from benchmarks.tools.recount_claims import Expected, Number, Sheet, agreement, numbers_in
from benchmarks.tools.recount_limits import Outcome
from benchmarks.tools.recount_people import people_reached
from benchmarks.tools.recount_report import (
    AREAS,
    LIMIT,
    REACHED,
    ROOT,
    TRAINED,
    UNSEEN,
    WITHOUT,
    Report,
    Row,
    best_people,
    expected_counts,
    expected_value,
    labels,
    pattern_of,
    scale_of,
    texts_of_attacks,
)
from benchmarks.tools.recount_scan import UNITS, Scan, value_of

KINDS = {
    "People": "person",
    "Organisations": "organization",
    "Addresses and places": "location",
    "Dates and times": "datetime",
    "Amounts of money": "amount",
    "Numbers and codes": "code",
    "Contact details": "contact",
}
"""Categories of values by the words of page one."""
GIVE_VALUES_BACK = ("reconstruction", "memorisation")
OUTCOMES = {
    "exceeded": "Exceeded",
    "undecided": "Undecided",
    "met": "Met",
    "not tested": "Not tested",
    "not applicable": "Not applicable",
}
HASH = r"\b[0-9a-f]{16,64}\b"
ROUNDING = 1e-9
WEIGHTS = 0.02
"""Share of all values by which an estimate may move where values are weighed by their chance to be
tried; here they are not."""


def page_one(report: Report) -> list[Number]:
    """Account for the numbers of page one."""
    sheet = Sheet("page 1", report.scan.page_one)
    for row in report.rows:
        _account_for_row(report, sheet, row)
        _account_for_sentences(sheet, row)
    _account_for_certainty(report, sheet)
    _account_for_kinds(report, sheet)
    _account_for_limits(report, sheet)
    _account_for_rows_with_less(report, sheet)
    _account_for_recipients(report, sheet)
    _account_for_actions(sheet)
    _account_for_documents(report, sheet)
    _leave_names(sheet)
    return sheet.close()


def _account_for_row(report: Report, sheet: Sheet, row: Row) -> None:
    """Account for the numbers of the row of an attack."""
    name = f"row “{texts_of_attacks()[row.attack]['short_question']}”"
    _account_for_trials(report.scan, sheet, row, name)
    if row.attack == "redaction" and "leak:" in row.cells[REACHED]:
        _account_for_gain(report, sheet, row, name)
        return
    way = row.reached
    if way is None:
        return
    definitions = {
        TRAINED: "found on training documents, of those tried",
        UNSEEN: "found on unseen documents, of those tried",
        WITHOUT: "found on training documents without the model, of those tried",
        REACHED: f"{way.definition}; chosen by {way.way}; with its 95 % interval",
        LIMIT: f"limit of the policy on {way.metric}; limits with this outcome, of all",
    }
    if way.metric in AREAS:
        definitions[TRAINED] = way.definition
        definitions[WITHOUT] = "right pairs of somebody who guesses"
    for place, expected in report.expected_cells(row.attack, way).items():
        start, end = row.place(place)
        if any(numbers_in(row.cells[place])):
            sheet.compare(start, end, definitions[place], expected, name)


def _account_for_gain(report: Report, sheet: Sheet, row: Row, name: str) -> None:
    """Account for the row of what the model adds to the text of redacted copies."""
    definition = "kinds recognised with the model, less those without it: two classifiers, not kept"
    sheet.leave(re.escape(row.cells[REACHED].strip()), definition, "not in the journal", name)
    outcome = report.limit(row.attack, "target_gain")
    if outcome is not None:
        expected = [Expected(outcome.limit["max"] * scale_of("target_gain"))]
        sheet.compare(*row.place(LIMIT), "limit of the policy on target_gain", expected, name)


def _account_for_trials(scan: Scan, sheet: Sheet, row: Row, name: str) -> None:
    """Account for what an attack tried, of what the documents of training hold."""
    tried = re.search(r"tried: .*", row.cells[0])
    if tried is None or row.attack not in UNITS:
        return
    unit = UNITS[row.attack]
    n_attacked = scan.attacked()[row.attack]
    n_total = scan.totals()[unit]
    expected = [Expected(n_total)]
    if n_attacked != n_total:
        expected.insert(0, Expected(n_attacked))
    if (
        tried[0].rstrip().endswith(" count")
        and row.reached is not None
        and row.reached.trained is not None
    ):
        expected.append(expected_counts(row.reached.trained)[1])
    definition = f"{unit} of training documents: tried, in all, counted in the row"
    start = row.start + tried.start()
    sheet.compare(start, row.start + tried.end(), definition, expected, name)


def _account_for_sentences(sheet: Sheet, row: Row) -> None:
    """Account for the sentences on what an attack reached."""
    way = row.reached
    if way is None:
        return
    texts = texts_of_attacks()[row.attack]
    counts: dict[str, list[Expected]] = {"of_pairs": [expected_value(way), Expected(50.0)]}
    if way.trained is not None:
        counts["headline"] = expected_counts(way.trained)
        counts["consequence"] = expected_counts(way.trained)
    if way.unseen is not None and "heldout" in texts["consequence"]:
        counts["consequence"] = [*counts["consequence"], *expected_counts(way.unseen)]
    for name, expected in counts.items():
        if name in texts:
            pattern = pattern_of(texts[name])
            sheet.compare_pattern(pattern, "as in the row of the attack", expected)
    if "headline" in texts and re.search(pattern_of(texts["headline"]), sheet.text):
        _account_for_memory(sheet, row)


def _account_for_memory(sheet: Sheet, row: Row) -> None:
    """Account for what the attack of the first sentence reaches without a memory."""
    way = row.reached
    if way is None or way.unseen is None:
        return
    words = labels()["memory"]
    pattern = pattern_of(words["unseen"].partition("{without}")[0])
    expected = expected_counts(way.unseen)
    if way.without is not None:
        pattern = f"{pattern}(?:{pattern_of(words['without'])})?"
        if re.search(pattern_of(words["without"]), sheet.text):
            expected += expected_counts(way.without)
    definition = "found on unseen documents, and without the model on training documents"
    sheet.compare_pattern(pattern, definition, expected)


def _account_for_certainty(report: Report, sheet: Sheet) -> None:
    """Account for the lower end of the interval of the leak that the first sentence is about."""
    exceeded = [row for row in report.rows if row.cells[LIMIT].strip().startswith("Exceeded")]
    counted = []
    for row in exceeded:
        headline = texts_of_attacks()[row.attack].get("headline")
        if headline and re.search(pattern_of(headline), sheet.text):
            counted.append(row)
    for row in [*counted, *exceeded][:1]:
        way = row.reached
        if way is None:
            return
        cells = report.expected_cells(row.attack, way)
        expected = [Expected(95.0), cells[REACHED][1], cells[LIMIT][0]]
        pattern = r"lower end of the 95 % interval is [\d.,]+ (?:points|%), and the limit [\d.,]+"
        definition = f"{way.definition}; lower end of its interval, and its limit"
        sheet.compare_pattern(pattern, definition, expected)


class Recount(NamedTuple):
    """Values of training documents that a way of choosing restored, and those that it tried."""

    hits: Counter[str]
    tried: Counter[str]
    documents: set[str]
    tried_documents: set[str]

    @property
    def totals(self) -> tuple[int, int, int]:
        """Return values restored, documents that gave one back, and documents that were tried."""
        return self.hits.total(), len(self.documents), len(self.tried_documents)


def recount_kinds(scan: Scan, attack: str, way: str) -> Recount:
    """Count by kind what came back, from the journal.

    Args:
        scan: the scan.
        attack: one that gives values back.
        way: end of the names of a way of choosing; empty: the first one.
    """
    recount = Recount(Counter(), Counter(), set(), set())
    for value in values_found(scan, attack).get(way, []):
        if value.split != "member" or not value.counted:
            continue
        kind = _kind_of(scan, value)
        recount.tried[kind] += 1
        recount.tried_documents.add(value.key[0])
        if value.hit > 0:
            recount.hits[kind] += 1
            recount.documents.add(value.key[0])
    return recount


def _kind_of(scan: Scan, value: Found) -> str:
    """Return the category of a value; "other" where it has none."""
    _, question, entity = asked_of(scan, value.key)
    if entity is not None:
        return str(entity["category"])
    if question is not None and question.get("category"):
        return str(question["category"])
    return "other"


def _account_for_kinds(report: Report, sheet: Sheet) -> None:
    """Account for the kinds of values that came back, by the first attack that gives any back."""
    for row in report.rows:
        if row.attack not in GIVE_VALUES_BACK or row.reached is None:
            continue
        ways = [row.reached.way if row.reached.way.startswith(".") else ""]
        recount = recount_kinds(report.scan, row.attack, ways[0])
        _account_for_listed_kinds(sheet, recount)
        _account_for_sum(report.scan, sheet, recount)
        _account_for_worst_kind(report.scan, sheet, row, recount)
        return


def listed_kinds(text: str) -> dict[str, re.Match[str]]:
    """Return the lines of page one that list a kind of values, by category."""
    lines = re.finditer(r"^([A-Z][a-z ]+) \| [\d,]+ of [\d,]+ .*$", text, re.M)
    return {KINDS.get(line[1], line[1]): line for line in lines}


def _account_for_listed_kinds(sheet: Sheet, recount: Recount) -> None:
    """Account for the lines of kinds; the last one may sum up all others."""
    listed = listed_kinds(sheet.text)
    for kind, line in listed.items():
        kinds = [kind]
        if kind == "Other kinds":
            kinds = [name for name, n in recount.hits.items() if n and name not in listed]
        hits = sum(recount.hits[name] for name in kinds)
        tried = sum(recount.tried[name] for name in kinds)
        expected = [Expected(hits), Expected(tried), Expected(100 * hits / max(tried, 1))]
        definition = "values of this kind that came back, of those tried"
        sheet.compare(line.start(), line.end(), definition, expected, f"kind “{line[1]}”")


def _account_for_sum(scan: Scan, sheet: Sheet, recount: Recount) -> None:
    """Account for the sum of the kinds, and the documents on which they stand."""
    words = labels()["kinds"]
    expected = [Expected(number) for number in recount.totals]
    definition = "values that came back, documents that gave one back, documents that were tried"
    sheet.compare_pattern(pattern_of(words["documents"]), definition, expected)
    sheet.compare_pattern(pattern_of(words["sum"]), "values that came back", expected[:1])
    n_all = n_values_alone(scan)
    share = recount.hits.total() / max(1, recount.tried.total())
    scaled = Expected(share * n_all, slack=WEIGHTS * n_all)
    definition = (
        "values of training documents in one document only, and the share that came back of it"
    )
    pattern = r"that makes about [\d,]+ of [\d,]+ such values"
    sheet.compare_pattern(pattern, definition, [scaled, Expected(n_all)])


def n_values_alone(scan: Scan) -> int:
    """Count the distinct values of documents of training that stand in one document only."""
    alone: set[tuple[str, str]] = set()
    for name, document in scan.documents.items():
        if document["split"] == "member":
            values = {value_of(document, entity) for entity in document.get("entities", ())}
            alone.update((name, value) for value in values if scan.is_alone(value))
    return len(alone)


WORST_KIND = (
    r"^Worst kind( with \d+ values or more)?: ([^,]+), [\d,]+ of [\d,]+ (?:values )?came back"
)
PEOPLE = r"at least [\d,]+ of [\d,]+ (?:declared people|names of people)"


def _account_for_worst_kind(scan: Scan, sheet: Sheet, row: Row, recount: Recount) -> None:
    """Account for the kind of which the largest share came back, and for people."""
    match = re.search(WORST_KIND, sheet.text, re.M)
    if match is None:
        return
    kind = KINDS.get(f"{match[2][:1].upper()}{match[2][1:]}", "")
    expected = [Expected(recount.hits[kind]), Expected(recount.tried[kind])]
    definition = "values of this kind that came back, of those tried"
    sheet.compare(match.start(2), match.end(), definition, expected)
    sheet.leave(r"with \d+ values or more", "fewest values of a kind that is compared", "constant")
    _account_for_other_kind(sheet, kind, recount)
    people = re.search(PEOPLE, sheet.text, re.I)
    if people is None:
        return
    reached = people_reached(scan, row.attack).values()
    sides = [side["member"] for side in reached if "member" in side]
    expected = best_people(people[0], sides, with_interval=False)
    definition = "people whom documents of training alone name, with at least one value back"
    sheet.compare(people.start(), people.end(), definition, expected)


def _account_for_other_kind(sheet: Sheet, worst: str, recount: Recount) -> None:
    """Account for the values of the one other kind, where page one names it beside the worst."""
    others = [kind for kind in recount.tried if kind != worst]
    if len(others) != 1:
        return
    expected = [Expected(recount.hits[others[0]]), Expected(recount.tried[others[0]])]
    definition = "values of the other kind that came back, of those tried"
    sheet.compare_pattern(r"other kinds, [\d,]+ of [\d,]+", definition, expected)


def _account_for_limits(report: Report, sheet: Sheet) -> None:
    """Account for the counts of limits by outcome, and of attacks that were not tested."""
    names = "|".join(OUTCOMES)
    pattern = rf"(\d+) of (\d+) limits ({names})((?:, \d+ (?:{names}))*)"
    for match in re.finditer(pattern, sheet.text):
        line = sheet.text[: match.start()].rpartition("\n")[2]
        is_text = line.endswith("Redacted copies, read without the model: ")
        of_side = [row for row in report.outcomes if row.about_text == is_text]
        counted = Counter(row.word for row in of_side)
        listed = re.findall(rf"\d+ ({names})", match[4])
        expected = [Expected(counted[OUTCOMES[match[3]]]), Expected(len(of_side))]
        expected += [Expected(counted[OUTCOMES[name]]) for name in listed]
        definition = "limits of the policy by what became of them"
        sheet.compare(match.start(), match.end(), definition, expected)
    not_run = report.not_run()
    unrun = _limits_on(report, not_run)
    definition = "limits that apply, on the attacks that are named as not tested"
    pattern = r"(?<=\()\d+ limits(?=[^()]*\)\. The next pages)"
    sheet.compare_pattern(pattern, definition, [Expected(len(unrun))])
    words = Counter(row.word for row in unrun)
    definition = "of these, limits that count as undecided"
    sheet.compare_pattern(r"\d+ of them undecided", definition, [Expected(words["Undecided"])])
    n_untested = sum(row.word == "Not tested" for row in report.outcomes)
    definition = "other limits of the policy that were not tested, of attacks that ran"
    expected = [Expected(n_untested - words["Not tested"])]
    sheet.compare_pattern(r"and \d+ more of attacks that ran", definition, expected)
    definition = "attacks that apply to the model and did not run"
    sheet.compare_pattern(r"run the \d+ attacks? not tested", definition, [Expected(len(not_run))])


def _limits_on(report: Report, attacks: Collection[str]) -> list[Outcome]:
    """Return the limits on some attacks that apply to the model."""
    return [
        row
        for row in report.outcomes
        if row.limit["attack"] in attacks and row.word != "Not applicable"
    ]


def _account_for_rows_with_less(report: Report, sheet: Sheet) -> None:
    """Account for the rows by what their leak leaves out of the share on training documents."""
    rows: dict[str, list[Expected]] = {}
    for number, row in enumerate(report.rows, start=1):
        way = row.reached
        if way is not None and way.trained is not None and way.unseen is not None:
            rows.setdefault(_subtracted(way), []).append(Expected(number))
    for clause, expected in rows.items():
        definition = f"rows whose leak is the share on training documents, {clause}"
        sheet.compare_pattern(rf"in rows? [\d, and]+ {clause}(?! and)", definition, expected)


def _subtracted(way: Reached) -> str:
    """Return the clause for what a leak leaves out of the share on training documents."""
    clauses = {
        "less that on unseen ones": way.unseen,
        "less that without this model": way.without,
    }
    assert way.trained is not None
    for clause, share in clauses.items():
        if share is not None and abs(way.value - way.trained.share + share.share) <= ROUNDING:
            return clause
    return "less that on unseen ones and what an attacker gains without this model"


def _account_for_recipients(report: Report, sheet: Sheet) -> None:
    """Account for the exceeded limits that need no more than the owner's release gives.

    Page two says how many; there they are recomputed.
    """
    hosted = re.search(
        r"^Hosted \|.*?(\d+|One) limits? (?:is|are) exceeded", report.scan.access, re.M
    )
    if hosted is None:
        return
    n_hosted = 1 if hosted[1] == "One" else int(hosted[1])
    n_exceeded = sum(outcome.word == "Exceeded" for outcome in report.outcomes)
    if n_exceeded == 1:
        # The page says "the exceeded limit", without a number.
        return
    definition = "exceeded limits with answers alone, and all exceeded limits"
    expected = [Expected(n_hosted), Expected(n_exceeded)]
    sheet.compare_pattern(r"\d+ of the \d+ exceeded limits", definition, expected)


def _account_for_actions(sheet: Sheet) -> None:
    """Account for what countermeasures changed on other models, as their file says."""
    shipped = tomllib.loads((ROOT / "policies" / "defenses.toml").read_text())
    for remedy in shipped["defenses"]:
        name = re.escape(remedy["name"])
        match = re.search(rf"{name}\. (Measured on another model: [^;\n]*)", sheet.text)
        if match is None:
            continue
        changes = [_relative_changes(evidence) for evidence in remedy.get("evidence", ())]
        fitting = [row for row in changes if agreement(match[1], row) == "equal"]
        expected = [*fitting, *changes, []][0]
        definition = "relative changes of leak and usefulness in policies/defenses.toml"
        sheet.compare(match.start(1), match.end(1), definition, expected, "what to do")


def _relative_changes(evidence: dict[str, Any]) -> list[Expected]:
    """Return by how many per cent the leak and then the first usefulness fell.

    Where the file counts the attacker's failures, the leak is the rest.
    """
    leak = evidence
    if evidence.get("of_failures"):
        leak = {"before": 1 - evidence["before"], "after": 1 - evidence["after"]}
    changes = [Expected(min(100.0, 100 * (leak["before"] - leak["after"]) / leak["before"]))]
    # Page one prints no number of a rise.
    falls = [use for use in evidence.get("useful", ())[:1] if use["after"] <= use["before"]]
    changes += [Expected(100 * (use["before"] - use["after"]) / use["before"]) for use in falls]
    return changes


def _account_for_documents(report: Report, sheet: Sheet) -> None:
    """Account for documents that the owner declared, and for attacks without a row."""
    scan = report.scan
    sides = [Expected(scan.n_documents(split)) for split in ("member", "heldout")]
    pattern = r"declared [\d,]+ training documents and [\d,]+ unseen documents"
    sheet.compare_pattern(pattern, "documents of the data set by split", sides)
    n_ran = sum(row["status"] == "completed" for row in scan.record["attacks"])
    left = [Expected(n_ran - len(report.rows))]
    pattern = r"\d+ more attacks? (?:is|are) on"
    sheet.compare_pattern(pattern, "attacks that ran and have no row", left)


def _leave_names(sheet: Sheet) -> None:
    """Account for constants and names."""
    sheet.leave(r"95 % interval", "level of all intervals", "constant")
    sheet.leave(r"Attacker: [^.]*\. Rows? [^.]*\.", "rows by the access they need", "name")
    sheet.leave(r"letters counts in row \d", "row that counts values nearly right", "name")
    sheet.leave(r"guessing: 50 %", "right pairs of a guess", "constant")
    sheet.leave(r"At most 5 % of such audits", "level of Holm's rule over all limits", "constant")
    sheet.leave(r"Privacy audit DA-\S+ · \d+ \w+ \d+", "number and day of the report", "name")
    sheet.leave(HASH, "fingerprint", "name")
    sheet.leave(r"\(SHA-256 [0-9a-f]+\)", "fingerprint of the declared policy", "name")
    definition = "leaks that no limit is on, by the bounds of the record"
    pattern = r"\d+ (?:measured findings? lies? outside|leaks? that no limit covers)"
    sheet.leave(pattern, definition, "not in the journal", "outside the policy")
    sheet.leave(r"“[^”\n]*”", "words of the owner, or the policy's name", "name")
