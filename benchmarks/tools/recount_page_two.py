"""Account for every number on page two of a report, and for people on its tab of leaks."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterator, Sequence

from benchmarks.tools.recount_attacks import Reached
from benchmarks.tools.recount_claims import Expected, Number, Sheet, agreement, numbers_in
from benchmarks.tools.recount_page_one import HASH
from benchmarks.tools.recount_people import Reach, people_reached
from benchmarks.tools.recount_report import (
    Report,
    best_people,
    expected_share,
    expected_value,
    texts_of_attacks,
)
from benchmarks.tools.recount_scan import Scan, cells_of, lines_of

SPLITS = {"training": "member", "unseen": "heldout", "public": "public"}
"""Splits by the words of the scope."""
SIDES = {"People of training documents": "member", "Of unseen documents": "heldout"}
"""Splits by the words of sentences on people."""
COLUMNS = {"Internal": 1, "Hosted": 3, "Shared": 1}
"""Columns of the table of access by the way to release a model."""
SLACK_OF_SHARES = 2.0
"""Points by which the share of trials may differ: a stratum is drawn in whole trials."""


def page_two(report: Report) -> list[Number]:
    """Account for the numbers of page two, and of people."""
    return [*_scope(report), *_access(report), *people(report)]


def _scope(report: Report) -> list[Number]:
    """Account for the numbers of “Scope and independence”."""
    scan = report.scan
    sheet = Sheet("page 2, scope", scan.scope)
    for word, split in SPLITS.items():
        expected = [Expected(scan.n_documents(split))]
        sheet.compare_pattern(rf"[\d,]+ {word}(?=[,;])", "documents of the data set", expected)
    _account_for_time(scan, sheet)
    _account_for_documents_used(scan, sheet)
    _account_for_budget(scan, sheet)
    policy = hashlib.sha256(scan.record["policy"]["toml"].encode()).hexdigest()
    sheet.leave(r"“[^”\n]*”", "words of the owner", "name")
    sheet.leave(policy, "SHA-256 of the policy in the record, recomputed", "name")
    _account_for_accuracy(scan, sheet)
    sheet.leave(r"(?<=Model model: ).*?(?= Data set)", "architecture and fingerprint", "name")
    sheet.leave(HASH, "fingerprint", "name")
    sheet.leave(r"seed \d+", "seed of the scan", "name")
    sheet.leave(r"Software docaudit .* record schema \d+", "versions of software", "name")
    return sheet.close()


def _account_for_time(scan: Scan, sheet: Sheet) -> None:
    """Account for the time that the scan took."""
    timing = scan.record["timing"]
    moments = [dt.datetime.fromisoformat(timing[name]) for name in ("started", "finished")]
    seconds = (moments[1] - moments[0]).total_seconds()
    moment = r"\d+ \w+ \d+, \d+:\d+ UTC"
    sheet.leave(rf"Period {moment} to {moment}", "first and last moment", "name")
    spans = (r"\((\d+) h (\d+) min\)", r"\((\d+) min (\d+) s\)", r"\(([\d.]+) s\)")
    for pattern, units in zip(spans, ((3600, 60), (60, 1), (1,)), strict=True):
        match = re.search(pattern, sheet.text)
        if match is None:
            continue
        printed = sum(float(n) * unit for n, unit in zip(match.groups(), units, strict=True))
        expected = [Expected(seconds)]
        if abs(printed - seconds) <= units[-1]:
            expected = [Expected(float(number)) for number in match.groups()]
        definition = f"time between the first and the last moment, {seconds:.0f} s"
        sheet.compare(match.start(), match.end(), definition, expected)


def _account_for_documents_used(scan: Scan, sheet: Sheet) -> None:
    """Account for the documents that attacks used of those declared."""
    for attack, text in texts_of_attacks().items():
        counts = []
        n_left = 0
        for split in ("member", "heldout"):
            n_used = len({key[0] for key, _ in scan.of(attack, split)})
            n_all = scan.n_documents(split)
            counts += [Expected(n_used), Expected(n_all)]
            n_left += n_all - n_used
        used = (
            rf"{re.escape(text['title'])}: used [\d,]+ of [\d,]+ [^(.\d]*[\d,]+ of [\d,]+ [^(.\d]*"
        )
        left = re.search(rf"{used}\(([\d,]+ left out: [^;()]*)\)", sheet.text)
        sheet.compare_pattern(used, "documents in the journal, of all, by split", counts, attack)
        if left is not None:
            definition = "documents of both splits that are not in the journal"
            sheet.compare(left.start(1), left.end(1), definition, [Expected(n_left)], attack)


def _account_for_budget(scan: Scan, sheet: Sheet) -> None:
    """Account for the share of trials that a budget took."""
    shares = [*tried_shares(scan).values()] or [100.0]
    ends = sorted({round(min(shares)), round(max(shares))})
    expected = [Expected(share, SLACK_OF_SHARES) for share in ends]
    definition = "least and largest share of trials in a journal, of those that can be tried"
    pattern = r"[\d.]+ %(?: to [\d.]+ %)? of the trials of a full scan"
    if set(scan.outcomes) - set(_totals(scan)) - {"membership", "redaction"}:
        # The data set does not say of how many values an attack makes lists.
        sheet.leave(pattern, definition, "not in the journal", "tried")
        return
    sheet.compare_pattern(pattern, definition, expected)


def tried_shares(scan: Scan) -> dict[str, float]:
    """Return by attack how many per cent of what can be tried its journal holds.

    What an attack leaves out for a reason, as its record counts it, cannot be tried.
    """
    totals = _totals(scan)
    shares = {}
    for attack, outcomes in scan.outcomes.items():
        tried = {key[:2] for key in outcomes if key[1:2] != ("",)}
        shares[attack] = 100.0
        if attack in totals:
            n_possible = totals[attack] - _n_left_out(scan, attack)
            shares[attack] = 100 * len(tried) / max(1, n_possible)
    return shares


def _totals(scan: Scan) -> dict[str, int]:
    """Return by attack how much both sides hold of what it tries."""
    totals = {"reconstruction": 0, "memorisation": 0}
    for document in scan.documents.values():
        if document["split"] == "public":
            continue
        totals["reconstruction"] += len(document.get("entities", ()))
        answered = [asked for asked in document.get("questions", ()) if any(asked["answers"])]
        totals["memorisation"] += len(answered)
    path = scan.data / "canaries.json"
    if path.exists():
        totals["canaries"] = len(json.loads(path.read_text())["canaries"])
    return totals


def _n_left_out(scan: Scan, attack: str) -> int:
    """Count what an attack left out for a reason, as its record says."""
    n_left_out = 0
    for row in scan.record["attacks"]:
        for count in row["counts"]:
            if row["attack"] == attack and count["name"].startswith("left out"):
                n_left_out += count["value"]
    return n_left_out


def _account_for_accuracy(scan: Scan, sheet: Sheet) -> None:
    """Account for the model's accuracy: of the journal, only how much was asked follows."""
    unseen = [row for row in scan.documents.values() if row["split"] == "heldout"]
    n_questions = 0
    n_entities = 0
    for document in unseen:
        n_questions += sum(any(asked["answers"]) for asked in document.get("questions", ()))
        n_entities += sum(entity["label"] != "O" for entity in document.get("entities", ()))
    totals = {"ANLS": n_questions}
    if scan.record["target"]["task"] != "intent-slots":
        # Slots are counted on a part of the unseen utterances, which no file names.
        totals["F1"] = n_entities
    for word, total in totals.items():
        for match in re.finditer(rf"\({word}\): [^;]*; (n = [\d,]+)", sheet.text):
            definition = "questions or values of unseen documents that the model was asked about"
            sheet.compare(match.start(1), match.end(1), definition, [Expected(total)], word)
    definition = "share of right answers on unseen documents, by another way than the attacks'"
    pattern = r"(?<=Model accuracy on unseen documents\. )[^;]*?; n = [\d,x]+"
    sheet.leave(pattern, definition, "not in the journal", "accuracy")


