"""A verdict as SARIF 2.1.0: violated and undecided limits as GitHub and GitLab show them beside a file.

GitHub refuses a whole file for one result without a place in the repository, and takes a result that passed for a
problem: only open limits are results, and without any place no file is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from audit import __version__
from audit.attacks import TEXTS, text_of
from audit.errors import RenderError
from audit.printable import printable
from audit.report.verdicts import OPEN, Check, Judged, compared

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINTS = ("docauditLimit/v1", "primaryLocationLineHash")
"""Names of the one fingerprint: ours, and the only one that GitHub matches alerts by; left out, it is made of the text
of the line, so that every change of a limit would close an alert and open another."""
_SEVERITIES = {"error": "8.0", "warning": "5.0"}
"""`security-severity`, which GitHub shows as high and medium: neither is a score of this model's leak."""


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
    findings = [_finding(check, judged.verdict.policy) for check in judged.checks if check.outcome in OPEN]
    if findings and judged.place is None:
        raise RenderError(
            "no SARIF was written: neither the policy nor --data nor a README lies in this repository, and code "
            "scanning refuses findings without a place in the repository",
            "commit the policy, or give --data DATA_DIR",
        )
    data = printable(judged.record.corpus.name)
    rules = [_rule(one) for one in {one.rule: one for one in findings}.values()]
    run = {
        "tool": {"driver": {"name": "docaudit", "version": __version__, "rules": rules}},
        "automationDetails": {"id": f"docaudit/{re.sub(r'[^A-Za-z0-9._-]+', '-', data)}/"},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, data, judged.place or "") for one in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _finding(check: Check, policy: str) -> _Finding:
    level = "error" if check.outcome == "violated" and check.counts else "warning"
    message = f"{check.outcome.capitalize()}: {check.sentence}."
    if check.decision is not None:
        # The reason of a violation may name the owner of a waiver that has ended; a finding names nobody.
        why = "confirmed over the limit" if check.outcome == "violated" else check.sentence
        label = _label(check.attack, check.metric)
        message = f"{check.outcome.capitalize()}: {label}: {compared(check.decision)} of policy {policy}; {why}."
    return _Finding(check.attack, check.metric, level, message)


def _label(attack: str, metric: str) -> str:
    report = TEXTS.get(attack)
    return metric if report is None else report.label(metric)


def _rule(finding: _Finding) -> dict[str, Any]:
    question, page, label = text_of(finding.attack).question, "policies.md", "The verdict"
    if finding.attack in TEXTS:
        page, label = f"reference/metrics.md#{finding.attack}", _label(finding.attack, finding.metric)
    return {
        "id": finding.rule,
        "shortDescription": {"text": label},
        "fullDescription": {"text": question},
        "help": {"text": f"{question} See docs/{page} of docaudit."},
        "defaultConfiguration": {"level": finding.level},
        "properties": {"tags": ["security", "privacy"], "security-severity": _SEVERITIES[finding.level]},
    }


def _result(finding: _Finding, data: str, place: str) -> dict[str, Any]:
    # Without a number: the finding stays the same one while its value, its limit and its line change.
    same = hashlib.sha256("\0".join((finding.attack, finding.metric, data)).encode()).hexdigest()
    where = {"artifactLocation": {"uri": quote(place), "uriBaseId": "%SRCROOT%"}, "region": {"startLine": 1}}
    return {
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": _plain(finding.message)},
        "locations": [{"physicalLocation": where}],
        "partialFingerprints": dict.fromkeys(FINGERPRINTS, same),
    }


def _plain(text: str) -> str:
    """Text without links and placeholders, which SARIF reads in brackets and braces."""
    return re.sub(r"([\\\[\]])", r"\\\1", printable(text)).replace("{", "{{").replace("}", "}}")
