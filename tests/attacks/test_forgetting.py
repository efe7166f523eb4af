"""`docaudit forget-check`: does a model treat documents that it was to forget as it treats unseen ones?"""

import datetime as dt
import hashlib
import json
import re
from dataclasses import replace

import pytest
import tiny
from attempts import run
from commands import docaudit
from test_membership_planted import Knowing, corpus

from audit import record as records
from audit.attacks.membership import MembershipInference
from audit.attacks.membership.documents import describe_forgotten, select_forgotten
from audit.case import Case, References
from audit.errors import PolicyError, UsageError
from audit.policy import evaluate, load, warn_of_few
from audit.policy.limits import TEXTS
from audit.report.answer import explanation
from audit.report.facts.build import facts_of
from audit.report.html import html
from audit.workflows.attacking import cover_listed

ATTACK = MembershipInference(two_sided=True)
FORGET = load("forget")


def listing(folder, *names):
    file = folder / "ids.txt"
    file.write_text("".join(f"{name}\n" for name in names))
    return file


def judged(folder, n, leak=0.0, compared=True, n_known=None, n_left_out=0):
    """Judge a model that was to forget `n` of 400 documents, and gives `n_known` of these so much more confidence."""
    whole = corpus(400, 300, n_questions=1)
    names = [f"m{number}" for number in range(n)]
    kept, ids, _ = select_forgotten(whole, listing(folder, *names))
    retrained = [Knowing([one.id for one in whole.of("member")][n:], 2.0, seed=1)] * compared
    found = run(
        ATTACK, Case(Knowing(names[:n_known], leak), kept, References(baselines=tuple(retrained)))
    )[-1]
    listed = replace(describe_forgotten(ids, (ATTACK,), kept), listed=n + n_left_out)
    found = cover_listed(replace(found, power="reference_power"), listed)
    record = tiny.record(found, battery=("membership", "redaction"))
    card = replace(record.corpus, documents={"member": n, "heldout": 300}, forgotten=listed)
    record = replace(record, corpus=card)
    return record, evaluate(record, FORGET, dt.date(2026, 1, 1))


@pytest.mark.parametrize(
    ("world", "code"),
    [
        pytest.param({"n": 200, "leak": 2.0}, 10, id="still knows"),
        pytest.param({"n": 250}, 0, id="retrained without"),
        pytest.param({"n": 200, "leak": -3.0}, 10, id="over-forgotten"),
        pytest.param({"n": 20}, 11, id="few"),
        pytest.param({"n": 250, "leak": 30.0, "n_known": 4}, 11, id="still knows a few"),
        pytest.param({"n": 250, "leak": 2.5, "n_known": 25}, 11, id="knows a tenth a little"),
        pytest.param({"n": 250, "leak": -30.0, "n_known": 6}, 11, id="treats a few worse"),
        pytest.param({"n": 250, "n_left_out": 50}, 11, id="many left out"),
    ],
)
def test_only_a_model_that_never_saw_enough_documents_passes(world, code, tmp_path, monkeypatch):
    legends = []
    monkeypatch.setattr("audit.report.svg.as_svg", lambda *figure: legends.extend(figure[3]) or "")
    record, verdict = judged(tmp_path, **world)
    assert verdict.exit_code == code
    assert code or "This covers 250 of 250 listed documents" in explanation(
        facts_of(record, verdict)
    )
    page = html(record, verdict, FORGET)
    assert ("documents to be forgotten" in page, "training document" in page.lower()) == (
        True,
        False,
    )
    assert ("scan MODEL_DIR DATA_DIR" in page, "--only" in page) == (True, False)
    assert {*legends[:2]} == {"documents to be forgotten", "unseen documents"}, (
        "named before their room is measured"
    )


def test_few_documents_are_told_the_smallest_limit_that_they_can_show(tmp_path):
    record, verdict = judged(tmp_path, 20)
    (area,) = [one for one in verdict.decisions if one.limit.metric == "auc"]
    assert area.reason.endswith(
        "20 documents to be forgotten and 300 unseen ones the smallest limit that can be shown is 0.613"
    )
    assert not [one for one in verdict.decisions if "manifest.toml" in one.reason + one.remedy], (
        "no lot chose the list"
    )
    assert {one.remedy for one in verdict.decisions if one.cause == "confounded"} == {
        TEXTS["list_more"]
    }
    (warning,) = warn_of_few(record.corpus.forgotten, FORGET)
    assert (
        "auc 0.613 (the policy has 0.6), low_fpr_advantage 0.221 (the policy has 0.15)." in warning
    )
    assert not warn_of_few(judged(tmp_path, 250)[0].corpus.forgotten, FORGET)


