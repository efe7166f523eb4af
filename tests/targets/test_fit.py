"""How a model and a data set fit: words behind its window, and its task on training pages."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import parsed_pages
import pytest
from answering_checkpoints import make_donut
from text_zoo import write_text_model

from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.manifest import load
from audit.targets import fit
from audit.targets.answering.loading import load_answering
from audit.targets.fit import TaskScore, WordsRead, fit_of, words_read
from audit.targets.opening import Checkpoint, target_of

LETTERS = Path(__file__).resolve().parents[2] / "sample_models" / "letters"


@pytest.fixture(scope="module")
def letters() -> Corpus:
    return load(LETTERS / "data")


@pytest.fixture(scope="module")
def tagger(letters: Corpus) -> Checkpoint:
    return target_of(LETTERS / "model", letters)


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return parsed_pages.corpus(tmp_path_factory.mktemp("pages") / "data", members=3)


def repeated(document: Document, times: int) -> Document:
    """A page with its words several times, without fields."""
    return replace(document, words=document.words * times, entities=())


def asked(document: Document, times: int = 1) -> Document:
    return replace(repeated(document, times), questions=(Question("q", "Total?", ("9",)),))


def test_a_tagger_that_knows_its_letters_fits(tagger: Checkpoint, letters: Corpus) -> None:
    seen = fit_of(tagger, letters)
    (score,) = seen.scores
    assert (score.measure, score.pages) == ("entity_f1", fit.PAGES)
    assert score.value > 0.9
    assert seen.warnings == ()
    assert seen.read is not None
    assert seen.read.behind == 0


def test_labels_in_another_order_are_doubted(letters: Corpus, tmp_path: Path) -> None:
    shifted = tmp_path / "model"
    shutil.copytree(LETTERS / "model", shifted)
    config = json.loads((shifted / "config.json").read_text())
    names = [*config["id2label"].values()]
    names = [names[0], *names[3:], *names[1:3]]
    config["id2label"] = {str(number): name for number, name in enumerate(names)}
    config["label2id"] = {name: number for number, name in enumerate(names)}
    (shifted / "config.json").write_text(json.dumps(config))
    seen = fit_of(target_of(shifted, letters), letters)
    text = " ".join(seen.warnings)
    assert seen.scores[0].value < 0.3
    assert "Do the labels fit, in the order of the outputs?" in text
    assert len(seen.warnings) == 2, "the check of their order says which"


def test_words_behind_the_row_of_a_tagger_are_counted(tagger: Checkpoint, letters: Corpus) -> None:
    page = letters.of("member")[0]
    times = 2 + tagger.card.max_tokens // len(page.words)
    long_page = repeated(page, times)
    read = words_read(tagger, [page, long_page])
    assert read is not None
    assert (read.pages, read.cut) == (2, 1)
    encoded = tagger.encode(long_page)  # type: ignore[union-attr]
    assert encoded is not None
    n_read = int(encoded.words.max()) + 1
    assert read.behind == len(long_page.words) - n_read
    assert read.words == len(page.words) + len(long_page.words)
    (sentence,) = read.sentences
    share = round(100 * read.behind / read.words)
    assert sentence.startswith(f"{share} % of the words of training are behind")
    assert f"{tagger.card.max_tokens} tokens" in sentence
    assert "on 1 of 2 pages" in sentence


@pytest.mark.parametrize("kind", ["qwen2", "bart"])
def test_words_behind_the_row_of_a_model_of_text_are_counted(
    kind: str, parsed: Corpus, tmp_path: Path
) -> None:
    prompt = "{text}\n{question}"
    target = load_answering(write_text_model(tmp_path / kind, kind, ends=""), prompt=prompt)
    page = asked(parsed.of("member")[0])
    short = replace(page, words=page.words[:3])
    read = words_read(target, [short])
    assert read is not None
    assert read.behind == 0
    long_page = asked(page, 2 + target.reader.max_tokens // len(page.words))
    read = words_read(target, [long_page])
    assert read is not None
    assert 0 < read.behind < read.words


def test_a_model_that_sees_pictures_has_no_window_of_words(parsed: Corpus, tmp_path: Path) -> None:
    target = load_answering(make_donut(tmp_path / "donut"))
    assert words_read(target, [asked(parsed.of("member")[0])]) is None


def test_a_parsing_model_that_learnt_nothing_is_doubted(parsed: Corpus, tmp_path: Path) -> None:
    target = target_of(parsed_pages.donut(tmp_path / "donut"), parsed)
    target.reader.max_new_tokens = 20  # type: ignore[union-attr]
    seen = fit_of(target, parsed)
    assert [score.measure for score in seen.scores] == ["anls"]
    assert any("Is the model asked as in training" in text for text in seen.warnings)


def test_a_model_that_takes_too_long_is_not_tried(
    parsed: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "SECONDS", 0.0)
    target = target_of(parsed_pages.donut(tmp_path / "donut"), parsed)
    target.reader.max_new_tokens = 5  # type: ignore[union-attr]
    assert fit_of(target, parsed).scores == ()


@pytest.mark.parametrize(
    ("measure", "value", "chance", "doubtful"),
    [
        ("entity_f1", 0.22, 0.33, True),
        ("entity_f1", 0.49, 0.1, True),
        ("entity_f1", 0.51, 0.1, False),
        ("class_accuracy", 0.7, 0.8, True),
        ("masked_token_accuracy", 0.3, 0.1, False),
        ("masked_token_accuracy", 0.06, 0.08, True),
        ("anls", 0.2, None, True),
    ],
)
def test_what_is_no_better_than_chance_or_half_is_doubted(
    measure: str, value: float, chance: float | None, doubtful: bool
) -> None:
    score = TaskScore(measure, value, chance, 10)
    assert score.is_doubtful == doubtful
    assert score.sentence.endswith("?") == doubtful


def test_every_measure_has_words() -> None:
    for name in fit.SCORES:
        score = TaskScore(name, 0.0, 0.1, 10)
        assert score.sentence.startswith("The task on 10 training pages: ")


def test_nothing_is_said_of_words_that_are_all_read() -> None:
    assert WordsRead(100, 0, 5, 0, 512).sentences == ()
