"""K split models: each document in exactly half, resumable, the same from any engine."""

from dataclasses import dataclass, replace
from pathlib import Path

import asked_pages
import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from progress_log import ProgressLog
from scanned_by_engines import opened_elsewhere

from audit.corpus.manifest import load as load_corpus
from audit.engine.driver import LocalEngine
from audit.errors import EngineError, ManifestError, TargetError, UsageError
from audit.references import training as module
from audit.references.provenance import SPLITS_FILE, folder_of, read_splits
from audit.references.recipes import AnsweringRecipe, Recipe
from audit.references.training import halves_of, train_splits
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.encoders.loading import load

RECIPE = AnsweringRecipe(epochs=2, learning_rate=1e-2, batch_size=3)
K = 4


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return asked_pages.corpus(
        tmp_path_factory.mktemp("pages") / "data", members=12, labels=("TOTAL",)
    )


@pytest.fixture(scope="module")
def trained(start, pages, tmp_path_factory):
    """A folder of split models; read only."""
    out = tmp_path_factory.mktemp("splits") / "out"
    train_splits(start, pages, out, count=K, recipe=RECIPE)
    return out


@pytest.fixture
def untrained(monkeypatch):
    """The trainings that are asked for, by the seed of each.

    A file is written instead of a model.
    """
    asked = []

    def write(how, start, corpus, documents, folder):
        asked.append((how.recipe.seed, [document.id for document in documents]))
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(module, "retrain", write)
    return asked


def hashes(out):
    return {path.name: open_checkpoint(path).sha256 for path in sorted(out.glob("model-*"))}


@given(n_units=st.integers(10, 60), half=st.integers(1, 25), seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_every_unit_is_in_exactly_half_of_the_models_and_no_model_is_empty(n_units, half, seed):
    drawn = halves_of(n_units, 2 * half, seed)
    assert drawn.shape == (n_units, 2 * half)
    assert (drawn.sum(axis=1) == half).all()
    assert drawn.any(axis=0).all()
    assert (drawn == halves_of(n_units, 2 * half, seed)).all()


def test_units_are_drawn_independently_and_every_assignment_is_as_likely():
    """Of 4 models there are 6 ways to be in two: each comes up as often, whatever the unit beside."""
    drawn = halves_of(6000, 4, 0)
    ways, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(ways) == 6
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000 * 5 / 6)
    neighbours = (drawn[:-1] == drawn[1:]).all(axis=1).mean()
    assert abs(neighbours - 1 / 6) < 5 * np.sqrt(1 / 6 * 5 / 6 / 5999)


