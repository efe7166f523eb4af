"""Scans of taggers whose labels are in any scheme, and of data sets that name what the model has no name for."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import nlu_models
import pytest
import tiny
from commands import docaudit

from audit import record as records
from audit.corpus import manifest as manifests
from audit.corpus.canaries.insertion import insert
from audit.corpus.documents import Corpus, Document, Task
from audit.corpus.tagging import scheme_of
from audit.errors import ManifestError, TargetError
from audit.extensions.papers.utterance_target import load_nlu
from audit.references import retrain as retraining
from audit.references.retrain import under_head
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.opening import check, find_unread, target_of, without_unread

NAMES = tiny.CLASSES[1:]
SCHEMES: dict[str, tuple[str, ...]] = {
    "BIOES": ("O", *(f"{prefix}-{name}" for name in NAMES for prefix in "BIES")),
    "BILOU": ("none", *(f"{prefix}-{name}" for name in NAMES for prefix in "BILU")),
    "IO": ("OTHER", *NAMES),
    "I-only": (*(f"I-{name}" for name in NAMES), "O"),
}


def data_set(
    folder: Path, labels: Sequence[str], outside: str | None = None, pages: Sequence[Document] = ()
) -> Corpus:
    """Receipts with these labels in their manifest."""
    made = manifests.load(
        tiny.corpus(folder, members=6, heldout=5, public=3, kind="token-classification")
    )
    task = Task("token-classification", tuple(labels), outside)
    manifests.write(folder, replace(made.manifest, task=task), pages or made.documents)
    return manifests.load(folder)


def scan(model: Path, data: Path, out: Path) -> records.AuditRecord:
    result = docaudit(
        *["scan", model, data, "--out", out, "--budget", "quick", "--only", "membership"]
    )
    assert result.exit_code in (0, 10, 11), result.output
    return records.read(out)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_tagger_of_any_scheme_is_scanned(scheme, tmp_path):
    labels = SCHEMES[scheme]
    corpus = data_set(tmp_path / "data", labels)
    model = tiny.checkpoint(tmp_path / "model", "bert", "token-classification", labels=labels)
    record = scan(model, tmp_path / "data", tmp_path / "scan")
    assert (record.attacks[0].status, record.corpus.unread) == ("completed", {})
    target = target_of(model, corpus)
    outside = {"BILOU": "none", "IO": "OTHER"}.get(scheme, "O")
    assert target.labels == tuple("O" if label == outside else label for label in labels)
    page = target.encode(corpus.documents[0])
    words = page.words[page.labels >= 0]
    read = page.labels[page.labels >= 0]
    spans = scheme_of(target.labels).spans([target.labels[index] for index in read])
    entities = corpus.documents[0].entities
    assert words.tolist() == list(range(len(corpus.documents[0].words)))
    assert spans == {(one.label, one.words[0], one.words[-1] + 1) for one in entities}


def test_unnamed_outputs_take_the_manifests_names_in_their_order(tmp_path):
    labels = ("rest", *NAMES)
    corpus = data_set(tmp_path / "data", labels, outside="rest")
    unnamed = [f"LABEL_{number}" for number in range(len(labels))]
    model = tiny.checkpoint(tmp_path / "model", "bert", "token-classification", labels=unnamed)
    assert target_of(model, corpus).labels == ("O", *NAMES)
    with pytest.raises(ManifestError, match=r"no label is O"):
        data_set(tmp_path / "nameless", labels)
    start = open_checkpoint(model)
    fresh, encoder = under_head(start, corpus, seed=0)
    assert (fresh.config.id2label[0], encoder.labels[0]) == ("rest", "O")


def strange(page: Document) -> Document:
    """The page with another name for its total."""
    renamed = (replace(one, label="TIP") if one.label == "TOTAL" else one for one in page.entities)
    return replace(page, entities=tuple(renamed))


def test_labels_that_the_model_lacks_are_counted_and_left_out(tmp_path):
    pages = tiny.documents(members=6, heldout=5, public=3)
    marked = {"m1", "h0", "h2", "p0"}
    data_set(
        tmp_path / "data",
        tiny.LABELS,
        pages=[strange(one) if one.id in marked else one for one in pages],
    )
    model = tiny.checkpoint(tmp_path / "model", "bert", "token-classification")
    given = [
        "scan",
        model,
        tmp_path / "data",
        "--out",
        tmp_path / "scan",
        "--budget",
        "quick",
        "--only",
        "membership",
    ]
    result = docaudit(*given)
    assert result.exit_code in (0, 10, 11), result.output
    said = " ".join(result.output.split())
    assert "4 documents are left out of the audit (1 member, 2 held-out, 1 public)" in said
    assert "the model does not know (TIP)" in said
    record = records.read(tmp_path / "scan")
    assert record.corpus.unread == {"member": 1, "heldout": 2, "public": 1}
    assert (record.corpus.documents["member"], record.attacks[0].status) == (5, "completed")
    listed = docaudit("inspect", tmp_path / "data")
    assert "4 documents have labels that task.labels of the manifest lacks" in " ".join(
        listed.output.split()
    )


def test_where_no_member_is_left_the_labels_are_refused(tmp_path):
    pages = tiny.documents(members=6, heldout=5, public=3)
    all_strange = [strange(one) if one.split == "member" else one for one in pages]
    with pytest.raises(ManifestError, match=r"TIP not among task\.labels"):
        data_set(tmp_path / "data", tiny.LABELS, pages=all_strange)
    corpus = data_set(tmp_path / "unnamed", (), pages=all_strange)
    target = target_of(tiny.checkpoint(tmp_path / "model", "bert", "token-classification"), corpus)
    with pytest.raises(TargetError, match="no tag for entities labelled TIP"):
        check(target, corpus)


def test_utterances_that_the_model_cannot_name_are_left_out(tmp_path):
    known = nlu_models.documents()
    odd = [replace(nlu_models.play("odd", "abba", "heldout"), intent="Sing"),
           replace(nlu_models.rate("tag", "3"), tags=("O", "B-stars", "O"))]  # fmt: skip
    corpus = nlu_models.corpus([*known, *odd], labels=())
    target = load_nlu(nlu_models.checkpoint(tmp_path / "model"))
    check(target, corpus)
    unread = find_unread(target, corpus)
    assert unread.documents == {"odd", "tag"}
    assert "(1 member, 1 held-out)" in unread.warnings[0]
    assert "B-stars, Sing" in unread.warnings[0]
    assert [one.id for one in without_unread(corpus, unread).documents] == [one.id for one in known]
    assert find_unread(target, nlu_models.corpus(known)).documents == frozenset()


def test_a_baseline_learns_nothing_from_documents_with_unknown_labels(tmp_path, monkeypatch):
    pages = [
        strange(one) if one.id == "p0" else one
        for one in tiny.documents(members=6, heldout=5, public=3)
    ]
    corpus = data_set(tmp_path / "data", tiny.LABELS, pages=pages)
    taught: list[int] = []
    monkeypatch.setattr(
        retraining, "fit", lambda model, tokenizer, pages, *_, **__: taught.append(len(pages))
    )
    monkeypatch.setattr(retraining, "save", lambda *_, **__: None)
    start = tiny.checkpoint(tmp_path / "start", "bert", "mlm")
    how = retraining.Retraining(retraining.recipe_for(corpus))
    retraining.retrain(how, start, corpus, corpus.of("public"), tmp_path / "out")
    assert taught == [2]


@pytest.mark.parametrize(("scheme", "added"), [("BIOES", {"B-canary", "I-canary", "E-canary", "S-canary"}),
                                               ("IO", {"canary"}), ("I-only", {"I-canary"})])  # fmt: skip
def test_canaries_bring_tags_of_the_models_own_scheme(scheme, added, tmp_path):
    corpus = data_set(tmp_path / "data", SCHEMES[scheme])
    assert (
        set(
            insert(
                corpus, tmp_path / "out", pattern="pin", count=2, repeat=1, length=3, seed=0
            ).labels
        )
        == added
    )
    assert (
        scheme_of(manifests.load(tmp_path / "out").manifest.task.labels).name
        == scheme_of(SCHEMES[scheme]).name
    )


def test_canaries_that_the_model_has_no_tag_for_are_refused(tmp_path):
    corpus = data_set(tmp_path / "data", tiny.LABELS)
    insert(corpus, tmp_path / "planted", pattern="pin", count=8, repeat=1, length=3, seed=0)
    planted = manifests.load(tmp_path / "planted")
    unnamed = replace(
        planted, manifest=replace(planted.manifest, task=Task("token-classification"))
    )
    target = target_of(tiny.checkpoint(tmp_path / "model", "bert", "token-classification"), unnamed)
    check(target, unnamed)
    with pytest.raises(TargetError, match="no name for canary"):
        find_unread(target, unnamed)
