"""The machine formats of a verdict: what each kind of verdict is in each, and that real consumers accept it."""

import dataclasses
import datetime as dt
import hashlib
import json
import re
from pathlib import Path

import example_records as examples
import github_sarif
import jsonschema
import pytest
from lxml import etree
from shown_pages import check_text

import audit
from audit.errors import RenderError
from audit.policy import Limit, Waiver, evaluate
from audit.report.answer import headline
from audit.report.decision import question_rows
from audit.report.formats import FORMATS
from audit.report.numbers import NBSP
from audit.report.verdicts import Judged, document, find_place, render

ROOT = Path(__file__).parents[2]
XSD = etree.XMLSchema(etree.parse(ROOT / "tests/fakes/schemas/jenkins-junit-10.xsd"))
HOSTILE = 'a|b<i>"&]]>`*_[x](y)\x1b\x00\ud800\n@team $x$ {0} \\'
PLACE = "policies/own.toml"


def unknown():
    """Limits on an attack that came after the record."""
    policy = examples.policy()
    later = (Limit("membership", "auc", "later", max=0.65), *policy.limits)
    return examples.judged(
        examples.record(examples.reconstruction(0.0, n=600)),
        dataclasses.replace(policy, limits=later),
    )


def lenient():
    """An undecided verdict that the policy lets pass."""
    return examples.judged(examples.wide()[0], examples.policy(undecided="warn"))


def ended():
    """A violation whose waiver has ended."""
    waiver = Waiver(
        "reconstruction",
        "excess_pr.unique",
        "A. Officer",
        "role",
        "reason",
        "measure",
        dt.date(2026, 1, 1),
    )
    return examples.judged(examples.record(examples.reconstruction(0.6)), examples.policy(waiver))


def hostile():
    """Names that no format takes as they are."""
    record, verdict, policy = examples.violated()
    odd = dataclasses.replace(
        record,
        target=dataclasses.replace(record.target, name=HOSTILE),
        corpus=dataclasses.replace(record.corpus, name=HOSTILE),
    )
    return odd, dataclasses.replace(verdict, policy=HOSTILE), policy


def nothing():
    """A verdict that no limit explains."""
    record, verdict, policy = examples.inapplicable()
    verdict = evaluate(record, dataclasses.replace(policy, gaps=()), examples.TODAY)
    unchecked = tuple(
        dataclasses.replace(one, outcome="inapplicable", cause=None) for one in verdict.decisions
    )
    why = "no limit of the policy could be checked on this model"
    changes = {"decisions": unchecked, "overall": "undecided", "exit_code": 11, "reason": why}
    changes["counted"] = ""
    return record, dataclasses.replace(verdict, **changes), policy


def broken():
    """A pass beside an attack that broke down, which no limit is about."""
    record, verdict, policy = examples.passed()
    attack = examples.gone(
        "membership", "failed", "error", "ValueError at attacks/membership/scores.py:1"
    )
    return dataclasses.replace(record, attacks=(*record.attacks, attack)), verdict, policy


def about_text(code=0):
    """Findings on the text alone, which count in the exit code or do not."""
    record, verdict, policy = examples.violated()
    own = tuple(dataclasses.replace(one, about_text=True) for one in verdict.decisions)
    changes = {
        "decisions": own,
        "overall": "passed",
        "exit_code": code,
        "text": "violated",
        "text_reason": "they leak",
        "text_counts": code == 10,
    }
    return record, dataclasses.replace(verdict, **changes), policy


CASES = {
    "nothing": nothing,
    "broken": broken,
    "about-text": about_text,
    "about-text-counted": lambda: about_text(10),
    **examples.CASES,
    "unknown": unknown,
    "lenient": lenient,
    "ended": ended,
    "hostile": hostile,
}


def judged(name, place=PLACE):
    record, verdict, _ = CASES[name]()
    return Judged(record, verdict, place)


def outcomes(xml):
    """What became of each test case: by name, the tag and type of what it holds beside its output."""
    found = {}
    for case in etree.fromstring(xml.encode()).iter("testcase"):
        first = case[0]
        found[case.get("name")] = (
            (first.tag, first.get("type")) if first.tag != "system-out" else ("passed", None)
        )
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_verdict_is_valid_in_every_format(name):
    case = judged(name)
    drawn = {form: render(form, case) for form in FORMATS}
    jsonschema.Draft202012Validator(document.schema()).validate(json.loads(drawn["json"]))
    XSD.assertValid(etree.fromstring(drawn["junit"].encode()))
    jsonschema.Draft4Validator(github_sarif.schema()).validate(json.loads(drawn["sarif"]))
    assert github_sarif.refusals(github_sarif.without_suppressed(drawn["sarif"])) == []
    assert len(drawn["markdown"].encode()) < 60_000
    assert len(drawn["comment"].encode()) < 10_000
    for text in drawn.values():
        assert "\x1b" not in text
        assert "\x00" not in text


