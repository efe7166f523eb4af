"""Attestations: what is signed, and that nothing of it can be changed unseen."""

import base64
import copy
import datetime as dt
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import attested
import pytest
from commands import docaudit
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from audit import policy as policies
from audit import record as records
from audit.attestation import (
    FILE_NAME,
    Statement,
    is_signed_by,
    read_private_key,
    read_public_key,
    seal,
    unseal,
)
from audit.errors import DocauditError, PolicyError, RecordError, UsageError
from audit.policy.reading import read_declared
from audit.report.facts.leaks import unlimited
from audit.workflows.attest import attest, state, verify

MUTATIONS = 50


def write_keys(folder: Path) -> tuple[Path, Path]:
    key = Ed25519PrivateKey.generate()
    private = folder / "key.pem"
    public = folder / "pub.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return write_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def signed(tmp_path_factory, tiny_corpus, keys):
    """A report folder with a signed attestation; read only."""
    out = attested.folder(tmp_path_factory.mktemp("signed"), tiny_corpus)
    attest(out, keys[0])
    return out


@pytest.fixture
def out(signed, tmp_path):
    return shutil.copytree(signed, tmp_path / "out")


def statement_of(folder: Path) -> dict[str, Any]:
    envelope = json.loads((folder / FILE_NAME).read_text())
    return json.loads(base64.b64decode(envelope["payload"]))  # type: ignore[no-any-return]


def differs(folder: Path, public: Path | None, **more: Any) -> bool:
    """Whether verify finds anything, or refuses the folder."""
    try:
        _, found = verify(folder, public, **more)
    except DocauditError:
        return True
    return bool(found.differences)


def test_a_statement_names_everything_that_the_verdict_is_about(signed):
    statement = statement_of(signed)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    named = [
        "model/config.json",
        "model/model.safetensors",
        f"data-set/{records.read(signed).corpus.name}",
    ]
    named += ["policy.toml", "record.json", "report.pdf", "report.html"]
    assert [subject["name"] for subject in statement["subject"]] == named
    predicate = statement["predicate"]
    assert predicate["result"] == "FAILED"
    assert "reconstruction excess_pr.unique <= 0.05" in predicate["failedTests"]
    assert predicate["configuration"][0]["digest"]["sha256"] == records.read(signed).policy.sha256  # type: ignore[union-attr]
    assert predicate["docauditVerdict"]["auditor"] == "A. Example"
    record = records.read(signed)
    verdict = policies.evaluate(record, read_declared(record.policy), policies.today())  # type: ignore[arg-type]
    outside = [f"{one.attack} {one.metric}" for one in unlimited(verdict)]
    assert predicate["docauditVerdict"].get("findingsOutsidePolicy", []) == outside


def test_what_was_attested_is_verified(signed, keys):
    model = signed.parent / "model"
    data = signed.parent / "data"
    result = docaudit("verify", signed, "--pub", keys[1], "--model", model, "--data", data)
    assert result.exit_code == 0, result.output
    assert "report.pdf embeds this record and its policy" in result.output
    assert "the attestation says nothing of" not in result.output
    assert "DIFFERS" not in result.output


@pytest.mark.parametrize(
    ("exit_code", "warned", "expected"), [(0, False, "PASSED"), (0, True, "WARNED")]
)
def test_a_result_is_passed_only_without_anything_to_warn_of(
    exit_code, warned, expected, signed, monkeypatch
):
    record = records.read(signed)
    verdict = policies.evaluate(record, read_declared(record.policy), policies.today())  # type: ignore[arg-type]
    outcome = "waived" if warned else "passed"
    decisions = tuple(replace(one, outcome=outcome) for one in verdict.decisions[:2])
    found = replace(verdict, overall=outcome, exit_code=exit_code, decisions=decisions)
    monkeypatch.setattr(policies, "evaluate", lambda *_: found)
    assert state(signed, record, policies.today()).predicate["result"] == "WARNED", (
        "findings outside the policy"
    )
    monkeypatch.setattr("audit.workflows.attest.unlimited", lambda *_: ())
    monkeypatch.setattr("audit.workflows.attest.within", lambda *_: ())
    predicate = state(signed, record, policies.today()).predicate
    assert (predicate["result"], len(predicate["warnedTests" if warned else "passedTests"])) == (
        expected,
        2,
    )


