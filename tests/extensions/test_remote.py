"""Models behind a server: what is asked of them, what a record says of them, and servers that misbehave."""

import math
import re
from dataclasses import replace
from pathlib import Path

import answering
import numpy as np
import planted_canaries
import pytest
import served
import text_zoo
from commands import docaudit
from PIL import Image

from audit import record as records
from audit.attacks.canaries.attack import Canaries
from audit.attacks.canaries.measures import read_outcome, truth_of
from audit.attacks.provider_membership.attack import ask_about
from audit.case import Case
from audit.corpus.documents import ReferencePaths, TrainingRecipe
from audit.corpus.images import PageView
from audit.corpus.manifest import load, write
from audit.engine.driver import drive
from audit.engine.interface import SILENT
from audit.errors import TargetError, UsageError
from audit.extensions import exchange, remote
from audit.extensions.hub import fetch
from audit.targets.answering.words_reader import CHAT_PROMPT, TextPrompt, text_of_words
from audit.targets.interface import Answer, AnswerLoss
from audit.targets.opening import target_of
from audit.workflows.execution import AttackWork

OWN_POLICY = """schema = 1
name = "own"
[[demands]]
question = "values"
any_of = ["memorisation"]
rationale = "r"
[[limits]]
attack = "memorisation"
metric = "net"
max = 0.05
rationale = "r"
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    planted = answering.corpus(90, 90)
    (folder / "own.toml").write_text(OWN_POLICY)
    write(
        folder / "data", replace(planted.manifest, references=ReferencePaths()), planted.documents
    )
    return folder


@pytest.fixture
def server(data, monkeypatch):
    monkeypatch.setattr(remote, "PAUSES", (0.0, 0.0))
    monkeypatch.setenv(remote.KEY, served.KEY)
    monkeypatch.setenv(remote.OWNED_KEY, "sk-of-another-server")
    memory = answering.memory_of(load(data / "data").of("member"))
    with served.serve(
        leaky=served.planted(memory), clean=served.planted(), base=served.planted()
    ) as own:
        yield own


AGAIN = {"leaky": "ray:workers=2", "clean": "local"}
"""By model, the engine that its scan is repeated with: to start Ray once is enough."""


@pytest.mark.parametrize(
    ("name", "policy", "code"), [("leaky", "default", 10), ("clean", "own.toml", 0)]
)
def test_a_server_is_audited_as_a_black_box(name, policy, code, server, data, tmp_path):
    place, policy = f"{server.address}#{name}", data / policy if "." in policy else policy
    run = (
        "scan",
        place,
        data / "data",
        "--reference",
        f"baselines={server.address}#base",
        "--policy",
        policy,
    )
    result = docaudit(*run, "--budget", "standard", "--out", tmp_path / "out")
    assert result.exit_code == code, result.output
    record = records.read(tmp_path / "out")
    card = record.target
    results = record.results
    assert (card.name, card.family, card.files, card.parameters) == (name, "served", {}, 0)
    assert server.address in card.architecture
    assert record.untested[-1].startswith(f"which weights answered: {server.address}")
    assert results["memorisation"].diagnostics[-1].value == 1.0
    barred = {
        attack for attack, own in results.items() if own.reason and "black box" in own.reason.why
    }
    assert barred == {"membership", "reconstruction", "attribute_inference"}
    gated = docaudit("gate", tmp_path / "out", "--policy", policy).output
    assert code or "nothing proves which weights answered" in gated
    sent = [body for _, _, body in server.requests if body]
    assert {body["temperature"] for body in sent} == {0}
    assert {key for _, key, _ in server.requests} == {f"Bearer {served.KEY}"}
    assert ("PASSED" in docaudit("attest", tmp_path / "out").output) is False
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if served.KEY.encode() in path.read_bytes()]
    assert len(written) > 8
    asked = len(server.requests)
    assert docaudit(*run, "--out", tmp_path / "out", "--engine", AGAIN[name]).exit_code == code
    assert len(server.requests) < asked + 500  # its outcomes are not asked for again


@pytest.mark.parametrize(
    ("script", "message", "code"),
    [
        pytest.param(
            {"status": 401, "content": '{"error": {"message": "Incorrect key KEY"}}'},
            "HTTP 401 hint: set DOCAUDIT_API_KEY",
            2,
            id="an incorrect key, which is not repeated",
        ),
        pytest.param(
            {"status": 404, "content": '{"error": {"message": "no such model"}}'},
            "HTTP 404 hint: check the address",
            2,
            id="no such model",
        ),
        pytest.param(
            {"status": 404, "content": "<html>", "path": "/v1/models"},
            "HTTP 404 hint: check the address, which mostly ends in /v1",
            2,
            id="no such address",
        ),
        pytest.param(
            {"status": 400, "content": '{"error": "too long\\u001b[31m"}'},
            "HTTP 400 hint: read the server",
            2,
            id="a refusal with an escape sequence",
        ),
        pytest.param(
            {"status": 302, "content": "", "headers": {"Location": "https://example.com/v1"}},
            "HTTP 302, a redirection",
            2,
            id="a redirection",
        ),
        pytest.param(
            {"status": 500, "content": "KEY"},
            "no answer after 3 tries (HTTP 500)",
            1,
            id="a failure",
        ),
        pytest.param(
            {"status": 429, "content": "", "headers": {"Retry-After": "0"}},
            "no answer after 3 tries (HTTP 429)",
            1,
            id="too many requests",
        ),
        pytest.param(
            {"status": 200, "content": "not JSON KEY"},
            "/chat/completions: the reply has not the form",
            2,
            id="no JSON",
        ),
        pytest.param(
            {"status": 200, "content": "[]"}, "the reply has not the form", 2, id="a list"
        ),
        pytest.param(
            {"status": 200, "content": '{"choices": []}'},
            "the reply has not the form",
            2,
            id="no choices",
        ),
        pytest.param(
            {
                "status": 200,
                "content": '{"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]}',
            },
            "the reply has not the form",
            2,
            id="a number as content",
        ),
        pytest.param(
            {
                "status": 200,
                "content": '{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}',
            },
            "attacks can run",
            0,
            id="no content",
        ),
        pytest.param(
            {"status": 200, "content": '{"choices": "GIANT"}'},
            "a reply is larger or slower",
            2,
            id="endless choices",
        ),
        pytest.param(
            {"status": 200, "content": "GIANT"},
            "a reply is larger or slower",
            2,
            id="an endless reply",
        ),
        pytest.param(
            {"status": 200, "content": '{"data": [{"id": 7}]}', "path": "/v1/models"},
            "/models: the reply has not the form",
            2,
            id="a number as a model's name",
        ),
        pytest.param(
            {
                "status": 200,
                "content": '{"data": [{"id": "Nadia Orton, member"}]}',
                "path": "/v1/models",
            },
            "the name of a model there is none",
            2,
            id="a sentence as a model's name",
        ),
        pytest.param(
            {"status": 200, "content": '{"data": ["a"]}', "path": "/v1/models"},
            "/models: the reply has not the form",
            2,
            id="texts as models",
        ),
        pytest.param(
            {"status": 200, "content": '{"data": []}', "path": "/v1/models"},
            "has no model clean",
            2,
            id="no models",
        ),
        pytest.param(
            {"status": 200, "content": '{"data": [{"id": "cleKEYan"}]}', "path": "/v1/models"},
            "with one of: cle[key]an",
            2,
            id="a key inside a model's name",
        ),
    ],
)
def test_a_server_that_misbehaves_ends_in_one_sentence(
    script, message, code, server, data, monkeypatch
):
    monkeypatch.setattr(exchange, "MOST_BYTES", 10_000)
    status = script["status"]
    content = script["content"]
    headers = script.get("headers", {})
    content = content.replace("KEY", served.KEY).replace("GIANT", "9" * 20_000).encode()
    at = script.get("path", "/v1/chat/completions")
    server.script = staticmethod(
        lambda path, body: (status, content, headers) if path == at else None
    )
    result = docaudit("inspect", data / "data", "--model", f"{server.address}#clean")
    assert result.exit_code == code, result.output
    told = " ".join(result.output.split())
    assert message.format(address=server.address) in told
    assert served.KEY not in told
    assert "Traceback" not in told


def test_a_busy_server_is_asked_again_and_an_echoed_key_is_taken_out(server, data):
    turns = iter([429, 503, 200])
    reply = {
        "choices": [{"message": {"content": f" it is {served.KEY} "}, "finish_reason": "length"}]
    }
    server.script = staticmethod(
        lambda path, body: (next(turns, 200), reply, {"Retry-After": "0"}) if body else None
    )
    target = target_of(Path(f"{server.address}#clean"), load(data / "data"), batch_rows=1)
    (given,) = target.ask([Answer(PageView(()), "What?")])
    assert (given.text, given.ended) == ("it is [key]", False)
    assert [bool(body) for _, _, body in server.requests] == [False, True, True, True]


def test_answers_that_differ_limit_what_a_record_repeats(server, data):
    turns = iter(range(1_000))
    server.models = {"one": lambda content: f"{next(turns)}"}
    target = target_of(Path(server.address), load(data / "data"))
    target.check(load(data / "data"))
    assert target.diagnostics[0].value == 0.0
    assert target.untested[1].endswith("16 of 16 questions got another answer when asked again")
    asked = [Answer(PageView(()), f"{number}") for number in range(40)]
    server.models = {"one": lambda content: content.strip()}
    assert [reply.text for reply in target.ask(asked)] == [query.question for query in asked]


ENDLESS = {
    "continue": (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "header": (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    "status": (b"HTTP/1.1 200 O", b"K"),
    "body": (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    "size of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "trailers": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n",
        b"X: 1\r\n",
    ),
    "handshake": (b"\x16\x03\x03\x40\x00", b"\x00"),
}


@pytest.mark.parametrize("part", ENDLESS)
def test_a_reply_without_an_end_ends(part, monkeypatch):
    monkeypatch.setattr(exchange, "LONGEST", 0.5)
    scheme = "https" if part == "handshake" else "http"
    with (
        served.dripping(*ENDLESS[part]) as port,
        pytest.raises(TargetError, match="larger or slower"),
    ):
        remote.Server(f"{scheme}://127.0.0.1:{port}/v1").call("/models", len)


def test_a_reply_in_time_without_a_length_is_read_to_its_end(monkeypatch):
    monkeypatch.setattr(exchange, "LONGEST", 30.0)
    with served.dripping(b'HTTP/1.1 200 OK\r\n\r\n{"data": 7}', b"") as port:
        assert (
            remote.Server(f"http://127.0.0.1:{port}/v1").call(
                "/models", lambda reply: reply["data"]
            )
            == 7
        )


PAGE = "Applicant Nadia Orton, member no. 1140577"


@pytest.mark.parametrize(
    "body", [{"error": {"message": PAGE}}, {"error": PAGE}, [PAGE], {"detail": [{"input": PAGE}]}]
)
def test_what_a_server_repeats_is_in_evidence_alone(body, server, data, tmp_path):
    def refuse_all_but_checks(path, sent):
        # The trial answers of the beginning are given, those of the attacks are refused.
        return (
            (400, body, {}) if path.endswith("completions") and len(server.requests) > 40 else None
        )

    server.script = staticmethod(refuse_all_but_checks)
    run = ("scan", f"{server.address}#clean", data / "data", "--only", "memorisation")
    result = docaudit(
        *run, "--reference", f"baselines={server.address}#base", "--out", tmp_path / "out"
    )
    assert (result.exit_code, PAGE in result.output) == (2, False), result.output
    assert "HTTP 400" in result.output
    holders = {
        path.relative_to(tmp_path / "out").as_posix()
        for path in (tmp_path / "out").rglob("*")
        if holds(path)
    }
    assert holders == {"evidence/failure-run.txt"}


def holds(path):
    return path.is_file() and PAGE.encode() in path.read_bytes()


def test_answers_that_no_encoding_writes_are_cleaned_where_they_come_in(server, data, tmp_path):
    given = {
        "choices": [{"message": {"content": "\ud800 12\x00\x1b[31m\t\n"}, "finish_reason": "stop"}]
    }
    server.script = staticmethod(
        lambda path, body: (200, given, {}) if path.endswith("completions") else None
    )
    (reply,) = target_of(Path(f"{server.address}#clean"), load(data / "data")).ask(
        [Answer(PageView(()), "What?")]
    )
    assert reply.text == "\ufffd 12\ufffd\ufffd[31m"
    run = (
        "scan",
        f"{server.address}#clean",
        data / "data",
        "--only",
        "memorisation",
        "--budget",
        "quick",
        "--documents",
        8,
    )
    result = docaudit(
        *run, "--reference", f"baselines={server.address}#base", "--out", tmp_path / "out"
    )
    assert result.exit_code == 11, result.output
    assert (tmp_path / "out" / "evidence" / "recovered.jsonl").read_bytes().isascii()


@pytest.mark.parametrize(
    "place",
    [
        "http://127.0.0.1:8877/\xe9/v1",
        "http://127.0.0.1/a b",
        "https://a..b/v1",
        f"https://{'a' * 70}/v1",
        "https://exa mple.com/v1",
        "http://[bad/v1",
        "https://\u2100.com/v1",
    ],
)
def test_an_address_that_none_can_ask_is_refused_at_once(place):
    with pytest.raises(UsageError) as refused:
        fetch(place, allow_network=True, plain=True)
    assert re.search("host|holds a blank, a control or a letter", str(refused.value))
    assert refused.value.hint


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("http://example.com/v1", "documents would travel without encryption"),
        ("http:/192.168.1.7:8000/v1", "documents would travel without encryption"),
        ("https://example.com/v1", "add --allow-network"),
        ("https://127.0.0.1.example.com/v1", "add --allow-network"),
        ("https://user:secret@127.0.0.1/v1", "neither user nor password nor query"),
        ("http://127.0.0.1:8000/v1?key=secret", "neither user nor password nor query"),
        ("http://127.0.0.1:99999/v1", "neither user nor password nor query"),
        ("http://", "neither user nor password nor query"),
    ],
)
def test_documents_go_to_no_other_machine(place, message):
    with pytest.raises(UsageError) as refused:
        fetch(place, plain=True)
    assert message in " ".join(refused.value.lines)
    assert "secret" not in " ".join(refused.value.lines)
    assert fetch("https://example.com/v1", allow_network=True, plain=True) == Path(
        "https:/example.com/v1"
    )


@pytest.mark.parametrize(
    ("variable", "host", "sent"), [("KEY", "127.0.0.1", True), ("OWNED_KEY", "127.0.0.1", False)]
)
def test_a_key_goes_to_its_own_server(variable, host, sent, monkeypatch):
    for name in (remote.KEY, remote.OWNED_KEY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(getattr(remote, variable), "abc")
    assert bool(remote.Server(f"http://{host}/v1")._key) == sent
    monkeypatch.setenv(remote.KEY, "a b\n")
    with pytest.raises(UsageError, match="holds what no key does"):
        remote.Server(f"http://{host}/v1")


def test_a_page_image_is_sent_as_it_is_with_the_words_of_training(server, data, monkeypatch):
    page = Image.new("RGB", (30, 20), (9, 99, 200))
    corpus = load(data / "data")
    recipe = TrainingRecipe(prompt="Answer: {question}", system="You read bills.")
    pictured = [replace(one, image="a.png") for one in corpus.documents]
    corpus = replace(
        corpus, documents=tuple(pictured), manifest=replace(corpus.manifest, recipe=recipe)
    )
    server.models = {"one": lambda content: str(served.picture(content)[0].getpixel((1, 1)))}
    target = target_of(Path(server.address), corpus)
    (reply,) = target.ask([Answer(PageView((), page.size, lambda: page), "total?")])
    assert reply.text == "(9, 99, 200)"
    system, user = server.requests[-1][2]["messages"]
    assert system == {"role": "system", "content": "You read bills."}
    assert served.picture(user["content"])[1] == "Answer: total?"


def test_canaries_are_extracted_from_answers_alone(tmp_path):
    drawn = planted_canaries.canary_set(8, printed=False)
    case = planted_canaries.case_of(
        tmp_path, drawn, answering.Answering(losses=False), "question-answering"
    )
    known = {
        ("", f"What is the pin of {one.prefix[2]}?"): "It is " + "".join(one.completion)
        for one in drawn.canaries[:4]
    }
    case = replace(case, target=answering.Answering(known, losses=False, blind=True))
    attack = Canaries()
    found = dict(drive(AttackWork(attack, case, 0), attack.trials(case), 8))
    hits = [read_outcome(found[one.id]).strongest == truth_of(one) for one in drawn.canaries]
    assert hits == [True] * 4 + [False] * 4
    result = attack.measure(
        case, attack.trials(case), [*found.values()], np.random.default_rng(0), SILENT
    )
    assert any("not ranked" in one for one in result.ablations)


def test_providers_are_judged_by_answers_where_there_are_no_losses(data):
    case = Case(answering.Answering(losses=False), load(data / "data"))
    (row,) = _run(ask_about(case, case.corpus.documents[0], case.target))["questions"]
    assert (row["loss"], row["accuracy"], row["pretrained"]["loss"]) == (None, 1.0, None)


def _run(attempt):
    request = next(attempt)
    try:
        while True:
            request = attempt.send(request.answerer.ask(request.queries))
    except StopIteration as done:
        return done.value


def test_a_server_answers_for_a_checkpoint_that_it_agrees_with(server, data, tmp_path):
    corpus = load(data / "data")
    folder = text_zoo.write_text_model(tmp_path / "model", "qwen2")
    local = target_of(folder, corpus)
    prompt = TextPrompt(CHAT_PROMPT)
    views = [(PageView(one.words, one.size), one.questions[0]) for one in corpus.documents]
    queries = [Answer(view, asked.question) for view, asked in views]
    own = {
        prompt.fill(text_of_words(query.view.words), query.question): reply.text
        for query, reply in zip(queries, local.ask(queries), strict=True)
    }
    server.models = {"one": lambda content: own[content]}
    relayed = remote.relay(local, server.address, corpus)
    assert relayed.card.architecture.endswith(
        f"; answers generated by vLLM 0.33.0 at {server.address}"
    )
    assert [one.value for one in relayed.diagnostics] == [1.0, 1.0]
    before = len(server.requests)
    scores = relayed.ask([AnswerLoss(query.view, query.question, "a") for query in queries[:3]])
    assert len(server.requests) == before
    assert np.array_equal(
        scores[0], local.ask([AnswerLoss(queries[0].view, queries[0].question, "a")])[0]
    )
    assert math.isnan(relayed.ask(queries[:1])[0].confidence)
    run = ("scan", folder, data / "data", "--only", "membership", "--budget", "quick")
    run += ("--documents", 8, "--engine")
    result = docaudit(*run, f"local:answers={server.address}", "--out", tmp_path / "out")
    assert result.exit_code == 11, result.output
    record = records.read(tmp_path / "out")
    assert (record.target.architecture, record.target.sha256) == (
        relayed.card.architecture,
        local.card.sha256,
    )
    assert (
        "name a server of this machine"
        in docaudit(*run, "local:answers=https://example.com/v1").output
    )
    server.models = {"one": lambda content: "other"}
    with pytest.raises(TargetError, match="0 of 16 answers"):
        remote.relay(local, server.address, corpus)
