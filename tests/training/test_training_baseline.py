"""Baselines: as strong as the audited model, from public documents only, kept by content."""

from dataclasses import replace

import asked_pages
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from progress_log import ProgressLog

from audit.corpus.documents import ReferencePaths, TrainingRecipe
from audit.corpus.manifest import load as load_corpus
from audit.corpus.manifest import write
from audit.errors import EngineError, ManifestError, TargetError
from audit.references import retrain
from audit.references.recipes import AnsweringRecipe, Recipe
from audit.references.retrain import n_samples, recipe_for, repeat_to
from audit.references.trainer import samples_of
from audit.references.training import material, train_baseline
from audit.targets.answering.loading import load_answering
from audit.targets.encoders.loading import load
from audit.targets.interface import Answer

RECIPE = AnsweringRecipe(epochs=2, learning_rate=1e-2, batch_size=4)


@pytest.fixture
def taught(monkeypatch):
    """What each training is given; nothing is trained."""
    seen = []
    monkeypatch.setattr(
        retrain.trainer,
        "fit_answering",
        lambda target, samples, recipe, _: seen.append((samples, recipe)),
    )
    return seen


@given(st.integers(1, 12), st.integers(1, 60), st.integers(0, 9))
def test_repeated_items_are_as_many_as_asked_for_and_drawn_alike(n_items, n, seed):
    drawn = repeat_to(range(n_items), n, seed)
    counts = [drawn.count(item) for item in range(n_items)]
    assert len(drawn) == n
    assert max(counts) - min(counts) <= 1
    assert drawn == repeat_to(range(n_items), n, seed)


def test_which_items_are_cut_follows_the_seed():
    assert len({repeat_to(range(10), 5, seed) for seed in range(20)}) > 10


def test_it_learns_as_many_samples_as_the_audited_model_did_and_only_public_ones(
    start, pages, tmp_path, taught
):
    train_baseline(start, pages, tmp_path, recipe=RECIPE)
    ((samples, recipe),) = taught
    public = {sample.answer for sample in samples_of(pages, pages.of("public"))}
    assert len(samples) == n_samples(pages, pages.of("member")) == 8
    assert ({sample.answer for sample in samples}, n_samples(pages, pages.of("public"))) == (
        public,
        6,
    )
    assert recipe == RECIPE


def test_more_public_documents_than_needed_are_cut(start, tmp_path, taught):
    many = asked_pages.corpus(tmp_path / "data", members=2, public=9)
    train_baseline(start, many, tmp_path, recipe=RECIPE)
    ((samples, _),) = taught
    assert len(samples) == len(set(map(id, samples))) == 4


def test_it_answers_what_public_pages_taught_it_and_is_a_checkpoint_like_the_audited_one(
    start, tmp_path
):
    one = asked_pages.corpus(tmp_path / "data", members=1, public=1, labels=("TOTAL",))
    (folder,) = train_baseline(start, one, tmp_path / "out", recipe=replace(RECIPE, epochs=60))
    (sample,) = samples_of(one, one.of("public"))
    baseline = load_answering(folder)
    assert baseline.ask([Answer(sample.view, sample.question)])[0].text == sample.answer
    assert baseline.card.resolution == load_answering(start).card.resolution


def test_several_baselines_have_seeds_and_weights_of_their_own(start, pages, tmp_path):
    folders = train_baseline(start, pages, tmp_path, count=3, seed=5, recipe=RECIPE)
    assert len({load_answering(folder).card.sha256 for folder in folders}) == 3
    assert train_baseline(start, pages, tmp_path, seed=6, recipe=RECIPE) == folders[1:2]


def test_what_is_there_is_found_and_what_it_depends_on_makes_another(
    start, pages, tmp_path, taught
):
    (first,) = train_baseline(start, pages, tmp_path, recipe=RECIPE)
    assert (train_baseline(start, pages, tmp_path, recipe=RECIPE), len(taught)) == ((first,), 1)
    another_start = asked_pages.donut(tmp_path / "other", seed=1)
    others = [
        train_baseline(start, pages, tmp_path, recipe=replace(RECIPE, epochs=3)),
        train_baseline(start, pages, tmp_path, recipe=RECIPE, half=True),
        train_baseline(start, replace(pages, sha256="d" * 64), tmp_path, recipe=RECIPE),
        train_baseline(another_start, pages, tmp_path, recipe=RECIPE),
    ]
    assert (len({first, *(folder for (folder,) in others)}), len(taught)) == (5, 5)