@pytest.mark.parametrize("name", ["record.json", "report.pdf", "report.html"])
def test_a_changed_byte_is_named_by_its_file(name, out, keys):
    (out / name).write_bytes((out / name).read_bytes() + (b"\n" if name != "record.json" else b" "))
    result = docaudit("verify", out, "--pub", keys[1])
    assert result.exit_code == 10, result.output
    assert f"DIFFERS: {name} is not what was attested" in result.output


def test_a_file_that_is_gone_or_came_later_is_named(out, keys):
    (out / "report.html").unlink()
    (out / "report-final.pdf").write_bytes(b"%PDF-1.7")
    (out / "measurements.csv").write_text("attack,metric,value\n")
    _, found = verify(out, keys[1])
    assert found.differences == [
        "measurements.csv is there, and was not attested",
        "report.html was attested, and is not there",
    ]
    assert "files that the attestation says nothing of: report-final.pdf" in found.notes


def test_another_model_or_data_set_is_named(signed, keys, tmp_path):
    model = shutil.copytree(signed.parent / "model", tmp_path / "model")
    (model / "model.safetensors").write_bytes(b"other weights")
    data = shutil.copytree(signed.parent / "data", tmp_path / "data")
    (data / "manifest.toml").write_text((data / "manifest.toml").read_text() + "\n# later\n")
    _, found = verify(signed, keys[1], model=model, data=data)
    assert found.differences == [
        f"{model}: model.safetensors is not the file that was scanned",
        f"{data}: the record is of another data set, or of another state of it",
    ]


def test_a_report_that_embeds_another_record_is_named(out, keys):
    policy = records.read(out).policy
    assert policy is not None
    attested.pdf(out / "report.pdf", {"record.json": b"{}", "policy.toml": policy.toml.encode()})
    attest(out, keys[0])
    _, found = verify(out, keys[1])
    assert found.differences == ["report.pdf embeds another record.json"]
    attested.pdf(out / "report.pdf", {})
    attest(out, keys[0])
    _, found = verify(out, keys[1])
    assert found.differences == []
    assert "report.pdf embeds no record, so that nothing in it was compared" in found.notes


def test_a_verdict_that_was_talked_green_is_not_what_follows(out, keys):
    # Signed by the owner of the key, and still not what the record says under the policy that it
    # declares.
    statement = statement_of(out)
    statement["predicate"]["result"] = "PASSED"
    statement["predicate"]["docauditVerdict"]["verdict"] = "passed"
    (out / FILE_NAME).write_text(seal(Statement(**statement), read_private_key(keys[0])))
    result = docaudit("verify", out, "--pub", keys[1])
    assert result.exit_code == 10
    assert (
        "DIFFERS: result is not what follows from the record: PASSED, not FAILED" in result.output
    )


def test_the_key_of_somebody_else_signs_nothing(signed, tmp_path):
    _, other = write_keys(tmp_path)
    result = docaudit("verify", signed, "--pub", other)
    assert result.exit_code == 10
    assert "DIFFERS: the attestation is not signed by this key" in result.output


def test_without_a_key_the_statement_is_bare_and_says_so(out, keys):
    result = docaudit("attest", out)
    assert (result.exit_code, "not signed" in result.output) == (0, True)
    assert json.loads((out / FILE_NAME).read_text())["_type"] == "https://in-toto.io/Statement/v1"
    unsigned = docaudit("verify", out)
    assert (unsigned.exit_code, "is not signed" in unsigned.output) == (0, True)
    assert docaudit("verify", out, "--pub", keys[1]).exit_code == 10


