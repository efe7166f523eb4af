"""Fine-tuning of question-answering models: what is taught is learnt, the same way each time, and can be loaded."""

from dataclasses import replace

import pytest
import torch
from answering_checkpoints import make_chat, make_pix2struct, make_vit_decoder
from PIL import Image
from progress_log import ProgressLog
from text_answering_checkpoints import make_udop, make_vt5

from audit.corpus.images import PageView, page_view
from audit.errors import TargetError
from audit.references.recipes import AnsweringRecipe
from audit.references.trainer import fit_answering, samples_of, save_answering
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.interface import Answer, AnswerLoss

RECIPE = AnsweringRecipe(epochs=3, learning_rate=1e-2, batch_size=4)


def weights(target):
    return {name: value.clone() for name, value in target.model.state_dict().items()}


def trained(start, samples, recipe=RECIPE, prompt=None, **more):
    target = load_answering(start, prompt=prompt)
    return target, fit_answering(target, samples, recipe, **more)


def test_an_answer_is_memorised_after_enough_steps_and_survives_saving(start, pages, tmp_path):
    sample = samples_of(pages, pages.of("member"))[0]
    query = Answer(sample.view, sample.question)
    loss = AnswerLoss(sample.view, sample.question, sample.answer)
    before = load_answering(start)
    target, _ = trained(start, [sample], replace(RECIPE, epochs=160))
    save_answering(target.model, start, tmp_path / "saved")
    again = load_answering(tmp_path / "saved")
    assert before.ask([query])[0].text != sample.answer
    assert -before.ask([loss])[0].mean() > 5
    for one in (target, again):
        assert one.ask([query])[0].text == sample.answer
        assert -one.ask([loss])[0].mean() < 0.5
    assert again.card.sha256 != before.card.sha256


@pytest.mark.parametrize(
    "make", [make_vit_decoder, make_pix2struct, make_chat, make_vt5, make_udop]
)
def test_every_family_learns_and_is_saved_whole(make, pages, tmp_path):
    samples = samples_of(pages, pages.of("member"))[:2]
    start = make(tmp_path / "start")
    prompt = "Question: {question} Answer:" if make is make_vit_decoder else None
    target, losses = trained(start, samples, replace(RECIPE, epochs=16), prompt)
    assert losses[-1] < 0.95 * losses[0]
    save_answering(target.model, start, tmp_path / "saved")
    again = load_answering(tmp_path / "saved", prompt=prompt)
    for sample in samples:
        query = AnswerLoss(sample.view, sample.question, sample.answer)
        assert torch.equal(*(torch.from_numpy(one.ask([query])[0]) for one in (target, again)))


def test_the_loss_falls_over_the_epochs_and_each_is_told(start, pages):
    progress = ProgressLog()
    _, losses = trained(
        start, samples_of(pages, pages.of("member")), replace(RECIPE, epochs=8), progress=progress
    )
    assert len(losses) == progress.steps == 8
    assert losses[-1] < 0.7 * losses[0]


def test_the_same_seed_gives_the_same_weights_and_another_one_others(start, pages):
    samples = samples_of(pages, pages.of("member"))
    recipe = replace(RECIPE, epochs=1, batch_size=2)
    state = torch.get_rng_state()
    first, again, other = (
        weights(trained(start, samples, replace(recipe, seed=seed))[0]) for seed in (0, 0, 1)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.are_deterministic_algorithms_enabled()


def test_pages_are_opened_batch_by_batch_and_not_kept(start, pages):
    opened = []

    def page(number):
        def open_page():
            opened.append(number)
            return Image.new("RGB", (40, 30), (number, 0, 0))

        return open_page

    views = [PageView((), (40, 30), page(number)) for number in range(4)]
    samples = [Sample(view, question, "1") for view in views for question in ("a?", "b?")]
    trained(start, samples, replace(RECIPE, epochs=2, batch_size=8))
    # One batch an epoch; two questions on one page open it once.
    assert sorted(opened) == sorted([*range(4), *range(4)])
    assert all("image" not in vars(view) for view in views)


def test_the_start_is_left_as_it_was_and_its_files_go_along(start, pages, tmp_path):
    names = {path.name: path.read_bytes() for path in start.iterdir()}
    target, _ = trained(start, samples_of(pages, pages.of("member"))[:2], replace(RECIPE, epochs=1))
    save_answering(target.model, start, tmp_path / "saved")
    assert {path.name: path.read_bytes() for path in start.iterdir()} == names
    saved = {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}
    changed = {name for name in names if saved.get(name) != names[name]}
    assert changed <= {"model.safetensors", "config.json"}
    assert "generation_config.json" in saved


def test_what_tells_of_the_starts_own_training_stays_behind(start, pages, tmp_path):
    import shutil

    other = tmp_path / "start"
    shutil.copytree(start, other)
    (other / "trainer_state.json").write_text('{"epoch": 3, "global_step": 7}')
    (other / "chat_template.jinja").write_text("{{ messages }}")
    target, _ = trained(other, samples_of(pages, pages.of("member"))[:2], replace(RECIPE, epochs=1))
    save_answering(target.model, other, tmp_path / "saved")
    assert not (tmp_path / "saved" / "trainer_state.json").exists()
    assert (tmp_path / "saved" / "chat_template.jinja").read_text() == "{{ messages }}"


def test_bfloat16_trains_weights_that_stay_float32(start, pages):
    samples = samples_of(pages, pages.of("member"))
    target, losses = trained(start, samples, replace(RECIPE, bf16=True))
    assert losses[-1] < losses[0]
    assert {value.dtype for value in target.model.parameters()} == {torch.float32}
    assert losses != trained(start, samples)[1]


def test_samples_are_the_questions_with_their_first_answers(pages):
    documents = pages.of("member")
    samples = samples_of(pages, documents)
    expected = [
        (question.question, question.answers[0]) for one in documents for question in one.questions
    ]
    assert ([(sample.question, sample.answer) for sample in samples], len(expected)) == (
        expected,
        8,
    )
    assert samples[0].view is samples[1].view  # one page, two questions
    several = replace(documents[0].questions[0], answers=("first", "second"))
    none = replace(documents[0].questions[0], id="none", answers=())
    assert [
        s.answer for s in samples_of(pages, [replace(documents[0], questions=(several, none))])
    ] == ["first"]


def test_nothing_to_learn_is_an_error(start, pages):
    with pytest.raises(TargetError, match="no question to train on"):
        trained(start, [])
    with pytest.raises(TargetError, match="has no answer"):
        trained(start, [Sample(page_view(pages, pages.documents[0]), "total?")])
