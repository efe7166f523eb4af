"""A verdict as JUnit XML: a test suite for each attack, a test case for each limit."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

from audit.policy import Outcome
from audit.record import Failed
from audit.report.verdicts.judged import Check, Judged, compared

Case = tuple[str, ET.Element | None, str]
"""Name, what became of it (None: passed), and what is said of it."""
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def as_junit(judged: Judged) -> str:
    """Draw a test case for each limit: violated and undecided ones fail, those of a broken attack are errors.

    Open limits without a part in the exit code are skipped, as are waived ones and those that do not apply.
    """
    record, checks = judged.record, judged.checks
    broken = [one for one in record.attacks if isinstance(one, Failed)]
    names = dict.fromkeys([*(check.attack for check in checks), *(one.attack for one in broken)])
    suites = {name: [_case(check) for check in checks if check.attack == name] for name in names}
    for one in broken:
        if not suites[one.attack]:
            suites[one.attack].append(_unlimited(one))
    wholes: list[Case] = [(one.name, _open(one.outcome, one.reason, one.counts), one.reason) for one in judged.wholes]
    if wholes:
        suites["verdict"] = wholes
    root = ET.Element("testsuites", name="docaudit", time=f"{record.timing.seconds:.3f}")
    file = "" if judged.places.whole is None else judged.places.whole.path
    for name, cases in suites.items():
        root.append(_suite(name, cases, record.timing.started, file))
    for kind in ("tests", "failures", "errors"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(name: str, cases: Iterable[Case], started: str, file: str) -> ET.Element:
    suite = ET.Element("testsuite", name=_legal(name), timestamp=started[:19])
    if file:
        suite.set("file", _legal(file))
    for title, outcome, said in cases:
        case = ET.SubElement(suite, "testcase", classname=_legal(f"docaudit.{name}"), name=_legal(title), time="0")
        if outcome is not None:
            case.append(outcome)
        ET.SubElement(case, "system-out").text = _legal(said)
    suite.set("tests", str(len(suite)))
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"testcase/{tag}"))))
    return suite


def _case(check: Check) -> Case:
    decision = check.decision
    said = f"{decision.outcome}: {check.sentence}\n{compared(decision)}"
    if check.broke is not None:
        return check.metric, _element("error", check.broke.type, check.sentence), said
    if decision.outcome == "passed":
        return check.metric, None, said
    return check.metric, _open(decision.outcome, check.sentence, check.counts), said


def _open(outcome: Outcome, reason: str, counts: bool) -> ET.Element:
    if counts:
        return _element("failure", outcome, reason)
    return _element("skipped", outcome, f"{outcome}: {reason}")


def _unlimited(broken: Failed) -> Case:
    """The one case of an attack that broke down and that no limit is about, so that it has no part in the verdict."""
    said = f"the attack broke down ({broken.type} at {broken.place}); no limit of the policy is about it"
    return "attack", _element("skipped", broken.type, said), said


def _element(tag: str, kind: str, message: str) -> ET.Element:
    return ET.Element(tag, type=_legal(kind), message=_legal(message))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
