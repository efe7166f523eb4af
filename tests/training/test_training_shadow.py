"""The shadow target: public documents only, the target's architecture, the pretrained encoder."""

from dataclasses import replace

import pytest
import tiny
import torch

from audit.corpus.documents import Corpus, Manifest, Membership, Task
from audit.errors import ManifestError, TargetError
from audit.references.encoders import Fitted
from audit.references.recipes import Recipe
from audit.targets.encoders.loading import load
from benchmarks import shadow_target as shadow
from benchmarks.shadow_target import fit_shadow, halves

RECIPE = Recipe(epochs=1, batch_size=4)
MANIFEST = Manifest(1, "tiny", Task("token-classification", tiny.LABELS), Membership("random"))
CORPUS = Corpus(None, MANIFEST, tiny.documents(members=6, heldout=6, public=24), "c" * 64)


def _shadow(target_dir, pretrained, cache, **more):
    target = load(target_dir)
    members = halves(CORPUS, 0.5, 0).members
    return target, fit_shadow(target, target_dir, pretrained, CORPUS, members, cache, recipe=RECIPE, **more)


def test_both_halves_are_public_documents_and_have_none_in_common():
    parts = halves(CORPUS, 0.5, 0)
    members, public = ({document.id for document in part} for part in (parts.members, parts.public))
    assert members | public == {document.id for document in CORPUS.of("public")}
    assert (len(members), len(public), members & public) == (12, 12, set())
    assert {document.split for document in parts.members} == {"member"}
    assert {document.split for document in parts.public} == {"public"}
    assert all(replace(document, split="public") == CORPUS.document(document.id) for document in parts.members)


def test_the_division_follows_the_seed_and_the_share():
    assert halves(CORPUS, 0.5, 0) == halves(CORPUS, 0.5, 0)
    assert halves(CORPUS, 0.5, 0) != halves(CORPUS, 0.5, 1)
    assert [len(part) for part in (halves(CORPUS, 0.42, 0).members, halves(CORPUS, 0.42, 0).public)] == [10, 14]


def test_documents_with_the_same_words_stay_together():
    """The adversary's public model must not have read what the shadow target was trained on."""
    copies = [replace(document, id=f"copy-{document.id}") for document in CORPUS.of("public")]
    doubled = Corpus(None, MANIFEST, (*CORPUS.documents, *copies), "c" * 64)
    for seed in range(5):
        parts = halves(doubled, 0.5, seed)
        words = [{document.words for document in part} for part in (parts.members, parts.public)]
        assert not words[0] & words[1]
        assert len(parts.members) == len(parts.public) == 24


def test_too_few_public_documents_are_refused_with_their_number():
    few = Corpus(None, MANIFEST, tiny.documents(members=30, heldout=30, public=19), "c" * 64)
    with pytest.raises(ManifestError, match="19 public documents divide into 10 and 9"):
        halves(few, 0.5, 0)
    with pytest.raises(ManifestError, match="too few"):
        halves(CORPUS, 0.9, 0)


@pytest.mark.parametrize(
    ("family", "head"),
    [("layoutlm", "mlm"), ("layoutlm", "token-classification"), ("bros", "token-classification"), ("bert", "mlm")],
)
def test_it_starts_as_the_pretrained_encoder_under_the_targets_head(checkpoints, tmp_path, monkeypatch, family, head):
    def untrained(model, *_, **__):
        return Fitted(model, (), None, None)

    monkeypatch.setattr(shadow, "fit", untrained)
    pretrained = checkpoints(family, "mlm", 3)
    target, place = _shadow(checkpoints(family, head, 1), pretrained, tmp_path)
    made = load(place, labels=target.labels)
    assert (made.card.family, made.card.task, made.labels) == (target.card.family, head, target.labels)
    weights, before, theirs = (one.model.state_dict() for one in (made, load(pretrained), target))
    inherited = [name for name in weights if name in before]
    assert any(".layer." in name for name in inherited)
    assert all(torch.equal(weights[name], before[name]) for name in inherited)
    heads = [
        name for name in weights if name.startswith(("classifier.weight", "cls.predictions.transform.dense.weight"))
    ]
    assert heads
    assert not any(torch.equal(weights[name], theirs[name]) for name in heads)
    assert (heads[0] in inherited) == (head == "mlm")


