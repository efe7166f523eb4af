"""Small inputs that people's tools wrote, and what docaudit makes of them (../shared/cases).

A test is named after the folder of its case. Its fixture `case` has run the command of cmd.txt on a
copy of the folder. A case that nobody has mended yet stands in `WAITING`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.corpus import manifest as manifests
from audit.corpus.documents import Document

pytestmark = pytest.mark.real
REPOSITORY = Path(__file__).resolve().parents[2]
WAITING = frozenset(
    {
        "25-opacus-prefix",
    }
)
"""Cases without a test here; whoever mends one takes it out."""


@dataclass(frozen=True)
class Step:
    """A command of cmd.txt that was run: its exit code, and what it printed."""

    code: int
    output: str


@dataclass(frozen=True)
class CaseRun:
    """A case whose commands were run.

    Attributes:
        folder: the copy of the case's folder in which they ran.
        steps: what each of them did, in order.
    """

    folder: Path
    steps: tuple[Step, ...]

    @property
    def code(self) -> int:
        """The exit code of the last command."""
        return self.steps[-1].code

    @property
    def output(self) -> str:
        """What all commands printed, each run of white space as one space."""
        words: list[str] = []
        for step in self.steps:
            words += step.output.split()
        return " ".join(words)

    @cached_property
    def documents(self) -> dict[str, Document]:
        """The documents of the data set `out`, by id."""
        assert self.code == 0, self.output
        corpus = manifests.load(self.folder / "out")
        return {document.id: document for document in corpus.documents}

    @property
    def texts(self) -> dict[str, str]:
        """The words of each document, joined by spaces, by its id."""
        texts: dict[str, str] = {}
        for name, document in self.documents.items():
            texts[name] = " ".join(word.text for word in document.words)
        return texts

    def fields(self, name: str) -> list[tuple[str, str]]:
        """List the label and the text of each field of a document."""
        document = self.documents[name]
        return [(entity.label, document.text_of(entity)) for entity in document.entities]

    def boxes(self, name: str) -> list[tuple[int, int, int, int]]:
        """List the boxes of a document's words, rounded to whole pixels."""
        boxes: list[tuple[int, int, int, int]] = []
        for word in self.documents[name].words:
            assert word.box is not None, word.text
            left, top, right, bottom = map(round, word.box)
            boxes.append((left, top, right, bottom))
        return boxes


def shared_cases() -> Path:
    """The folder of the cases: DOCAUDIT_REAL_DATA/../cases, else ../shared/cases."""
    data = Path(os.environ.get("DOCAUDIT_REAL_DATA", REPOSITORY.parent / "shared" / "data"))
    folder = data.parent / "cases"
    if not folder.is_dir():
        pytest.skip(f"the cases are not at {folder}; set DOCAUDIT_REAL_DATA to the folder beside")
    return folder


def run_step(command: str) -> Step:
    """Run a command of cmd.txt here: docaudit in this process, Python in one of its own."""
    arguments = shlex.split(command.replace("SAMPLE_MODELS", str(REPOSITORY / "sample_models")))
    if arguments[0] == "docaudit":
        result = CliRunner().invoke(app, arguments[1:], catch_exceptions=False)
        return Step(result.exit_code, result.output)
    completed = subprocess.run(
        [sys.executable, *arguments[1:]], capture_output=True, text=True, check=False
    )
    return Step(completed.returncode, completed.stdout + completed.stderr)


