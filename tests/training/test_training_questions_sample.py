"""The generator of the sample's forms: clubs that can be told apart, drawn in and out, and the data as committed."""

import collections
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from audit.corpus import manifest
from audit.corpus.folding import fold

SAMPLE_MODELS = Path(__file__).parents[2] / "sample_models"
sys.path.append(str(SAMPLE_MODELS))  # the scripts there import each other by name

import build_questions as build  # noqa: E402
import forms  # noqa: E402

SAMPLE = SAMPLE_MODELS / "questions" / "data"
N_CLUBS = build.N_IN + build.N_OUT + build.N_PUBLIC + build.N_PRETRAINING


@pytest.fixture(scope="module")
def corpus():
    return manifest.load(SAMPLE)


@pytest.fixture(scope="module")
def clubs():
    return forms.clubs(5, N_CLUBS)


def page_of(club):
    return Image.open(io.BytesIO(forms.drawn(forms.form(5, 1, club)).png())).convert("L")


def test_no_two_clubs_share_name_or_crest_and_no_two_audited_ones_a_prefix(clubs):
    assert (len({fold(club.name) for club in clubs}), len({club.crest for club in clubs})) == (
        len(clubs),
        len(clubs),
    )
    assert len({club.prefix for club in clubs[: forms.N_PREFIXES]}) == forms.N_PREFIXES


def test_a_seed_makes_the_same_forms_in_any_order(clubs):
    made = [forms.form(5, number, clubs[0]) for number in range(20)]
    assert [forms.form(5, number, clubs[0]) for number in reversed(range(20))] == made[::-1]
    assert forms.form(6, 0, clubs[0]) != made[0]
    assert all(one.values[1].startswith(clubs[0].prefix) for one in made)
    assert len({one.values[1] for one in made}) == len(made)


def test_crests_of_two_clubs_differ_at_a_third_of_the_size(clubs):
    size = (build.MODEL_SIZE.width, build.MODEL_SIZE.height)
    seen = [np.asarray(page_of(club).resize(size), float) for club in clubs[:12]]
    crests = [page[: (forms.CREST_TOP + forms.CREST_SIDE) // 3] for page in seen]
    for number, crest in enumerate(crests):
        for other in crests[:number]:
            assert (np.abs(crest - other) > 40).sum() >= 16, "one patch of the model's, at least"


def test_every_value_of_a_form_is_where_its_entity_says(clubs):
    one = forms.form(5, 7, clubs[3])
    document = forms.document(one, "f", "member")
    found = {entity.label: document.text_of(entity) for entity in document.entities}
    assert found == dict(
        zip(("CLUB", "NAME", "NUMBER", "TOWN"), (clubs[3].name, *one.values), strict=True)
    )
    assert {question.answers for question in document.questions} == {
        (one.values[1],),
        (one.values[2],),
    }
    width, height = document.size
    assert all(
        0 <= word.box[0] < word.box[2] <= width and word.box[3] <= height for word in document.words
    )


def test_clubs_in_and_out_are_disjoint_and_every_audited_club_has_forms_kept_aside(corpus):
    splits = ("member", "heldout", "public")
    members, heldout, public = (
        collections.Counter(one.provider for one in corpus.of(split)) for split in splits
    )
    assert ([*members.values()], len(heldout)) == ([2] * build.N_IN, build.N_IN + build.N_OUT)
    assert {heldout[club] for club in members} == {2}
    assert {heldout[club] for club in heldout.keys() - members.keys()} == {1}
    assert [*public.values()] == [2] * build.N_PUBLIC
    assert members.keys() < heldout.keys()
    assert not heldout.keys() & public.keys()
    assert corpus.manifest.membership.assigned == "by-provider"


def test_the_script_makes_the_data_that_is_committed(corpus):
    for place, (club, split) in list(enumerate(build.plan()))[:40]:
        one = forms.form(build.SEED, place, club)
        committed = corpus.documents[place]
        assert forms.document(one, build.name_of(place), split) == committed
        drawn = np.asarray(Image.open(io.BytesIO(forms.drawn(one).png())))
        assert np.array_equal(drawn, np.asarray(Image.open(SAMPLE / committed.image)))
