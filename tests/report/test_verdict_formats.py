"""The machine formats of a verdict: what each kind of verdict is in each, and that real consumers accept it."""

from __future__ import annotations

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

import audit
from audit.errors import RenderError
from audit.policy import Limit, Waiver, evaluate
from audit.record import Reason, Result
from audit.report.verdicts import FORMATS, Judged, document, find_place, render

ROOT = Path(__file__).parents[2]
XSD = etree.XMLSchema(etree.parse(ROOT / "tests/fakes/schemas/jenkins-junit-10.xsd"))
HOSTILE = 'a|b<i>"&]]>`*_[x](y)\x1b\x00\ud800\n@team $x$ {0} \\'
PLACE = "policies/own.toml"


def unknown():
    """Limits on an attack that came after the record."""
    policy = examples.policy()
    later = (Limit("membership", "auc", "later", max=0.65), *policy.limits)
    return examples.judged(
        examples.record(examples.reconstruction(0.0, n=600)), dataclasses.replace(policy, limits=later)
    )


def lenient():
    """An undecided verdict that the policy lets pass."""
    return examples.judged(examples.wide()[0], examples.policy(undecided="warn"))


def ended():
    """A violation whose waiver has ended."""
    waiver = Waiver(
        "reconstruction", "excess_pr.unique", "A. Officer", "role", "reason", "measure", dt.date(2026, 1, 1)
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


CASES = {
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
        found[case.get("name")] = (first.tag, first.get("type")) if first.tag != "system-out" else ("passed", None)
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_verdict_is_valid_in_every_format(name):
    case = judged(name)
    drawn = {form: render(form, case) for form in FORMATS}
    jsonschema.Draft202012Validator(document.schema()).validate(json.loads(drawn["json"]))
    XSD.assertValid(etree.fromstring(drawn["junit"].encode()))
    assert github_sarif.refusals(drawn["sarif"]) == []
    assert len(drawn["markdown"].encode()) < 60_000
    for text in drawn.values():
        assert "\x1b" not in text
        assert "\x00" not in text


@pytest.mark.parametrize("name", CASES)
def test_formats_agree_with_the_verdict_and_its_exit_code(name):
    case = judged(name)
    verdict = case.verdict
    shown = json.loads(render("json", case))
    assert (shown["verdict"], shown["exit_code"]) == (verdict.overall, verdict.exit_code)
    assert [(one["attack"], one["metric"]) for one in shown["limits"]] == [
        (one.limit.attack, one.limit.metric) for one in verdict.decisions
    ]
    assert [one["outcome"] for one in shown["limits"]] == [one.outcome for one in verdict.decisions]
    assert verdict.stamp in render("markdown", case)
    found = outcomes(render("junit", case)).values()
    assert bool({"failure", "error"} & {tag for tag, _ in found}) == (verdict.exit_code != 0)
    levels = [one["level"] for one in json.loads(render("sarif", case))["runs"][0]["results"]]
    assert bool(levels) == (verdict.overall in ("violated", "undecided"))
    assert ("error" in levels) == (verdict.exit_code == 10)


@pytest.mark.parametrize(
    ("name", "became"),
    [
        ("violated", ("failure", "violated")),
        ("passed", ("passed", None)),
        ("wide", ("failure", "undecided")),
        ("lenient", ("skipped", "undecided")),
        ("waived", ("skipped", "waived")),
        ("failed", ("error", "IndexError")),
        ("skipped", ("failure", "undecided")),
    ],
)
def test_junit_has_a_test_case_for_each_limit(name, became):
    found = outcomes(render("junit", judged(name)))
    assert found["excess_pr.unique"] == became


def test_a_verdict_that_no_limit_explains_is_a_finding_of_its_own():
    record, verdict, policy = examples.inapplicable()
    verdict = evaluate(record, dataclasses.replace(policy, gaps=()), examples.TODAY)
    nothing = dataclasses.replace(
        verdict,
        decisions=tuple(dataclasses.replace(one, outcome="inapplicable", cause=None) for one in verdict.decisions),
        overall="undecided",
        exit_code=11,
        reason="no limit of the policy could be checked on this model",
    )
    case = Judged(record, nothing, PLACE)
    assert outcomes(render("junit", case)) == {
        "excess_pr.unique": ("skipped", "inapplicable"),
        "excess_hamming.unique": ("skipped", "inapplicable"),
        "overall": ("failure", "undecided"),
    }
    (result,) = json.loads(render("sarif", case))["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("docaudit/verdict/overall", "warning")
    assert github_sarif.refusals(render("sarif", case)) == []


def test_a_broken_attack_that_no_limit_is_about_is_named_and_fails_nothing():
    record, verdict, _ = examples.passed()
    broken = Result(
        "membership", status="failed", reason=Reason("error", "ValueError at attacks/membership/scores.py:1")
    )
    case = Judged(dataclasses.replace(record, attacks=(*record.attacks, broken)), verdict)
    assert outcomes(render("junit", case))["attack"] == ("skipped", "ValueError")


def test_findings_on_the_text_alone_fail_only_where_they_are_in_the_exit_code():
    record, verdict, _ = examples.violated()
    about_text = tuple(dataclasses.replace(one, about_text=True) for one in verdict.decisions)
    reported = dataclasses.replace(
        verdict, decisions=about_text, overall="passed", exit_code=0, text="violated", text_reason="they leak"
    )
    case = Judged(record, reported, PLACE)
    assert outcomes(render("junit", case))["excess_pr.unique"] == ("skipped", "violated")
    assert {one["level"] for one in json.loads(render("sarif", case))["runs"][0]["results"]} == {"warning"}
    assert "**VIOLATED** What the text itself gives away" in render("markdown", case)
    counted = dataclasses.replace(reported, exit_code=10)
    assert outcomes(render("junit", Judged(record, counted)))["excess_pr.unique"] == ("failure", "violated")


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
    assert json.loads(render("sarif", moved))["runs"][0]["automationDetails"]["id"] == "docaudit/receipts-2026/"


def test_sarif_names_nobody_who_answered_for_a_waiver():
    assert "A. Officer" in render("json", judged("ended"))
    assert "A. Officer" not in render("sarif", judged("ended"))


def test_places_are_sought_in_the_repository_first_the_policy_then_the_manifest_then_the_anchor(tmp_path, monkeypatch):
    repository, elsewhere = tmp_path / "repository", tmp_path / "elsewhere"
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
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "own%20folder/policy.toml"


def test_json_says_what_an_attack_that_was_skipped_needs():
    record, verdict, _ = CASES["skipped"]()
    skipped = Result(
        "reconstruction",
        status="skipped",
        reason=Reason("missing", "it needs a reference (auxiliary)", "give the public model"),
    )
    record = dataclasses.replace(record, attacks=(skipped,))
    (state,) = json.loads(render("json", Judged(record, verdict)))["attacks"]
    assert state["reason"] == "it needs a reference (auxiliary); to run it: give the public model"


def test_the_manual_says_which_formats_name_the_persons_of_waivers():
    record, verdict, _ = CASES["waived"]()
    (owner,) = {entry.waiver.owner for entry in verdict.waivers}
    naming = {name for name in FORMATS if owner in render(name, Judged(record, verdict, PLACE))}
    page = (ROOT / "docs/pipelines.md").read_text(encoding="utf-8")
    said = re.search(r"(.+) name the persons of waivers", page)
    assert said is not None
    assert {name for name in FORMATS if f"`{name}`" in said[1]} == naming
