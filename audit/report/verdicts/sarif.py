"""A verdict as SARIF 2.1.0: violated and undecided limits as GitHub and GitLab show them beside a file's line.

GitHub refuses a whole file for one result without a place in the repository, and takes a result that passed for a
problem: only open limits are results, and without any place no file is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any
from urllib.parse import quote

from audit import __version__
from audit.attacks import TEXTS, text_of
from audit.corpus.paths import printable
from audit.errors import RenderError
from audit.report.verdicts.judged import Judged, Place, compared

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINTS = ("docauditLimit/v1", "primaryLocationLineHash")
"""Names of the one fingerprint: ours, and the only one that GitHub matches alerts by; left out, it is made of the text
of the line, so that every change of a limit would close an alert and open another."""
_SEVERITIES = {"error": "8.0", "warning": "5.0"}
"""`security-severity`, which GitHub shows as high and medium (ours): neither is a score of this model's leak."""
_PAGE = "reference/metrics"


@dataclass(frozen=True)
class _Finding:
    attack: str
    metric: str
    level: str
    message: str
    place: Place | None

    @property
    def rule(self) -> str:
        return f"docaudit/{self.attack}/{self.metric}".replace(" ", "/")


def as_sarif(judged: Judged) -> str:
    """Draw a result for each violated limit (error) and each undecided one (warning).

    A violated limit without a part in the exit code, as on the documents' own text, is a warning.

    Raises:
        RenderError: there is something to report, and no file of the repository to report it at.
    """
    findings = [*_findings(judged)]
    if any(one.place is None for one in findings):
        git = judged.places.in_git
        within = "in this repository" if git else "under the current directory"
        raise RenderError(
            f"no SARIF was written: neither the policy nor --data nor a README lies {within}, and code "
            "scanning refuses findings without a place in the repository",
            f"{'commit the policy' if git else 'run it in the repository'}, or give --data DATA_DIR",
        )
    data = printable(judged.record.corpus.name)
    run = {
        "tool": {"driver": _driver(findings)},
        "automationDetails": {"id": f"docaudit/{re.sub(r'[^A-Za-z0-9._-]+', '-', data)}/"},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, data) for one in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _findings(judged: Judged) -> Iterator[_Finding]:
    policy = judged.verdict.policy
    for check in judged.checks:
        decision = check.decision
        if not check.open:
            continue
        level = "error" if decision.outcome == "violated" and check.counts else "warning"
        # The reason of a violation may name the owner of a waiver that has ended; a finding names nobody.
        why = "confirmed over the limit" if decision.outcome == "violated" else check.sentence
        said = f"{decision.outcome.capitalize()}: {_label(check.attack, decision.limit.metric)}: {compared(decision)}"
        place = judged.places.of(check.index)
        yield _Finding(check.attack, check.metric, level, f"{said} of policy {policy}; {why}.", place)
    for whole in judged.wholes:
        level = "error" if whole.outcome == "violated" and whole.counts else "warning"
        yield _Finding(
            "verdict", whole.name, level, f"{whole.outcome.capitalize()}: {whole.reason}.", judged.places.whole
        )


def _label(attack: str, metric: str) -> str:
    report = TEXTS.get(attack)
    return metric if report is None else report.label(metric)


def _driver(findings: Sequence[_Finding]) -> dict[str, Any]:
    address = documentation()
    driver: dict[str, Any] = {"name": "docaudit", "version": __version__}
    if address:
        driver["informationUri"] = address
    driver["rules"] = [_rule(one, address) for one in {one.rule: one for one in findings}.values()]
    return driver


def _rule(finding: _Finding, address: str | None) -> dict[str, Any]:
    report = text_of(finding.attack)
    label = _label(finding.attack, finding.metric.partition(" ")[0]) if finding.attack in TEXTS else "The verdict"
    page = f"{_PAGE}.md#{finding.attack}" if finding.attack in TEXTS else "policies.md"
    rule: dict[str, Any] = {
        "id": finding.rule,
        "shortDescription": {"text": label},
        "fullDescription": {"text": report.question},
        "help": {"text": f"{report.question} See docs/{page} of docaudit."},
        "defaultConfiguration": {"level": finding.level},
        "properties": {"tags": ["security", "privacy"], "security-severity": _SEVERITIES[finding.level]},
    }
    if address:
        rule["helpUri"] = f"{address.rstrip('/')}/{page.replace('.md', '/')}"
    return rule


def documentation() -> str | None:
    """The address of the documentation, as this installation's own metadata names it; None: it names none."""
    try:
        urls = metadata.metadata("docaudit").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    named = {label.strip().lower(): url.strip() for label, _, url in (one.partition(",") for one in urls)}
    return named.get("documentation")


def _result(finding: _Finding, data: str) -> dict[str, Any]:
    assert finding.place is not None
    # Without a number: the finding stays the same one while its value, its limit and its line change.
    same = hashlib.sha256("\0".join((finding.attack, finding.metric, data)).encode()).hexdigest()
    uri = quote(finding.place.path)
    where = {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}, "region": {"startLine": finding.place.line}}
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