@pytest.mark.parametrize("name", CASES)
def test_formats_agree_with_the_verdict_and_its_exit_code(name):
    case = judged(name)
    verdict = case.verdict
    shown = json.loads(render("json", case))
    assert (shown["verdict"], shown["exit_code"]) == (verdict.word, verdict.exit_code)
    assert [(one["attack"], one["metric"]) for one in shown["limits"]] == [
        (one.limit.attack, one.limit.metric) for one in verdict.decisions
    ]
    assert [one["outcome"] for one in shown["limits"]] == [one.word for one in verdict.decisions]
    assert verdict.stamp in render("markdown", case)
    found = outcomes(render("junit", case)).values()
    assert bool({"failure", "error"} & {tag for tag, _ in found}) == (verdict.exit_code != 0)
    results = json.loads(render("sarif", case))["runs"][0]["results"]
    levels = [one["level"] for one in results if "suppressions" not in one]
    assert bool(levels) == bool({verdict.overall, verdict.text} & {"violated", "undecided"})
    assert ("error" in levels) == (verdict.exit_code == 10)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("violated", ("failure", "exceeded")),
        ("passed", ("passed", None)),
        ("wide", ("failure", "undecided")),
        ("lenient", ("skipped", "undecided")),
        ("waived", ("skipped", "waived")),
        ("failed", ("error", "IndexError")),
        ("skipped", ("failure", "undecided")),
        ("nothing", ("skipped", "not applicable")),
        ("about-text", ("skipped", "exceeded")),
        ("about-text-counted", ("failure", "exceeded")),
    ],
)
def test_junit_has_a_test_case_for_each_limit(name, expected):
    found = outcomes(render("junit", judged(name)))
    assert found["excess_pr.unique"] == expected
    if name == "nothing":
        assert found["overall"] == ("failure", "undecided")


@pytest.mark.parametrize("name", ["broken", "nothing", "about-text", "skipped", "ended"])
@pytest.mark.parametrize("form", FORMATS)
def test_each_format_says_what_it_said(form, name):
    check_text(
        f"verdict-{name}-{form}",
        re.sub(r'"(docaudit|version)": "[^"]*"', r'"\1": "VERSION"', render(form, judged(name))),
    )


def test_sarif_names_nobody_who_answered_for_a_waiver():
    assert "A. Officer" in render("json", judged("ended"))
    assert "A. Officer" not in render("sarif", judged("ended"))


def test_a_waived_limit_is_a_suppressed_result_of_sarif():
    case = judged("waived")
    (run,) = json.loads(render("sarif", case))["runs"]
    waived = [one for one in case.verdict.decisions if one.outcome == "waived"]
    assert [result["level"] for result in run["results"]] == ["note"] * len(waived)
    for result, decision in zip(run["results"], waived, strict=True):
        (suppression,) = result["suppressions"]
        assert (suppression["kind"], suppression["status"]) == ("external", "accepted")
        assert decision.waiver.reason in suppression["justification"]
        assert str(decision.waiver.expires) in suppression["justification"]
        assert decision.waiver.owner not in json.dumps(result)


def test_an_open_limit_is_suppressed_by_nothing():
    for name in ("violated", "wide", "ended"):
        (run,) = json.loads(render("sarif", judged(name)))["runs"]
        assert run["results"]
        assert not any("suppressions" in result for result in run["results"])


def test_the_schema_in_the_package_is_that_of_the_types():
    committed = Path(audit.__file__).with_name("verdict.schema.json").read_text(encoding="utf-8")
    assert committed == json.dumps(document.schema(), indent=1) + "\n", (
        'write it again: python -c "import json, pathlib, audit.report.verdicts.document as d; '
        "pathlib.Path('audit/verdict.schema.json').write_text(json.dumps(d.schema(), indent=1) + '\\n')\""
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(committed))


def test_sarif_without_a_place_is_refused_and_one_without_findings_needs_none():
    with pytest.raises(RenderError, match="no SARIF was written") as raised:
        render("sarif", judged("violated", None))
    assert "--data DATA_DIR" in raised.value.hint
    assert json.loads(render("sarif", judged("passed", None)))["runs"][0]["results"] == []


