"""Pages written otherwise than in training: every change is noticed and named, and right pages raise no alarm."""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import noisy_utterances as noisy
import numpy as np
import planted
import pytest
import tiny
from PIL import Image
from PIL.Image import Transpose
from test_membership_planted import corpus

from audit.arrays import Floats
from audit.attacks.membership import rewriting, writing
from audit.attacks.membership.pictures import picture_changes
from audit.attacks.membership.rewriting import Way
from audit.attacks.membership.writing import Asking, Gain, check_writing
from audit.case import Case, References
from audit.corpus import manifest
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Question, Task, Word
from audit.engine.interface import SILENT
from audit.measurements import Check
from audit.targets.encoded_page import Encoding, PageImage
from audit.targets.interface import AnswerLoss, TrainingLoss
from audit.targets.opening import target_of

N_PAGES = 26
SIZE = (480, 640)
SAMPLE = Path(__file__).parents[2] / "sample_models" / "receipts"
Rewriting = Callable[[Document], Document]


def page(number: int) -> Document:
    """Draw a page of three lines whose letters are equally wide, so that a line's box can be cut into its words'."""
    rng = np.random.default_rng([4, number])
    words = []
    for line in range(3):
        left = float(rng.integers(20, 60))
        top = 80.0 + 200 * line + float(rng.integers(40))
        for _ in range(3):
            text = "n" * int(rng.integers(2, 9))
            words.append(Word(text, (left, top, left + 8 * len(text), top + 12)))
            left += 8 * (len(text) + 1)
    return Document(f"p{number:02d}", "member", tuple(words), size=SIZE)


PAGES = [page(number) for number in range(N_PAGES)]


def boxes_of(document: Document) -> Floats:
    """Return the boxes of a page as shares of it."""
    pixels = np.array([word.box for word in document.words], np.float64)
    return np.clip(pixels / [*SIZE, *SIZE], 0, 1)


class Remembering:
    """A tagger of 0.3 nats on a page with the boxes of its training, and of 2 nats where these are far off.

    Args:
        trained: pages as they were in training.
        looks: whether it looks at boxes.
    """

    answers = frozenset({TrainingLoss})
    labels = ()

    def __init__(self, trained: Sequence[Document], looks: bool = True) -> None:
        self.card = planted.card("token-classification")
        self.trained = {int(document.id[1:]): boxes_of(document) for document in trained}
        self.looks = looks
        self.n_asked = 0

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding:
        words = np.arange(len(document.words))
        ids = np.array([_token(word.text) for word in document.words])
        ids[0] = int(document.id[1:])
        return Encoding(ids, boxes_of(document), words, np.zeros(len(words), np.int64), 0, 1)

    def ask(self, queries: Sequence[Any]) -> list[Floats]:
        self.n_asked += len(queries)
        return [np.array([self.loss(query.page)]) for query in queries]

    def loss(self, encoding: Encoding) -> float:
        number = int(encoding.ids[0])
        difficulty = float(np.random.default_rng([5, number]).gamma(4.0, 0.075))
        if not self.looks:
            return difficulty
        if number not in self.trained:
            # Every writing is a little easier or harder by chance.
            digest = hashlib.sha256(encoding.boxes.tobytes()).digest()
            return difficulty * (1 + 0.03 * float(np.random.default_rng([*digest]).normal()))
        thousandths = 1000 * float(np.abs(encoding.boxes - self.trained[number]).mean())
        return difficulty + 1.7 * (1 - np.exp(-thousandths / 2)) + 0.0001 * thousandths


def _token(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:3])


def case_of(target: Any, documents: Sequence[Document], kind: Any = "token-classification") -> Case:
    settings = Manifest(1, "planted", Task(kind), Membership("random"))
    return Case(target, Corpus(Path(), settings, tuple(documents), "0" * 64))


def check_of(case: Case) -> Check:
    (check,) = check_writing(Asking(case, 64, SILENT), case.corpus.of("member"))
    assert isinstance(check, Check)
    return check


def scaled(x_scale: float, y_scale: float | None = None) -> Rewriting:
    y_scale = x_scale if y_scale is None else y_scale
    return lambda document: moved(document, [x_scale, y_scale] * 2, [0.0] * 4)


def shifted(x_pixels: float, y_pixels: float) -> Rewriting:
    return lambda document: moved(document, [1.0] * 4, [x_pixels, y_pixels] * 2)


def moved(document: Document, scales: list[float], shifts: list[float]) -> Document:
    boxes = np.array([word.box for word in document.words]) * scales + shifts
    words = [
        dataclasses.replace(word, box=tuple(box))
        for word, box in zip(document.words, boxes, strict=True)
    ]
    return dataclasses.replace(document, words=tuple(words))