def _access(report: Report) -> list[Number]:
    """Account for the numbers of the table of access."""
    sheet = Sheet("page 2, access", report.scan.access)
    questions = {table["short_question"]: name for name, table in texts_of_attacks().items()}
    for line in re.finditer(r"^.+$", sheet.text, re.M):
        attack = questions.get(cells_of(line[0])[0])
        if attack is not None:
            _account_for_access(report, sheet, line, attack)
    _account_for_exceeded(report, sheet)
    for match in re.finditer(r"and (\d+) more", sheet.text):
        beginning = sheet.text[: match.start()].rpartition("\n")[2]
        expected = [Expected(n) for n in _n_unnamed(report, sheet.text, beginning)]
        definition = "attacks not tested with this access, less those that are named"
        sheet.compare(match.start(), match.end(), definition, expected)
    return sheet.close()


def _account_for_access(report: Report, sheet: Sheet, line: re.Match[str], attack: str) -> None:
    """Account for the numbers of an attack's row, by the way of choosing that page one shows."""
    ways = [row.reached for row in report.rows if row.attack == attack and row.reached is not None]
    ways += report.ways[attack]
    for cell in re.finditer(r"(?<=\|)[^|]+", line[0]):
        if not any(numbers_in(cell[0])) or not ways:
            continue
        start = line.start() + cell.start()
        place = f"row “{cells_of(line[0])[0]}”"
        if "guesses" in cell[0]:
            definition = "share on the same training documents without the model"
            expected = _guessed_share(cell[0], ways)
            sheet.compare(start, start + len(cell[0]), definition, expected, place)
            continue
        fitting = [way for way in ways if agreement(cell[0], [expected_value(way)]) != "unequal"]
        way = [*fitting, *ways][0]
        definition = f"{way.definition}; chosen by {way.way}"
        sheet.compare(start, start + len(cell[0]), definition, [expected_value(way)], place)


