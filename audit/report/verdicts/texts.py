"""A verdict as JUnit XML, as Markdown, and as SARIF 2.1.0.

SARIF shows violated and undecided limits beside a file. GitHub refuses a whole file for one result
without a place in the repository, and takes a result that passed for a problem: only open limits
are results, and without any place no file is written.
"""

import hashlib
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from audit import __version__
from audit.attacks import TEXTS, text_of
from audit.errors import RenderError, printable
from audit.policy import Outcome
from audit.report.leaks import headline, notes
from audit.report.verdicts import OPEN, Check, Judged, bound, compared

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""
_MARKS: dict[Outcome, str] = {"violated": "❌", "undecided": "⚠️", "waived": "🟡", "passed": "✅"}
"""Of the outcomes of limits that were examined, the worst first."""


def as_junit(judged: Judged) -> str:
    """Draw a test case for each limit: violated and undecided ones fail, those of a broken attack are errors.

    Open limits without a part in the exit code are skipped, as are waived ones and those that do
    not apply.
    """
    record, checks = judged.record, judged.checks
    broken = {
        one.attack: one.reason.why
        for one in record.attacks
        if one.status == "failed" and one.reason
    }
    root = ET.Element("testsuites", name="docaudit", time=f"{record.timing.seconds:.3f}")
    for name in dict.fromkeys([*(check.attack for check in checks), *broken]):
        suite = ET.SubElement(
            root, "testsuite", name=_replace_illegal(name), timestamp=record.timing.started[:19]
        )
        if judged.place is not None:
            suite.set("file", _replace_illegal(judged.place))
        own = [check for check in checks if check.attack == name]
        for check in own:
            number = "" if check.decision is None else f"\n{compared(check.decision)}"
            _add_case(
                suite,
                check.metric,
                _case_result(check, broken),
                f"{check.outcome}: {check.sentence}{number}",
            )
        if not own:
            said = f"the attack failed ({broken[name]}), and no limit of the policy is about it"
            _add_case(suite, "attack", ("skipped", _error_type(broken[name]), said), said)
        suite.set("tests", str(len(suite)))
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(kind, str(len(suite.findall(f"testcase/{tag}"))))
    for kind in ("tests", "failures", "errors"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case_result(check: Check, broken: dict[str, str]) -> tuple[str, str, str] | None:
    """Return tag, type and message of a test case that did not pass."""
    if check.outcome == "passed":
        return None
    if check.outcome == "undecided" and check.attack in broken:
        return "error", _error_type(broken[check.attack]), check.sentence
    tag, lead = ("failure", "") if check.counts else ("skipped", f"{check.outcome}: ")
    return tag, check.outcome, f"{lead}{check.sentence}"


def _error_type(broken: str) -> str:
    """Return the type of an error that is written as "type at place"."""
    return broken.partition(" at ")[0]


def _add_case(
    suite: ET.Element, title: str, became: tuple[str, str, str] | None, said: str
) -> None:
    name, place = _replace_illegal(title), f"docaudit.{suite.get('name')}"
    case = ET.SubElement(suite, "testcase", classname=place, name=name, time="0")
    if became is not None:
        tag, kind, message = became
        ET.SubElement(case, tag, type=_replace_illegal(kind), message=_replace_illegal(message))
    ET.SubElement(case, "system-out").text = _replace_illegal(said)


def _replace_illegal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)


def as_markdown(judged: Judged) -> str:
    """Draw the verdict, a table of the limits with the worst first, and what qualifies it."""
    # Loads Jinja, which other formats do without.
    from audit.report.templates import render_markdown

    record, verdict = judged.record, judged.verdict
    worst = (
        verdict.text if verdict.text is not None and verdict.exit_code == 10 else verdict.overall
    )
    unexamined: dict[tuple[str, str], list[str]] = {}
    for check in judged.limits:
        if check.outcome not in _MARKS:
            unexamined.setdefault((check.attack, check.sentence), []).append(check.metric)
    listed = [note.text for note in notes(record, verdict)]
    return render_markdown(
        "verdict.md",
        record=record,
        verdict=verdict,
        mark=_MARKS[verdict.overall if verdict.overall == "violated" else worst],
        marks=_MARKS,
        headline=headline(record, verdict),
        examined=[
            check for outcome in _MARKS for check in judged.limits if check.outcome == outcome
        ],
        unexamined=unexamined,
        notes=[(text[: len(text) - len(text.lstrip())], text.lstrip()) for text in listed],
        bound=bound,
    )


SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
FINGERPRINTS = ("docauditLimit/v1", "primaryLocationLineHash")
"""Names of the one fingerprint: ours, and the only one that GitHub matches alerts by."""
# Left out, it is made of the line: every change of a limit would close an alert and open another.
_SEVERITIES = {"error": "8.0", "warning": "5.0"}
"""`security-severity`, which GitHub shows as high and medium: neither is a score of this model's
leak."""


@dataclass(frozen=True)
class _Finding:
    attack: str
    metric: str
    level: str
    message: str

    @property
    def rule(self) -> str:
        return f"docaudit/{self.attack}/{self.metric}"


def as_sarif(judged: Judged) -> str:
    """Draw a result for each violated limit (error) and each undecided one (warning).

    A violated limit without a part in the exit code, as on the documents' own text, is a warning.

    Raises:
        RenderError: there is something to report, and no file of the repository to report it at.
    """
    findings = [
        _sarif_finding(check, judged.verdict.policy)
        for check in judged.checks
        if check.outcome in OPEN
    ]
    if findings and judged.place is None:
        raise RenderError(
            "no SARIF was written: the repository holds neither the policy nor --data nor a README, and code "
            "scanning needs one",
            "commit the policy, or give --data DATA_DIR",
        )
    data = printable(judged.record.corpus.name)
    rules = [_sarif_rule(one) for one in {one.rule: one for one in findings}.values()]
    run = {
        "tool": {"driver": {"name": "docaudit", "version": __version__, "rules": rules}},
        "automationDetails": {"id": f"docaudit/{re.sub(r'[^A-Za-z0-9._-]+', '-', data)}/"},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(one, data, judged.place or "") for one in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _sarif_finding(check: Check, policy: str) -> _Finding:
    level = "error" if check.outcome == "violated" and check.counts else "warning"
    message = f"{check.outcome.capitalize()}: {check.sentence}."
    if check.decision is not None:
        # The reason of a violation may name the owner of a waiver that has ended; a finding names
        # nobody.
        why = (
            "the leak above the limit is confirmed"
            if check.outcome == "violated"
            else check.sentence
        )
        label = _metric_label(check.attack, check.metric)
        message = f"{check.outcome.capitalize()}: {label}: {compared(check.decision)} of policy {policy}; {why}."
    return _Finding(check.attack, check.metric, level, message)


def _metric_label(attack: str, metric: str) -> str:
    report = TEXTS.get(attack)
    return metric if report is None else report.label(metric)


def _sarif_rule(finding: _Finding) -> dict[str, Any]:
    question, page, label = text_of(finding.attack).question, "policies.md", "The verdict"
    if finding.attack in TEXTS:
        page, label = (
            f"reference/metrics.md#{finding.attack}",
            _metric_label(finding.attack, finding.metric),
        )
    return {
        "id": finding.rule,
        "shortDescription": {"text": label},
        "fullDescription": {"text": question},
        "help": {"text": f"{question} See docs/{page} of docaudit."},
        "defaultConfiguration": {"level": finding.level},
        "properties": {
            "tags": ["security", "privacy"],
            "security-severity": _SEVERITIES[finding.level],
        },
    }


def _sarif_result(finding: _Finding, data: str, place: str) -> dict[str, Any]:
    # Without a number: the finding stays the same one while its value, its limit and its line
    # change.
    same = hashlib.sha256("\0".join((finding.attack, finding.metric, data)).encode()).hexdigest()
    where = {
        "artifactLocation": {"uri": quote(place), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 1},
    }
    return {
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": _escape_sarif(finding.message)},
        "locations": [{"physicalLocation": where}],
        "partialFingerprints": dict.fromkeys(FINGERPRINTS, same),
    }


def _escape_sarif(text: str) -> str:
    """Escape brackets and braces, which SARIF reads as links and placeholders."""
    return re.sub(r"([\\\[\]])", r"\\\1", printable(text)).replace("{", "{{").replace("}", "}}")