def in_way(name: str) -> Rewriting:
    """Write pages in one of the ways that the check tries."""
    ways = rewriting.ways_of_writing(case_of(None, PAGES).corpus)
    return next(way.rewrite for way in ways if way.name == f"with boxes {name}")


WRONG = [
    pytest.param(scaled(0.985), "scaled by 1.015", id="1.5 % too small"),
    pytest.param(scaled(1.015), "scaled by 0.985", id="1.5 % too large"),
    pytest.param(scaled(0.97), "scaled by 1.03", id="3 % too small"),
    pytest.param(scaled(0.5), "scaled by 2", id="half as large"),
    pytest.param(scaled(0.72), "scaled by 1.39", id="0.72"),
    pytest.param(
        scaled(0.48),
        "in pixels of 150 dots an inch for points",
        id="points on a page of 150 dots an inch",
    ),
    pytest.param(
        scaled(0.9722, 1.0631), "of an A4 page for those of a letter page", id="A4 for letter"
    ),
    pytest.param(scaled(1.0, 0.985), "scaled by 1.015 in height", id="1.5 % too low"),
    pytest.param(scaled(0.97, 1.0), "scaled by 1.03 in width", id="3 % too narrow"),
    pytest.param(shifted(2, 2), "shifted left and up by 2 pixels", id="shifted by 2 pixels"),
    pytest.param(shifted(-1, 0), "shifted right by 1 pixel", id="shifted by 1 pixel"),
    pytest.param(shifted(0, 5), "shifted up by 5 pixels", id="shifted down"),
    pytest.param(
        in_way("of a page with margins of 3 % added"),
        "of a page without margins of 3 %",
        id="margins",
    ),
    pytest.param(
        in_way("of whole lines"),
        "of words cut out of those of lines",
        id="line boxes for word boxes",
    ),
    pytest.param(in_way("upside down"), "upside down", id="upside down"),
    pytest.param(in_way("mirrored"), "mirrored", id="mirrored"),
    pytest.param(in_way("of swapped axes"), "of swapped axes", id="axes swapped"),
]


@pytest.mark.parametrize(("wrong", "correction"), WRONG)
def test_boxes_that_are_not_those_of_training_are_noticed_and_named(
    wrong: Rewriting, correction: str
) -> None:
    audited = [wrong(document) for document in PAGES]
    check = check_of(case_of(Remembering(PAGES), audited))
    assert check.p_value <= 0.0001
    assert (
        f"pages written with boxes {correction} fit the model better than as they are"
        in check.reason
    )
    assert f"perhaps with boxes {correction}," in check.remedy
    assert check.cause == "alarm"


def test_the_remedy_ends_the_alarm() -> None:
    audited = [scaled(0.985)(document) for document in PAGES]
    corrected = [in_way("scaled by 1.015")(document) for document in audited]
    assert check_of(case_of(Remembering(PAGES), corrected)).p_value == 1.0


def test_a_reference_that_learnt_on_the_audited_boxes_cancels_no_alarm() -> None:
    """It gains as much by right boxes as the target does by its own, as the tokens are the same."""
    audited = [scaled(0.985)(document) for document in PAGES]
    case = case_of(Remembering(PAGES), audited)
    alike = dataclasses.replace(case, references=References(baselines=(Remembering(PAGES),)))
    assert check_of(alike).p_value == check_of(case).p_value <= 0.0001


@pytest.mark.parametrize("trained", [PAGES, []], ids=["leaks", "clean"])
def test_right_boxes_raise_no_alarm(trained: list[Document]) -> None:
    check = check_of(case_of(Remembering(trained), PAGES))
    assert check.p_value == 1.0
    assert "no other way of writing fits the model clearly better" in check.reason


def test_a_model_that_looks_at_no_box_is_not_asked_about_every_way() -> None:
    target = Remembering(PAGES, looks=False)
    check_of(case_of(target, PAGES))
    looking = Remembering(PAGES)
    check_of(case_of(looking, PAGES))
    assert target.n_asked < looking.n_asked / 5


class Seeing:
    """A model of 0.3 nats where it sees the picture of its training, and of 2 nats where it sees another one."""

    answers = frozenset({AnswerLoss})

    def __init__(self, trained: dict[str, Image.Image]) -> None:
        self.card = planted.card("question-answering")
        self.trained = trained

    def ask(self, queries: Sequence[Any]) -> list[Floats]:
        return [
            np.array([-self.loss(query.view.words[0].text.lower(), query.view.image)])
            for query in queries
        ]

    def loss(self, name: str, seen: Image.Image) -> float:
        far = float(np.abs(np.asarray(seen, float) - np.asarray(self.trained[name], float)).mean())
        return 0.3 + 1.7 * (1 - np.exp(-far / 8))


