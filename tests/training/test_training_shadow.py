"""The shadow target: public documents only, the target's architecture, the pretrained encoder."""

from dataclasses import replace

import pytest
import tiny

from audit.corpus.documents import Corpus, Manifest, Membership, Task
from audit.errors import ManifestError
from audit.references.recipes import Recipe
from audit.targets.encoders.loading import load
from benchmarks.tools import shadow_target as shadow
from benchmarks.tools.shadow_target import fit_shadow, halves

RECIPE = Recipe(epochs=1, batch_size=4)
MANIFEST = Manifest(1, "tiny", Task("token-classification", tiny.LABELS), Membership("random"))
CORPUS = Corpus(None, MANIFEST, tiny.documents(members=6, heldout=6, public=24), "c" * 64)


def _shadow(target_dir, pretrained, cache, **more):
    target = load(target_dir)
    members = halves(CORPUS, 0.5, 0).members
    return target, fit_shadow(
        target, target_dir, pretrained, CORPUS, members, cache, recipe=RECIPE, **more
    )


def test_both_halves_are_public_documents_and_have_none_in_common():
    parts = halves(CORPUS, 0.5, 0)
    members, public = ({document.id for document in part} for part in (parts.members, parts.public))
    assert members | public == {document.id for document in CORPUS.of("public")}
    assert (len(members), len(public), members & public) == (12, 12, set())
    assert {document.split for document in parts.members} == {"member"}
    assert {document.split for document in parts.public} == {"public"}
    assert all(
        replace(document, split="public") == CORPUS.document(document.id)
        for document in parts.members
    )


def test_the_division_follows_the_seed_and_the_share():
    assert halves(CORPUS, 0.5, 0) == halves(CORPUS, 0.5, 0)
    assert halves(CORPUS, 0.5, 0) != halves(CORPUS, 0.5, 1)
    assert [
        len(part) for part in (halves(CORPUS, 0.42, 0).members, halves(CORPUS, 0.42, 0).public)
    ] == [10, 14]


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


def test_it_is_trained_on_its_members_and_kept_by_content(checkpoints, tmp_path, monkeypatch):
    tagger = checkpoints("layoutlm", "token-classification", 1)
    pretrained = checkpoints("layoutlm", "mlm", 3)
    seen = []
    fit = shadow.fit

    def watched(model, tokenizer, pages, recipe, **more):
        seen.append((len(pages), {page.labels is not None for page in pages}, recipe))
        return fit(model, tokenizer, pages, recipe, **more)

    monkeypatch.setattr(shadow, "fit", watched)
    target, place = _shadow(tagger, pretrained, tmp_path)
    assert seen == [(12, {True}, RECIPE)]
    assert load(place).card.sha256 not in {target.card.sha256, load(pretrained).card.sha256}
    assert (_shadow(tagger, pretrained, tmp_path)[1], len(seen)) == (place, 1)
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