def _guessed_share(text: str, ways: Sequence[Reached]) -> list[Expected]:
    """Return the share without the model by the way that agrees with a text; else by the first."""
    guesses = [expected_share(way.without)[-1:] for way in ways if way.without is not None]
    fitting = [expected for expected in guesses if agreement(text, expected) != "unequal"]
    return [*fitting, *guesses, []][0]


def _account_for_exceeded(report: Report, sheet: Sheet) -> None:
    """Account for the number of limits that the attackers of each release exceed.

    Whoever has the file can do all that was shown, but for what copies show without the model.
    """
    shown = _shown_by_release(sheet)
    definition = "exceeded limits of the attacks that were shown with answers alone"
    n_hosted = _n_exceeded(report, shown["Hosted"])
    sheet.compare_pattern(r"\d+ exceeded limits stay", definition, [Expected(n_hosted)])
    for match in re.finditer(r"(\d+) limits are exceeded by that", sheet.text):
        beginning = sheet.text[: match.start()].rpartition("\n")[2]
        release = cells_of(beginning)[0]
        definition = "exceeded limits of the attacks that were shown with this access"
        n_exceeded = _n_exceeded(report, shown[release])
        sheet.compare(match.start(), match.end(), definition, [Expected(n_exceeded)], release)


def _n_exceeded(report: Report, attacks: set[str]) -> int:
    """Count the exceeded limits on some attacks."""
    count = 0
    for outcome in report.outcomes:
        count += outcome.word == "Exceeded" and outcome.limit["attack"] in attacks
    return count


def _shown_by_release(sheet: Sheet) -> dict[str, set[str]]:
    """Return the attacks whose leak is shown by release, without those that copies show."""
    questions = {table["short_question"]: name for name, table in texts_of_attacks().items()}
    rows = [cells_of(line) for line in sheet.text.split("\n")]
    asked = [row for row in rows if row[0] in questions and not row[4].startswith("Shown")]
    shown = {}
    for release, column in COLUMNS.items():
        shown[release] = {questions[row[0]] for row in asked if row[column].startswith("Shown")}
    return shown


def _n_unnamed(report: Report, text: str, line: str) -> Iterator[int]:
    """Yield how many attacks a line leaves unnamed of those that nobody tried with its access."""
    column = COLUMNS[cells_of(line)[0]]
    questions = {table["short_question"] for table in texts_of_attacks().values()}
    n_untested = len(report.not_run())
    for row in map(cells_of, text.split("\n")):
        n_untested += row[0] in questions and row[column] == "Not tested"
    n_named = line.rpartition("Not tested: ")[2].count("; ")
    yield n_untested - n_named


def people(report: Report) -> Iterator[Number]:
    """Account for the people whom attacks reached, on the tab of leaks."""
    section = report.scan.page.partition('<section id="where">')[2].partition("</section>")[0]
    titles = {table["title"]: name for name, table in texts_of_attacks().items()}
    attack = ""
    for line in lines_of(section).split("\n"):
        attack = titles.get(line, attack)
        if line.startswith("People of training documents"):
            reached = people_reached(report.scan, attack)
            yield from _people_of_line(line.replace("95 % CI", "CI"), attack, reached)


def _people_of_line(
    line: str, attack: str, reached: dict[str, dict[str, Reach]]
) -> Iterator[Number]:
    """Yield the numbers of a sentence on people."""
    sheet = Sheet("leaks, people", line)
    for words, split in SIDES.items():
        match = re.search(rf"{words}[^:.]*: ([\d,]+ of [\d,]+ \(CI [^)]*\))", line)
        if match is None:
            continue
        sides = [side[split] for side in reached.values() if split in side]
        expected = best_people(match[1], sides, with_interval=True)
        definition = f"people of {split} documents alone whom the attack reached, with the interval"
        sheet.compare(match.start(1), match.end(1), definition, expected, attack)
    yield from sheet.close()