EARLIER = Path(__file__).with_name("attested_by_0.13.intoto.jsonl")
"""What docaudit 0.13 signed with its own DSSE code; the key lies beside it."""


def test_a_signature_of_an_earlier_version_is_still_verified(keys):
    sealed = unseal(EARLIER.read_bytes(), "earlier")
    assert sealed.statement.digests == {"record.json": {"sha256": "0" * 64}}
    assert is_signed_by(sealed, read_public_key(EARLIER.with_name("attested_by_0.13.pem")))
    assert not is_signed_by(sealed, read_public_key(keys[1]))


def test_what_is_no_key_is_refused(out, tmp_path):
    rsa = tmp_path / "rsa.pem"
    rsa.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    for path in (rsa, tmp_path / "none.pem"):
        with pytest.raises(UsageError) as refused:
            attest(out, path)
        assert "openssl genpkey -algorithm ed25519" in refused.value.hint
    assert docaudit("attest", out, "--key", rsa).exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "rsa.pem"], (
        "no key is made on the way"
    )


def test_without_the_extra_the_way_to_it_is_named(out, keys, monkeypatch):
    import sys

    for name in ("securesystemslib.signer", "pypdf"):
        monkeypatch.setitem(sys.modules, name, None)
    for ask in (lambda: attest(out, keys[0]), lambda: verify(out)):
        with pytest.raises(UsageError) as refused:
            ask()
        assert refused.value.hint == "pip install 'docaudit[attest]'"


def test_a_record_without_a_policy_is_not_attested(out):
    records.write(replace(records.read(out), policy=None), out / "record.json")
    with pytest.raises(RecordError, match="declares no policy"):
        attest(out)


def test_a_declared_policy_is_read_whatever_is_shipped_now(signed):
    declared = records.read(signed).policy
    assert declared is not None
    older = replace(declared, toml=declared.toml + "\n# of an older version\n")
    with pytest.raises(PolicyError, match="has another sha256"):
        read_declared(older)
    import hashlib

    sealed = replace(older, sha256=hashlib.sha256(older.toml.encode()).hexdigest())
    assert read_declared(sealed).limits == read_declared(declared).limits
    for toml in ("schema = ", 'schema = 1\nname = "default"\nlimits = 3'):
        with pytest.raises(PolicyError):
            read_declared(replace(declared, toml=toml))


def test_a_verdict_of_a_day_to_come_is_none(out, keys):
    statement = statement_of(out)
    for day in ((policies.today() + dt.timedelta(days=9)).isoformat(), "soon", None):
        statement["predicate"]["docauditVerdict"]["evaluated"] = day
        (out / FILE_NAME).write_text(seal(Statement(**statement), read_private_key(keys[0])))
        assert differs(out, keys[1])


def test_a_verdict_of_a_day_before_the_scan_is_none(out, keys):
    """Its signer may have a record, a key and a clock that is years behind."""
    statement = statement_of(out)
    for day, known in (("2020-01-01", False), ("2026-03-01", False), ("2026-03-02", True)):
        statement["predicate"]["docauditVerdict"]["evaluated"] = day
        (out / FILE_NAME).write_text(seal(Statement(**statement), read_private_key(keys[0])))
        found = verify(out, keys[1])[1].differences
        assert (
            f"the attestation is of {day}, and the scan ended on 2026-03-02" in found
        ) is not known, found


def test_an_attestation_that_names_something_twice_is_refused(out, keys):
    path = out / FILE_NAME
    line = path.read_text()
    other = base64.b64encode(b"{}").decode()
    twice = [
        line.replace('{"payload":', f'{{"payload":"{other}","payload":', 1),
        line.replace('"keyid":', '"keyid":"0","keyid":', 1),
        json.dumps(statement_of(out)).replace('"result":', '"result": "PASSED", "result":', 1),
    ]
    for text in twice:
        path.write_text(text)
        with pytest.raises(RecordError, match="a JSON object holds one name twice") as refused:
            verify(out, keys[1])
        assert refused.value.hint