def test_fingerprints_stay_while_numbers_lines_and_outcomes_change():
    def prints(case):
        results = json.loads(render("sarif", case))["runs"][0]["results"]
        return [one["partialFingerprints"] for one in results]

    moved = Judged(*CASES["wide"]()[:2], "manifest.toml")
    assert prints(judged("violated"))[:1] == prints(moved)
    name = "reconstruction\0excess_pr.unique\0receipts-2026"
    same = hashlib.sha256(name.encode()).hexdigest()
    assert prints(moved)[0] == {"docauditLimit/v1": same, "primaryLocationLineHash": same}
    assert (
        json.loads(render("sarif", moved))["runs"][0]["automationDetails"]["id"]
        == "docaudit/receipts-2026/"
    )


def test_places_are_sought_in_the_repository_first_the_policy_then_the_manifest_then_the_anchor(
    tmp_path, monkeypatch
):
    repository = tmp_path / "repository"
    elsewhere = tmp_path / "elsewhere"
    (repository / ".git").mkdir(parents=True)
    (repository / "own folder").mkdir()
    elsewhere.mkdir()
    for folder in (repository / "own folder", elsewhere):
        (folder / "policy.toml").write_text("\n[[limits]]\n")
        (folder / "manifest.toml").write_text("")
    (repository / "README.md").write_text("")
    monkeypatch.chdir(repository / "own folder")
    own = find_place(Path("policy.toml"), elsewhere)
    assert own == "own folder/policy.toml"
    assert find_place(elsewhere / "policy.toml", Path()) == "own folder/manifest.toml"
    assert find_place(elsewhere / "policy.toml", elsewhere) == "README.md"
    Path("../README.md").unlink()
    assert find_place(elsewhere / "policy.toml", elsewhere) is None
    results = json.loads(render("sarif", judged("violated", own)))["runs"][0]["results"]
    assert (
        results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        == "own%20folder/policy.toml"
    )


def test_the_manual_says_which_formats_name_the_persons_of_waivers():
    record, verdict, _ = CASES["waived"]()
    (owner,) = {entry.waiver.owner for entry in verdict.waivers}
    naming = {name for name in FORMATS if owner in render(name, Judged(record, verdict, PLACE))}
    page = (ROOT / "docs/pipelines.md").read_text(encoding="utf-8")
    said = re.search(r"(.+) name the persons of waivers", page)
    assert said is not None
    assert {name for name in FORMATS if f"`{name}`" in said[1]} == naming


BADGES = {
    "violated": ("2 of 2 limits exceeded", "red"),
    "wide": ("1 of 2 limits undecided", "yellow"),
    "passed": ("2 of 2 limits met", "green"),
    "waived": ("2 of 2 limits exceeded and waived", "orange"),
    "about-text-counted": ("redacted text: they leak", "red"),
}


@pytest.mark.parametrize("name", BADGES)
def test_a_badge_counts_the_limits_with_the_outcome_that_decides(name):
    message, colour = BADGES[name]
    assert json.loads(render("badge", judged(name))) == {
        "schemaVersion": 1,
        "label": "docaudit",
        "message": message,
        "color": colour,
    }


@pytest.mark.parametrize("name", CASES)
def test_no_badge_promises_anything_and_green_means_met(name):
    case = judged(name)
    badge = json.loads(render("badge", case))
    promises = ("private", "safe", "secure", "pass", "no leak")
    assert [word for word in promises if word in badge["message"].lower()] == []
    assert badge["message"]
    assert (badge["color"] == "green") == (case.facts.outcome == "passed")


@pytest.mark.parametrize("form", ["markdown", "comment"])
def test_summary_and_comment_begin_with_page_one(form):
    case = judged("violated")
    shown = render(form, case)
    (row,) = question_rows(case.facts)
    cells = f"| {row.question} | {row.trained} | {row.unseen} |".replace(NBSP, " ")
    assert headline(case.facts) in shown
    assert cells in shown
    assert row.reached.replace(NBSP, " ") in shown


def test_a_comment_is_found_again_by_its_first_line_and_says_what_to_do():
    shown = render("comment", judged("violated"))
    assert shown.startswith("<!-- docaudit -->\n## ❌ docaudit: EXCEEDED\n")
    assert "**First:**" in shown
    assert len(shown.encode()) < 6_000