class SeeingPages(Seeing):
    """The same as a tagger that reads words beside the picture."""

    answers = frozenset({TrainingLoss})
    labels = ()

    def __init__(self, trained: dict[str, Image.Image], opened: dict[str, Image.Image]) -> None:
        super().__init__(trained)
        self.opened = opened

    def encode(self, document: Document, around: Sequence[int] = ()) -> Encoding:
        pixels = np.asarray(self.opened[document.id], np.uint8).transpose(2, 0, 1)
        picture = PageImage(lambda: pixels, pixels.shape[1:])
        label = np.zeros(1, np.int64)
        return Encoding(
            np.array([_token(document.id)]),
            np.zeros((1, 4)),
            label,
            label,
            0,
            1,
            page_image=picture,
        )

    def ask(self, queries: Sequence[Any]) -> list[Floats]:
        names = {_token(name): name for name in self.trained}
        losses = []
        for query in queries:
            seen = Image.fromarray(query.page.page_image.pixels.transpose(1, 2, 0))
            losses.append(np.array([self.loss(names[int(query.page.ids[0])], seen)]))
        return losses


Gallery = tuple[Path, list[Document], dict[str, Image.Image]]


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    """A folder with a picture for each page, coloured noise that is darker above.

    The pages; the pictures by page.
    """
    folder = tmp_path_factory.mktemp("gallery")
    documents = []
    pictures = {}
    for number in range(N_PAGES):
        name = f"p{number:02d}"
        noise = np.random.default_rng([6, number]).integers(90, 200, (24, 32, 3))
        noise[:12] -= 80
        pictures[name] = Image.fromarray(noise.astype(np.uint8))
        pictures[name].save(folder / f"{name}.png")
        question = Question("q", "what?", ("yes",))
        documents.append(
            Document(name, "member", (Word(name),), f"{name}.png", (32, 24), questions=(question,))
        )
    return folder, documents, pictures


def turned(picture: Image.Image) -> Image.Image:
    return picture.transpose(Transpose.ROTATE_180)


SEEN = [
    pytest.param(turned, "with pictures turned by 180 degrees", id="upside down"),
    pytest.param(
        picture_changes()["with inverted pictures"], "with inverted pictures", id="inverted"
    ),
    pytest.param(
        picture_changes()["with half the contrast"],
        "with half the contrast",
        id="half the contrast",
    ),
    pytest.param(picture_changes()["with grey pictures"], "with grey pictures", id="grey"),
    pytest.param(
        picture_changes()["with pictures of half the resolution"],
        "with pictures of half the resolution",
        id="coarse",
    ),
    pytest.param(lambda picture: picture, None, id="as in training"),
]


@pytest.mark.parametrize("reads", ["answers", "pages"])
@pytest.mark.parametrize(("change", "correction"), SEEN)
def test_pictures_that_are_not_those_of_training_are_noticed_and_named(
    gallery: Gallery,
    reads: str,
    change: Callable[[Image.Image], Image.Image],
    correction: str | None,
) -> None:
    folder, documents, pictures = gallery
    trained = {name: change(picture) for name, picture in pictures.items()}
    if reads == "answers":
        case = case_of(Seeing(trained), documents, "question-answering")
    else:
        case = case_of(SeeingPages(trained, pictures), documents)
    corpus_of_pictures = dataclasses.replace(case.corpus, root=folder.resolve())
    check = check_of(dataclasses.replace(case, corpus=corpus_of_pictures))
    if correction is None:
        assert check.p_value == 1.0
    else:
        assert check.p_value <= 0.0001
        assert f"pages written {correction} fit the model better" in check.reason


def test_every_spelling_and_unit_changes_what_it_says() -> None:
    words = (Word("toTAL:", (10.0, 20.0, 30.0, 40.0)), Word("9", (50.0, 20.0, 900.0, 40.0)))
    document = Document("a", "member", words, size=(500, 2000))
    settings = Manifest(
        1, "planted", Task("token-classification", noisy.TAGS), Membership("random")
    )
    ways = rewriting.ways_of_writing(dataclasses.replace(corpus(1, 1), manifest=settings))
    rewritten = {way.name: way.rewrite(document).words for way in ways}
    assert [word.text for word in rewritten["in capitals"]] == ["TOTAL:", "9"]
    assert [word.text for word in rewritten["in lower case"]] == ["total:", "9"]
    assert [word.text for word in rewritten["with capital initials"]] == ["Total:", "9"]
    assert [word.text for word in rewritten["without punctuation"]] == ["toTAL", "9"]
    assert [word.box for word in rewritten["with boxes in pixels"]] == [
        (5.0, 40.0, 15.0, 80.0),
        (25.0, 40.0, 450.0, 80.0),
    ]
    assert rewritten["with boxes shifted left by 1 pixel"][0].box == (9.0, 20.0, 29.0, 40.0)
    assert rewritten["with boxes mirrored"][0].box == (470.0, 20.0, 490.0, 40.0)
    assert rewritten["with boxes scaled by 2"][1].box == (100.0, 40.0, 500.0, 80.0)
    assert rewritten["with boxes of whole lines"][0].box == (10.0, 20.0, 900.0, 40.0)
    names = [way.name for way in ways]
    assert len(names) == len(set(names))