@pytest.fixture
def case(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CaseRun:
    """The case that the test is named after, with its commands run."""
    name = request.node.name.removeprefix("test_").replace("_", "-")
    folder = tmp_path / "case"
    shutil.copytree(shared_cases() / name, folder, copy_function=shutil.copyfile)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    monkeypatch.chdir(folder)
    commands = re.split(r";|&&", (folder / "cmd.txt").read_text())
    return CaseRun(folder, tuple(run_step(command.strip()) for command in commands))


def test_01_hocr_lines_only(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Gardenia bakery 4.20")
    assert case.boxes("a") == [(50, 50, 190, 80), (208, 50, 312, 80), (330, 50, 400, 80)]
    assert "lines without words, whose boxes were divided by their characters: 2" in case.output


def test_02_page_region_text(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Gardenia bakery 4.20")
    assert "whose words have places made of the region's box: 2" in case.output


def test_03_page_textequiv_index(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Gardenia bakery")
    assert "texts with alternatives" in case.output


def test_04_page_empty_words(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Gardenia bakery")


def test_05_page_2010_points(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Gardenia bakery")
    assert case.boxes("a")[1] == (260, 50, 400, 80)


def test_06_xml_declared_encoding(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Zoë Müller")


def test_07_utf16_json(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Gardenia 4.20")


def test_08_easyocr_first_letter(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Gardenia 4.20")
    assert case.boxes("a") == [(50, 50, 130, 80), (200, 50, 280, 80)]


def test_09_textract_expense(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Total 4.20")
    assert case.fields("a") == [("TOTAL", "4.20")]


def test_10_result_of_several_pages(case: CaseRun) -> None:
    assert case.code == 2
    assert "2 pages for one image: put the PDF or TIFF beside it, or save a file" in case.output


def test_11_docling_two_places(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Left column text right column text")
    for left, _, right, _ in case.boxes("a")[:3]:
        assert 50 <= left < right <= 250
    for left, _, right, _ in case.boxes("a")[3:]:
        assert 350 <= left < right <= 550


def test_12_docling_key_values(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Total 4.20")
    assert case.fields("a") == [("key", "Total"), ("value", "4.20")]


def test_13_azure_sdk_to_dict(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Total")
    assert case.boxes("a") == [(50, 50, 100, 80)]


def test_14_azure_labelled_project(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Total 4.20")
    assert case.fields("a") == [("TOTAL", "4.20")]


def test_15_document_ai_snake_case(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Total")


def test_26_paddle_empty_page(case: CaseRun) -> None:
    assert case.texts["a"] == ""
    assert len(case.documents["b"].words) == 1


def test_27_alto_page_without_size(case: CaseRun) -> None:
    assert case.texts == dict.fromkeys("ab", "Total")
    assert case.boxes("a") == [(50, 50, 130, 70)]


def test_28_thousandths_on_a4(case: CaseRun) -> None:
    assert "boxes in thousandths of the page: 360" in case.output
    corners = [box[3] for name in case.documents for box in case.boxes(name)]
    assert max(corners) > 0.85 * 1754


def cases_with_a_test() -> set[str]:
    """The names of the cases that a function here is named after."""
    names: set[str] = set()
    for name in globals():
        if re.match(r"test_\d\d_", name):
            names.add(name.removeprefix("test_").replace("_", "-"))
    return names


def test_every_case_has_a_test_or_waits() -> None:
    folders: set[str] = set()
    for path in shared_cases().iterdir():
        if path.is_dir():
            folders.add(path.name)
    assert not WAITING & cases_with_a_test()
    assert folders == WAITING | cases_with_a_test()


def test_16_labelstudio_region_choice(case: CaseRun) -> None:
    assert {document.label for document in case.documents.values()} == {None}
    assert "choices about a region that has a label, left out: 2" in case.output


def test_17_labelstudio_rotation(case: CaseRun) -> None:
    assert set(case.boxes("p1")) == {(400, 260, 440, 500)}


def test_18_labelstudio_ground_truth(case: CaseRun) -> None:
    assert case.texts == {"p1": "14.20", "p2": "24.20"}
    assert "several annotations, of which the ground truth was taken: 2" in case.output


def test_19_labelstudio_text_key(case: CaseRun) -> None:
    for document in case.documents.values():
        assert [document.text_of(entity) for entity in document.entities] == ["Anna"]
    assert len(case.documents) == 4


def test_20_labelstudio_several_images(case: CaseRun) -> None:
    assert case.texts == {"p1": "", "p2": "4.20"}


def test_21_labelstudio_relations(case: CaseRun) -> None:
    assert {document.links for document in case.documents.values()} == {(("e1", "e2"),)}


def test_22_xfund(case: CaseRun) -> None:
    assert [step.code for step in case.steps] == [0, 0]
    assert case.texts["zh_train_3"] == "Name: Zoe3"
    assert case.documents["zh_train_3"].links == (("e1", "e2"),)


def test_23_doclaynet_cells(case: CaseRun) -> None:
    assert set(case.texts.values()) == {"Section One"}
    assert case.boxes("0" * 64)[0][:2] == (50, 50)


def test_24_qwen_inline_image(case: CaseRun) -> None:
    assert case.documents.keys() == {"1", "2", "3"}
    for document in case.documents.values():
        assert document.image is not None
        assert [question.question for question in document.questions] == ["What is the total?"]