def test_it_is_trained_on_its_members_and_kept_by_content(checkpoints, tmp_path, monkeypatch):
    tagger, pretrained = checkpoints("layoutlm", "token-classification", 1), checkpoints("layoutlm", "mlm", 3)
    seen = []
    fit = shadow.fit

    def watched(model, tokenizer, pages, recipe, **more):
        seen.append((len(pages), {page.labels is not None for page in pages}, recipe))
        return fit(model, tokenizer, pages, recipe, **more)

    monkeypatch.setattr(shadow, "fit", watched)
    target, place = _shadow(tagger, pretrained, tmp_path)
    assert seen == [(12, {True}, RECIPE)]
    assert load(place).card.sha256 not in {target.card.sha256, load(pretrained).card.sha256}
    assert _shadow(tagger, pretrained, tmp_path)[1] == place
    assert len(seen) == 1
    places = [place, _shadow(tagger, checkpoints("layoutlm", "mlm", 4), tmp_path)[1]]
    members = halves(CORPUS, 0.5, 1).members
    places += [
        fit_shadow(target, tagger, pretrained, corpus, documents, tmp_path, recipe=recipe)
        for corpus, documents, recipe in [
            (CORPUS, members, RECIPE),
            (replace(CORPUS, sha256="d" * 64), members, RECIPE),
            (CORPUS, members, replace(RECIPE, seed=1)),
        ]
    ]
    assert len({*places}) == len(places) == len(seen) == 5


def test_an_encoder_that_does_not_fit_is_refused_and_leaves_nothing(checkpoints, tmp_path, monkeypatch):
    target = checkpoints("layoutlm", "token-classification", 1)
    with pytest.raises(TargetError, match="is not a LayoutLM, as the target is"):
        _shadow(target, checkpoints("bert", "mlm"), tmp_path / "cache")
    partial = tiny.model()
    weights = {name: tensor for name, tensor in partial.state_dict().items() if ".word_embeddings." not in name}
    partial.save_pretrained(tmp_path / "partial", state_dict=weights)
    tiny.tokenizer().save_pretrained(tmp_path / "partial")
    with pytest.raises(TargetError, match="lacks 1 parameters"):
        _shadow(target, tmp_path / "partial", tmp_path / "cache")
    monkeypatch.setattr(tiny, "POSITIONS", 256)
    longer = tiny.checkpoint(tmp_path / "longer")
    with pytest.raises(TargetError, match=r"another size.*position_embeddings"):
        _shadow(target, longer, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json"])
def test_a_target_that_sees_images_keeps_its_own_settings_of_pixels(checkpoints, tmp_path, monkeypatch, name):
    monkeypatch.setattr(shadow, "fit", lambda *_, **__: None)
    target_dir = tiny.checkpoint(tmp_path / "target")
    (target_dir / name).write_text('{"do_rescale": true}')
    _, place = _shadow(target_dir, checkpoints("layoutlm", "mlm", 3), tmp_path / "cache")
    assert (place / name).read_text() == '{"do_rescale": true}'


def test_documents_without_words_train_nothing(checkpoints, tmp_path):
    empty = [replace(document, words=(), entities=()) for document in halves(CORPUS, 0.5, 0).members]
    tagger = checkpoints("layoutlm", "token-classification", 1)
    with pytest.raises(TargetError, match="no page"):
        fit_shadow(
            load(tagger), tagger, checkpoints("layoutlm", "mlm", 3), CORPUS, empty, tmp_path / "cache", recipe=RECIPE
        )
