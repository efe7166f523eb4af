"""A verdict as JUnit XML and as SARIF 2.1.0.

SARIF shows violated and undecided limits beside a file, and waived ones as suppressed. GitHub
refuses a whole file for one result without a place in the repository, and takes a result that
passed for a problem: no other limits are results, and without any place no file is written.
"""

import hashlib
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from audit import __version__
from audit.attacks import TEXTS, text_of
from audit.errors import RenderError, printable
from audit.policy import Outcome, Waiver
from audit.record import AuditRecord
from audit.report.verdicts import OPEN, Check, Judged, compared

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


class CaseResult(NamedTuple):
    """Why a test case did not pass: the tag, type and message that it gets."""

    tag: str
    kind: str
    message: str


def as_junit(judged: Judged) -> str:
    """Draw a test case for each limit.

    Violated and undecided ones fail, those of a broken attack are errors. Open limits without a
    part in the exit code are skipped, as are waived ones and those that do not apply.
    """
    record = judged.record
    checks = judged.checks
    broken = _broken_attacks(record)
    root = ET.Element("testsuites", name="docaudit", time=f"{record.timing.seconds:.3f}")
    for name in dict.fromkeys([*(check.attack for check in checks), *broken]):
        suite = _add_suite(root, name, judged)
        attack_checks = [check for check in checks if check.attack == name]
        for check in attack_checks:
            _add_check(suite, check, broken)
        if not attack_checks:
            _add_broken_attack(suite, broken[name])
        _count_cases(suite)
    for kind in ("tests", "failures", "errors"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _broken_attacks(record: AuditRecord) -> dict[str, str]:
    """Return by attack that failed the reason."""
    return {
        result.attack: result.reason.why
        for result in record.attacks
        if result.status == "failed" and result.reason
    }


def _add_suite(root: ET.Element, name: str, judged: Judged) -> ET.Element:
    """Add the test suite of an attack."""
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_replace_illegal(name),
        timestamp=judged.record.timing.started[:19],
    )
    if judged.place is not None:
        suite.set("file", _replace_illegal(judged.place))
    return suite


def _add_check(suite: ET.Element, check: Check, broken: Mapping[str, str]) -> None:
    """Add the test case of a limit, with what was measured against it."""
    output = f"{check.word}: {check.sentence}"
    if check.decision is not None:
        output = f"{output}\n{compared(check.decision)}"
    _add_case(suite, check.metric, _case_result(check, broken), output)


def _add_broken_attack(suite: ET.Element, reason: str) -> None:
    """Add a test case for an attack that failed and that no limit is about."""
    output = f"the attack failed ({reason}), and no limit of the policy is about it"
    _add_case(suite, "attack", CaseResult("skipped", _error_type(reason), output), output)


def _count_cases(suite: ET.Element) -> None:
    """Write how many test cases a suite has, and how many of each result."""
    suite.set("tests", str(len(suite)))
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"testcase/{tag}"))))


def _case_result(check: Check, broken: Mapping[str, str]) -> CaseResult | None:
    """Return why a test case did not pass; None where it did."""
    if check.outcome == "passed":
        return None
    if check.outcome == "undecided" and check.attack in broken:
        return CaseResult("error", _error_type(broken[check.attack]), check.sentence)
    if check.counts:
        return CaseResult("failure", check.word, check.sentence)
    return CaseResult("skipped", check.word, f"{check.word}: {check.sentence}")


def _error_type(broken: str) -> str:
    """Return the type of an error that is written as "type at place"."""
    return broken.partition(" at ")[0]


def _add_case(suite: ET.Element, title: str, result: CaseResult | None, output: str) -> None:
    """Add a test case with its output; `result` is None where it passed."""
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"docaudit.{suite.get('name')}",
        name=_replace_illegal(title),
        time="0",
    )
    if result is not None:
        ET.SubElement(
            case,
            result.tag,
            type=_replace_illegal(result.kind),
            message=_replace_illegal(result.message),
        )
    ET.SubElement(case, "system-out").text = _replace_illegal(output)


def _replace_illegal(text: str) -> str:
    """Replace characters that XML forbids by U+FFFD."""
    return _ILLEGAL.sub("\ufffd", text)


SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
FINGERPRINTS = ("docauditLimit/v1", "primaryLocationLineHash")
"""Names of the one fingerprint: ours, and the only one that GitHub matches alerts by."""
# Left out, it is made of the line: every change of a limit would close an alert and open another.
_SEVERITIES = {"error": "8.0", "warning": "5.0", "note": "3.0"}
"""`security-severity`, which GitHub shows as high, medium and low: none is a score of this model's
leak."""


