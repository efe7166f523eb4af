"""Few documents of each provider, and no near copies."""

from collections import Counter
from dataclasses import replace

import nlu_models
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.documents import TrainingRecipe
from audit.corpus.manifest import load, write
from audit.corpus.near_copies import copies_among
from audit.engine.interface import SILENT
from audit.errors import ManifestError, UsageError
from audit.extensions.countermeasures.capping import Capping, cap, write_capped
from audit.targets.encoders.loading import load as load_target


@pytest.fixture(scope="module")
def receipts(tmp_path_factory):
    """Twelve members of three vendors; the last one is a copy of the first, of a vendor of its own."""
    folder = tiny.corpus(tmp_path_factory.mktemp("receipts") / "data", members=12, public=8)
    made = load(folder)
    copy = replace(made.of("member")[0], id="copy", provider="another")
    manifest = replace(made.manifest, recipe=TrainingRecipe(epochs=1))
    write(folder, manifest, [*made.documents, copy])
    return load(folder)


def test_near_copies_are_found_among_documents(receipts):
    assert copies_among(receipts, receipts.of("member")) == (("copy", "m0"),)


@given(st.integers(1, 5), st.integers(0, 50))
def test_no_provider_gives_more_and_one_of_each_group_of_copies_is_kept(receipts, most, seed):
    members = receipts.of("member")
    kept = cap(receipts, members, most=most, seed=seed)
    given_ = Counter(document.provider for document in kept)
    assert max(given_.values()) <= most
    names = {document.id for document in kept}
    assert not {"copy", "m0"} <= names
    # Whoever was left out had a reason: a copy that was kept, or a provider that gave enough.
    for document in members:
        if document.id not in names:
            assert given_[document.provider] == most or (document.id in ("copy", "m0") and names & {"copy", "m0"})


def test_documents_without_a_provider_are_not_limited():
    words = nlu_models.documents()
    corpus = nlu_models.corpus([*words, replace(words[0], id="again")])
    assert len(cap(corpus, corpus.documents, most=1, seed=0)) == len(words)


def test_the_written_data_set_has_all_held_out_documents_and_fewer_of_the_others(receipts, tmp_path):
    write_capped(receipts, tmp_path, most=2)
    data = load(tmp_path)
    assert data.of("heldout") == receipts.of("heldout")
    for split in ("member", "public"):
        assert data.of(split) == cap(receipts, receipts.of(split), most=2, seed=0)
        assert len(data.of(split)) < len(receipts.of(split))


def test_where_nothing_is_left_out_it_says_so(receipts, tmp_path):
    few = replace(receipts, documents=tuple(one for one in receipts.documents if one.id in ("m0", "h0", "p0")))
    with pytest.raises(ManifestError, match="nothing would be left out"):
        write_capped(few, tmp_path)
    with pytest.raises(UsageError, match="1 or more"):
        Capping(0)


def test_a_model_is_trained_on_what_is_left(receipts, checkpoints, tmp_path):
    start = checkpoints("bert", "token-classification")
    made = Capping(most=1).train(receipts, start, tmp_path, device="cpu", progress=SILENT)
    assert Counter(document.provider for document in load(made.data).of("member")).most_common(1)[0][1] == 1
    assert load_target(made.model).card.sha256 != load_target(start).card.sha256