def test_a_file_with_two_keys_is_refused_whichever_comes_first(out, keys, tmp_path):
    (tmp_path / "other").mkdir()
    public = write_keys(tmp_path / "other")[1].read_bytes()
    mine = keys[1].read_bytes()
    for content in (mine + public, public + mine, b"comment\n" + mine + b"\n" + mine):
        (tmp_path / "both.pem").write_bytes(content)
        with pytest.raises(UsageError, match="holds several keys") as refused:
            verify(out, tmp_path / "both.pem")
        assert refused.value.hint == "give a file with one key"
    (tmp_path / "one.pem").write_bytes(b"a comment\n" + mine)
    assert not differs(out, tmp_path / "one.pem")


def leaves(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every number, text, truth value and null, and of every entry that could be taken out."""
    entries = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    if path:
        yield path
    for name, inner in entries:
        yield from leaves(inner, (*path, name))


def mutate(content: Any, rng: random.Random) -> Any:
    """The content with one number, text or entry changed, added or taken out."""
    changed = copy.deepcopy(content)
    path = rng.choice(list(leaves(changed)))
    inner = changed
    for part in path[:-1]:
        inner = inner[part]
    value = inner[path[-1]]
    if rng.random() < 0.25:
        del inner[path[-1]]
    elif isinstance(value, bool) or value is None:
        inner[path[-1]] = rng.choice([not value, 1, "x"])
    elif isinstance(value, int | float):
        inner[path[-1]] = rng.choice(
            [value + 1, value * 0.5 + 0.001, 0 if value else 1, -value - 1, value + 1e-12 + 1]
        )
    elif isinstance(value, str):
        inner[path[-1]] = rng.choice([value + " ", value[1:] + "x", "x" + value])
    elif isinstance(value, list):
        inner[path[-1]] = rng.choice([[*value, *value[:1], 0], [*value[::-1], "x"]])
    else:
        value["note"] = 1
    return changed


@pytest.mark.parametrize("first", range(0, 4 * MUTATIONS, MUTATIONS))
def test_no_change_of_a_record_or_of_its_attestation_goes_unseen(signed, out, keys, first):
    whole = {
        name: (out / name).read_bytes()
        for name in ("record.json", FILE_NAME, "report.pdf", "report.html")
    }
    record = json.loads(whole["record.json"])
    statement = statement_of(out)
    envelope = json.loads(whole[FILE_NAME])
    unseen = []
    for number in range(first, first + MUTATIONS):
        rng = random.Random(number)
        kind = ("record", "record", "record", "record", "record", "statement", "envelope", "bytes")[
            number % 8
        ]
        name = FILE_NAME
        if kind == "record":
            name = "record.json"
            content = (json.dumps(mutate(record, rng), indent=1) + "\n").encode()
        elif kind == "statement":
            payload = base64.b64encode(
                json.dumps(mutate(statement, rng), separators=(",", ":")).encode()
            ).decode()
            content = json.dumps({**envelope, "payload": payload}).encode()
        elif kind == "envelope":
            content = json.dumps(mutate(envelope, rng)).encode()
        else:
            name = rng.choice(["report.pdf", "report.html", "record.json"])
            place = rng.randrange(len(whole[name]))
            content = (
                whole[name][:place]
                + bytes([whole[name][place] ^ (1 << rng.randrange(8))])
                + whole[name][place + 1 :]
            )
        assert content != whole[name]
        (out / name).write_bytes(content)
        if not differs(out, keys[1]):
            unseen.append((number, kind, name))
        (out / name).write_bytes(whole[name])
    assert unseen == []
    assert not differs(out, keys[1]), "as it was"