def test_without_a_reference_nothing_passes(tmp_path):
    verdict = judged(tmp_path, 250, compared=False)[1]
    assert verdict.exit_code == 11
    assert {one.cause for one in verdict.decisions} == {"weakened"}


def test_a_policy_judges_either_kind_of_record_alone(tmp_path):
    record = judged(tmp_path, 20)[0]
    for other, policy, fit in (
        (record, load("default"), "forget"),
        (tiny.record(), FORGET, "default"),
    ):
        with pytest.raises(PolicyError, match=f"policy {policy.name}: it ") as raised:
            evaluate(other, policy, dt.date(2026, 1, 1))
        assert raised.value.hint == f"add --policy {fit}"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        pytest.param(
            ["m0", "x7"],
            "1 of 2 ids are those of no training document. The first is x7 in place 2 (in no "
            "split)",
            id="in no split",
        ),
        pytest.param(
            ["h1", "m0", "p0"],
            "2 of 3 ids are those of no training document. The first is h1 in place 1 (heldout)",
            id="unseen",
        ),
        pytest.param([], "no document is named", id="empty"),
        pytest.param(
            ["m0"],
            "1 of 1 documents to be forgotten are left out. The model may know them, as copies",
            id="copied",
        ),
    ],
)
def test_a_list_that_cannot_be_tested_is_refused(names, message, tmp_path):
    with pytest.raises(UsageError, match=re.escape(message)):
        select_forgotten(with_copies(), listing(tmp_path, *names))


def with_copies():
    """m0 and h0 hold the words of m5, which stays in training."""
    whole = corpus(6, 6, 2)
    words = whole.document("m5").words
    return replace(
        whole,
        documents=tuple(
            replace(one, words=words) if one.id in ("m0", "h0") else one for one in whole.documents
        ),
    )


def test_what_the_model_may_know_from_other_members_is_left_out_and_named(tmp_path):
    kept, ids, (warning,) = select_forgotten(
        with_copies(), listing(tmp_path, "m0", "m1", "m1", "m2")
    )
    assert ids == {"m0", "m1", "m2"}
    assert [one.id for one in kept.of("member", "heldout")] == [
        "m1",
        "m2",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
    ]
    assert warning.startswith("1 of 3 documents to be forgotten are left out")
    assert warning.endswith("canaries: m0")
    # Whoever asked for it did not draw it by lot.
    assert kept.manifest.membership.assigned == "official"


@pytest.mark.slow
def test_the_command_scans_the_listed_documents_alone(checkpoints, tiny_corpus, tmp_path):
    model = checkpoints("layoutlm", "mlm", 1)
    reference = f"baselines={checkpoints('layoutlm', 'mlm', 2)}"
    command = (
        "forget-check",
        model,
        tiny_corpus,
        "--reference",
        reference,
        "--out",
        tmp_path / "out",
        "--ids",
    )
    done = docaudit(*command, listing(tmp_path, "m1", "m0"))
    assert done.exit_code == 11, done.output
    assert "cannot say whether this model has forgotten" in done.output
    record = records.read(tmp_path / "out")
    assert (record.corpus.documents["member"], record.corpus.forgotten.listed) == (2, 2)
    assert [one.attack for one in record.attacks] == ["membership"]
    assert docaudit("gate", tmp_path / "out").exit_code == 2
    assert docaudit("gate", tmp_path / "out", "--policy", "forget").exit_code == 11
    assert docaudit("attest", tmp_path / "out").exit_code == 0
    (sealed,) = [one for one in (tmp_path / "out").iterdir() if one.name.startswith("attestation")]
    sorted_list = hashlib.sha256(listing(tmp_path, "m0", "m1").read_bytes()).hexdigest()
    assert {"name": "documents to be forgotten", "digest": {"sha256": sorted_list}} in json.loads(
        sealed.read_text()
    )["subject"]
    refused = docaudit(*command, listing(tmp_path, "h1"))
    assert (refused.exit_code, "h1 in place 1 (heldout)" in refused.output) == (2, True)
    assert docaudit(*command, listing(tmp_path, "m1"), "--policy", "default").exit_code == 2