@dataclass(frozen=True)
class _Finding:
    attack: str
    metric: str
    level: str
    message: str
    waiver: Waiver | None = None

    @property
    def rule(self) -> str:
        """Return the id of the SARIF rule: "docaudit/ATTACK/METRIC"."""
        return f"docaudit/{self.attack}/{self.metric}"


def as_sarif(judged: Judged) -> str:
    """Draw a result for each violated limit (error) and each undecided one (warning).

    A violated limit without a part in the exit code, as on the documents' own text, is a warning.
    A waived one is a suppressed note.

    Raises:
        RenderError: there is something to report, and no file of the repository to report it at.
    """
    findings = _sarif_findings(judged, OPEN)
    if judged.place is not None:
        findings += _sarif_findings(judged, ("waived",))
    elif findings:
        raise RenderError(
            "no SARIF was written: the repository holds neither the policy nor --data nor a "
            "README, and code scanning needs one",
            "commit the policy, or give --data DATA_DIR",
        )
    data = printable(judged.record.corpus.name)
    by_rule = {finding.rule: finding for finding in findings}
    rules = [_sarif_rule(finding) for finding in by_rule.values()]
    run = {
        "tool": {"driver": {"name": "docaudit", "version": __version__, "rules": rules}},
        "automationDetails": {"id": f"docaudit/{re.sub(r'[^A-Za-z0-9._-]+', '-', data)}/"},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding, data, judged.place or "") for finding in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _sarif_findings(judged: Judged, outcomes: Sequence[Outcome]) -> list[_Finding]:
    """List the findings of the checks with some outcomes."""
    policy = judged.verdict.policy
    return [_sarif_finding(check, policy) for check in judged.checks if check.outcome in outcomes]


def _sarif_finding(check: Check, policy: str) -> _Finding:
    """Make the finding of an open limit."""
    level = _sarif_level(check)
    waiver = None if check.decision is None else check.decision.waiver
    outcome = check.word.capitalize()
    message = f"{outcome}: {check.sentence}."
    if check.decision is not None:
        # The reason of a violation may name the owner of a waiver that has ended; a finding names
        # nobody.
        reason = check.sentence
        if check.outcome in ("violated", "waived"):
            reason = "the leak above the limit is confirmed"
        label = _metric_label(check.attack, check.metric)
        numbers = f"{compared(check.decision)} of policy {policy}"
        message = f"{outcome}: {label}: {numbers}; {reason}."
    if check.outcome != "waived":
        waiver = None
    return _Finding(check.attack, check.metric, level, message, waiver)


def _sarif_level(check: Check) -> str:
    """Return the level of an open or waived limit."""
    if check.outcome == "waived":
        return "note"
    return "error" if check.outcome == "violated" and check.counts else "warning"


def _metric_label(attack: str, metric: str) -> str:
    """Return the label of an attack's metric; the metric's name where the attack has no texts."""
    report = TEXTS.get(attack)
    return metric if report is None else report.label(metric)


def _sarif_rule(finding: _Finding) -> dict[str, Any]:
    """Return the SARIF rule of a finding: label, question, help and severity of its metric."""
    question = text_of(finding.attack).question
    page = "policies.md"
    label = "The verdict"
    if finding.attack in TEXTS:
        page = f"reference/metrics.md#{finding.attack}"
        label = _metric_label(finding.attack, finding.metric)
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
    """Return the SARIF result of a finding.

    `data`: sha256 of the data set, part of the fingerprint.
    `place`: path of the file that the finding is shown at.
    """
    # Without a number: the finding stays the same one while its value, its limit and its line
    # change.
    fingerprint = hashlib.sha256(
        "\0".join((finding.attack, finding.metric, data)).encode()
    ).hexdigest()
    location = {
        "artifactLocation": {"uri": quote(place), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 1},
    }
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": _escape_sarif(finding.message)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": dict.fromkeys(FINGERPRINTS, fingerprint),
    }
    if finding.waiver is not None:
        result["suppressions"] = [_suppression(finding.waiver)]
    return result


def _suppression(waiver: Waiver) -> dict[str, str]:
    """Return a waiver as SARIF has it: its reason, measure and last day, without the person."""
    justification = f"{waiver.reason}; instead: {waiver.measure}; until {waiver.expires}"
    return {
        "kind": "external",
        "status": "accepted",
        "justification": printable(justification),
    }


def _escape_sarif(text: str) -> str:
    """Escape brackets and braces, which SARIF reads as links and placeholders."""
    without_links = re.sub(r"([\\\[\]])", r"\\\1", printable(text))
    return without_links.replace("{", "{{").replace("}", "}}")