def test_what_the_model_reads_alike_costs_nothing(tmp_path: Path) -> None:
    """A tokenizer that folds case reads capitals as lower case: no question is asked for them."""
    folder = tiny.corpus(
        tmp_path / "data", members=25, heldout=5, public=3, kind="token-classification"
    )
    world = manifest.load(folder)
    case = Case(
        target_of(tiny.checkpoint(tmp_path / "model", "bert", "token-classification"), world), world
    )
    changed = {
        way.name: writing.rewrite(case, way, world.of("member"))
        for way in rewriting.ways_of_writing(world)
        if way.kind == "text"
    }
    assert changed["in capitals"] == changed["in lower case"] == {}
    assert changed["without punctuation"]


SPELT = Way("in capitals", "text")


def _losses(before: float, after: float, seed: int = 3, n: int = 20) -> Floats:
    noise = np.random.default_rng(seed).normal(0, 0.1, (n, 2))
    return np.array([before, after]) + noise


def test_a_spelling_that_is_easier_for_every_model_is_no_sign() -> None:
    target = _losses(2.0, 1.0)
    beside = writing.judge_gains([Gain(SPELT, target, np.tile([2.0, 1.0], (20, 1)))], 20)
    alone = writing.judge_gains([Gain(SPELT, target)], 20)
    assert beside.p_value > 0.05
    assert alone.p_value <= 0.001


def test_losses_of_changed_tokens_are_not_compared_without_a_reference(tmp_path: Path) -> None:
    folder = tiny.corpus(tmp_path / "data", members=14, heldout=5, public=3)
    world = manifest.load(folder)
    case = Case(target_of(tiny.checkpoint(tmp_path / "model", "bert", "mlm"), world), world)
    outcomes = [*check_writing(Asking(case, 64, SILENT), world.of("member"))]
    assert "losses of changed tokens need a reference, and there is none" in outcomes


def test_small_gains_are_no_sign() -> None:
    """A gain of 4 % on each of 20 documents is certain, and harmless."""
    before = np.random.default_rng(2).gamma(4.0, 0.5, 20)
    small = Gain(Way("with boxes mirrored", "boxes"), np.stack([before, 0.96 * before], axis=1))
    large = Gain(Way("with boxes mirrored", "boxes"), np.stack([before, 0.85 * before], axis=1))
    assert writing.best_ways([small]) == []
    assert writing.best_ways([large]) == [large.way]
    assert writing.judge_gains([small], 20).p_value == 1.0
    assert writing.judge_gains([large], 20).p_value <= 0.001


def test_false_alarms_are_as_rare_as_stated_however_many_ways_are_tried() -> None:
    """No way fits better than by the clear share on average, and the best of 20 is chosen each time."""
    ways = [
        Way(f"in way {number}", kind)
        for kind in ("text", "boxes", "picture")
        for number in range(20)
    ]  # type: ignore[arg-type]
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng([8, seed])
        chosen = writing.best_ways(_chance(rng, way, 6) for way in ways)
        alarms += writing.judge_gains([_chance(rng, way, 20) for way in chosen], 20).p_value <= 0.05
    assert 0 < alarms <= 17  # 10 are expected


def _chance(rng: np.random.Generator, way: Way, n: int) -> Gain:
    """Draw a gain whose excess over a clear one is symmetric about 0."""
    before = np.full(n, 2.0)
    after = (1 - writing.CLEAR_SHARE) * before + rng.normal(0, 0.2, n)
    return Gain(way, np.stack([before, after], axis=1))


def test_a_trained_model_is_scanned_with_right_and_with_wrong_boxes() -> None:
    """The leaky sample forgets its training documents where boxes are 3 % too small."""
    world = manifest.load(SAMPLE / "data")
    target = target_of(SAMPLE / "model", world)
    members = world.of("member")[:12]
    checks = []
    for rewrite in (lambda document: document, in_way("scaled by 0.97")):
        written = tuple(rewrite(document) for document in members)
        case = Case(target, dataclasses.replace(world, documents=written))
        *_, check = check_writing(Asking(case, 64, SILENT), written)
        assert isinstance(check, Check)
        checks.append(check)
    right, wrong = checks
    assert right.p_value == 1.0
    assert wrong.p_value <= 0.002  # the least that nine documents can show
    assert "with boxes scaled by 1.03" in wrong.reason