def test_a_training_that_breaks_down_leaves_nothing(start, pages, tmp_path, monkeypatch):
    def stop(*_, half):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(retrain.trainer, "save_answering", stop)
    monkeypatch.setattr(retrain.trainer, "fit_answering", lambda *_: None)
    with pytest.raises(EngineError, match="No space left"):
        train_baseline(start, pages, tmp_path / "out", recipe=RECIPE)
    assert list((tmp_path / "out").iterdir()) == []


def test_progress_names_the_stage_and_counts_epochs(start, pages, tmp_path):
    progress = ProgressLog()
    train_baseline(start, pages, tmp_path, count=2, recipe=RECIPE, progress=progress)
    assert progress.stages == [(f"training a baseline (seed {seed}), epochs", 2) for seed in (0, 1)]
    assert progress.steps == 4


def test_the_manifest_names_the_start_and_the_recipe(start, tmp_path, taught):
    references = ReferencePaths(pretrained="references/start")
    recipe = TrainingRecipe(epochs=1, learning_rate=1e-2, batch_size=2, seed=9)
    named = asked_pages.corpus(tmp_path / "data", references=references, recipe=recipe)
    with pytest.raises(TargetError, match=r"reference pretrained: .* is not a folder"):
        train_baseline(None, named, tmp_path / "out")
    asked_pages.donut(tmp_path / "data" / "references" / "start")
    train_baseline(None, named, tmp_path / "out")
    assert taught[0][1] == AnsweringRecipe(epochs=1, learning_rate=1e-2, batch_size=2, seed=9)


def test_without_a_start_the_owner_is_told_how_to_name_one(pages, tmp_path):
    with pytest.raises(TargetError, match="what the audited model was fine-tuned from") as refused:
        train_baseline(None, pages, tmp_path)
    assert "references.pretrained" in refused.value.hint


def test_without_public_questions_there_is_nothing_to_train_on(start, tmp_path):
    with pytest.raises(ManifestError, match="no public document has a question with an answer"):
        train_baseline(start, asked_pages.corpus(tmp_path, public=0), tmp_path / "out")


def test_copies_of_audited_documents_are_left_out(pages):
    copies = [
        replace(document, id=f"copy-{document.id}", split="public")
        for document in pages.of("member", "heldout")
    ]
    doubled = replace(pages, documents=(*pages.documents, *copies))
    assert material(doubled).documents == pages.of("public")
    only = replace(pages, documents=(*pages.of("member", "heldout"), *copies))
    with pytest.raises(ManifestError, match=r"all 6 public documents .* are copies"):
        material(only)


def test_copies_without_words_are_known_by_their_image(tmp_path):
    """A Donut needs no words: what the page says is in its image alone."""
    made = asked_pages.corpus(tmp_path, members=2, heldout=0, public=2)
    wordless = []
    for document in made.documents:
        tiny.page_image(document).save(tmp_path / document.image)
        questions = tuple(replace(question, entity=None) for question in document.questions)
        wordless.append(replace(document, words=(), entities=(), links=(), questions=questions))
    (tmp_path / "images" / "p0.png").write_bytes((tmp_path / "images" / "m1.png").read_bytes())
    write(tmp_path, made.manifest, wordless)
    found = material(load_corpus(tmp_path))
    assert [document.id for document in found.documents] == ["p1"]


def test_a_tagger_gets_baselines_too(checkpoints, tmp_path):
    corpus = load_corpus(tiny.corpus(tmp_path / "data", members=5, public=3))
    recipe = Recipe(epochs=1, batch_size=4)
    (folder,) = train_baseline(
        checkpoints("layoutlm", "mlm", 3), corpus, tmp_path / "out", recipe=recipe
    )
    made = load(folder, labels=tiny.LABELS)
    assert (made.card.task, made.labels) == ("token-classification", tiny.LABELS)
    before = load(checkpoints("layoutlm", "mlm", 3)).model.state_dict()
    after = made.model.state_dict()
    assert any(not torch.equal(after[name], before[name]) for name in after if name in before)


def test_recipes_follow_the_task(tmp_path):
    given = TrainingRecipe(
        epochs=7, learning_rate=1e-3, seed=0, prompt="{question}", label_all_tokens=True
    )
    tagged = load_corpus(tiny.corpus(tmp_path / "tagged"))
    tagged = replace(tagged, manifest=replace(tagged.manifest, recipe=given))
    assert recipe_for(tagged) == replace(Recipe(), epochs=7, learning_rate=1e-3)
    asked = recipe_for(asked_pages.corpus(tmp_path / "asked", recipe=given))
    assert asked == AnsweringRecipe(epochs=7, learning_rate=1e-3, prompt="{question}")