def test_models_are_where_the_plan_says_and_know_their_documents(trained, pages):
    found = read_splits(trained)
    assert [path.name for path, _ in found] == ["model-00", "model-01", "model-02", "model-03"]
    members = {document.id for document in pages.of("member")}
    assert all(documents < members for _, documents in found)
    assert {sum(name in documents for _, documents in found) for name in members} == {K // 2}
    assert len({load_answering(path).card.sha256 for path, _ in found}) == K


def test_each_model_learns_its_own_documents_with_its_own_seed(start, pages, tmp_path, untrained):
    found = train_splits(start, pages, tmp_path, count=K, recipe=replace(RECIPE, seed=10))
    assert [seed for seed, _ in untrained] == [10, 11, 12, 13]
    assert [frozenset(documents) for _, documents in untrained] == [
        documents for _, documents in found
    ]


def test_copies_are_in_the_same_models_and_only_members_with_questions_are_drawn(
    start, pages, tmp_path, untrained
):
    members = pages.of("member")
    copies = [replace(document, id=f"copy-{document.id}") for document in members]
    silent = replace(members[0], id="silent", questions=())
    doubled = replace(pages, documents=(*pages.documents, *copies, silent))
    for _, documents in train_splits(start, doubled, tmp_path, count=K, recipe=RECIPE):
        assert {f"copy-{name}" for name in documents if not name.startswith("copy-")} == {
            name for name in documents if name.startswith("copy-")
        }
        assert "silent" not in documents


def test_what_is_complete_is_not_trained_again(start, pages, tmp_path, untrained):
    train_splits(start, pages, tmp_path, count=K, recipe=RECIPE)
    untrained.clear()
    (tmp_path / folder_of(2) / "config.json").unlink()
    (tmp_path / folder_of(2)).rmdir()
    (tmp_path / "unfinished-x").mkdir()

    progress = ProgressLog()
    train_splits(start, pages, tmp_path, count=K, recipe=RECIPE, progress=progress)
    assert [seed for seed, _ in untrained] == [2]
    assert (progress.stages, progress.steps) == ([("training split models", 1)], 1)
    assert not (tmp_path / "unfinished-x").exists()


def test_models_of_another_plan_are_not_mixed_in(start, pages, tmp_path, untrained):
    train_splits(start, pages, tmp_path, count=K, recipe=RECIPE)
    plan = (tmp_path / SPLITS_FILE).read_bytes()
    for other in (
        {"count": 2},
        {"count": K, "seed": 1},
        {"count": K, "recipe": replace(RECIPE, epochs=3)},
        {"count": K, "half": True},
    ):
        with pytest.raises(UsageError, match="of another data set, start, recipe, number or seed"):
            train_splits(start, pages, tmp_path, **{"recipe": RECIPE, **other})
    with pytest.raises(UsageError, match="of another data set"):
        train_splits(start, replace(pages, sha256="d" * 64), tmp_path, count=K, recipe=RECIPE)
    assert ((tmp_path / SPLITS_FILE).read_bytes(), len(untrained)) == (plan, K)
    (tmp_path / SPLITS_FILE).unlink()
    with pytest.raises(UsageError, match=f"without {SPLITS_FILE}"):
        train_splits(start, pages, tmp_path, count=K, recipe=RECIPE)


@pytest.mark.parametrize("count", [0, 1, 3, -2])
def test_an_odd_number_of_models_is_refused(start, pages, tmp_path, count):
    with pytest.raises(UsageError, match=f"{count} models"):
        train_splits(start, pages, tmp_path / "out", count=count, recipe=RECIPE)
    assert not (tmp_path / "out").exists()


def test_too_few_documents_are_refused(start, tmp_path):
    few = asked_pages.corpus(tmp_path / "data", members=9)
    with pytest.raises(ManifestError, match="9 different training documents"):
        train_splits(start, few, tmp_path / "out", count=K, recipe=RECIPE)


def test_two_trainings_do_not_share_a_folder(start, pages, tmp_path, untrained):
    from audit.engine.journal import exclusive

    with exclusive(tmp_path), pytest.raises(EngineError, match="is writing here"):
        train_splits(start, pages, tmp_path, count=K, recipe=RECIPE)
    assert untrained == []


def test_a_folder_that_is_not_whole_is_not_read(start, pages, tmp_path, untrained):
    with pytest.raises(ManifestError, match=f"no {SPLITS_FILE}"):
        read_splits(tmp_path)
    train_splits(start, pages, tmp_path, count=K, recipe=RECIPE)
    (tmp_path / folder_of(1)).rename(tmp_path / "elsewhere")
    with pytest.raises(
        TargetError, match=r"1 of 4 models are missing, the first is model-01"
    ) as refused:
        read_splits(tmp_path)
    assert "goes on where it was" in refused.value.hint


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"schema": 2, "corpus": "a", "key": "b", "members": []}', "\xff"]
)
def test_a_damaged_plan_is_an_error(tmp_path, content):
    (tmp_path / SPLITS_FILE).write_bytes(content.encode("latin-1"))
    with pytest.raises(ManifestError, match="not a list of the documents"):
        read_splits(tmp_path)


def test_taggers_are_split_too(checkpoints, tmp_path):
    corpus = load_corpus(tiny.corpus(tmp_path / "data", members=10))
    recipe = Recipe(epochs=1, batch_size=8)
    found = train_splits(
        checkpoints("layoutlm", "mlm", 3), corpus, tmp_path / "out", count=2, recipe=recipe
    )
    models = [load(path, labels=tiny.LABELS) for path, _ in found]
    assert [model.card.task for model in models] == ["token-classification"] * 2
    assert found[0][1] | found[1][1] == {document.id for document in corpus.of("member")}
    assert not found[0][1] & found[1][1]
    assert models[0].card.sha256 != models[1].card.sha256


@dataclass(frozen=True)
class ThroughCopies(LocalEngine):
    """As a worker elsewhere does it: opens the work from copies of the files."""

    place: Path = Path()

    def run(self, source, trials):
        yield from super().run(replace(source, here=opened_elsewhere(source, self.place)), trials)


def test_a_worker_elsewhere_trains_the_same_models_from_copies(start, pages, trained, tmp_path):
    out = tmp_path / "out"
    train_splits(
        start, pages, out, count=K, recipe=RECIPE, engine=ThroughCopies(place=tmp_path / "copies")
    )
    assert hashes(out) == hashes(trained)


def test_a_worker_that_does_not_see_the_folder_says_so(start, pages, tmp_path, untrained):
    @dataclass(frozen=True)
    class Apart(ThroughCopies):
        def run(self, source, trials):
            yield from super().run(
                replace(source, keeps=replace(source.keeps, out=tmp_path / "not there")), trials
            )

    with pytest.raises(EngineError, match="a worker does not see"):
        train_splits(
            start,
            pages,
            tmp_path / "out",
            count=K,
            recipe=RECIPE,
            engine=Apart(place=tmp_path / "copies"),
        )
