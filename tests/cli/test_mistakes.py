"""What newcomers do wrong: one line for each kind of problem, with its place, count and remedy."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
from commands import docaudit
from PIL import Image


def change_documents(data: Path, change: Callable[[dict[str, Any], int], object]) -> None:
    """Change every document of a data set, by its table and its number."""
    path = data / "documents.jsonl"
    pages = [json.loads(line) for line in path.read_text().splitlines()]
    for number, page in enumerate(pages):
        change(page, number)
    path.write_text("".join(json.dumps(page, ensure_ascii=False) + "\n" for page in pages))


def change_boxes(data: Path, change: Callable[..., list[float]]) -> None:
    """Change every box of a data set, by its four numbers."""

    def change_page(page: dict[str, Any], number: int) -> None:
        for word in page["words"]:
            word["box"] = change(*word["box"])

    change_documents(data, change_page)


# What somebody does to a sound data set and its model.


def keep_pickled_weights_only(data: Path, model: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")


def remove_the_tokenizer(data: Path, model: Path) -> None:
    for path in model.glob("*token*"):
        path.unlink()


def remove_the_manifest(data: Path, model: Path) -> None:
    (data / "manifest.toml").unlink()


def remove_images(data: Path, model: Path) -> None:
    shutil.rmtree(data / "images")


def enlarge_an_image(data: Path, model: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(data / "images/m0.png")


def give_ids_twice(data: Path, model: Path) -> None:
    change_documents(data, lambda page, number: page.update(id=f"m{number // 2}"))


def swap_sizes(data: Path, model: Path) -> None:
    change_documents(data, lambda page, number: page.update(size=tiny.SIZE[::-1]))


def turn_a_page(data: Path, model: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("L", tiny.SIZE).save(data / "images/m0.png", exif=exif)

    def swap_first_size(page: dict[str, Any], number: int) -> None:
        if number == 0:
            page["size"] = tiny.SIZE[::-1]

    change_documents(data, swap_first_size)


def place_images_above(data: Path, model: Path) -> None:
    change_documents(data, lambda page, number: page.update(image=f"..\\{page['id']}.png"))


def write_backslashes(data: Path, model: Path) -> None:
    change_documents(data, lambda page, number: page.update(image=page["image"].replace("/", "\\")))


def write_latin_1(data: Path, model: Path) -> None:
    change_documents(data, lambda page, number: page["words"][0].update(text="Käse"))
    path = data / "documents.jsonl"
    path.write_text(path.read_text(), "latin-1")


def make_all_members(data: Path, model: Path) -> None:
    change_documents(data, lambda page, number: page.update(split="member"))


def call_splits_train_and_test(data: Path, model: Path) -> None:
    names = {"member": "train", "heldout": "test"}
    change_documents(data, lambda page, number: page.update(split=names[page["split"]]))


def write_words_as_texts(data: Path, model: Path) -> None:
    change_documents(
        data, lambda page, number: page.update(words=[word["text"] for word in page["words"]])
    )


def remove_some_boxes(data: Path, model: Path) -> None:
    def remove_boxes(page: dict[str, Any], number: int) -> None:
        if number < 3:
            page["words"] = [{"text": word["text"]} for word in page["words"]]

    change_documents(data, remove_boxes)


def write_width_and_height(data: Path, model: Path) -> None:
    change_boxes(data, lambda x0, y0, x1, y1: [x0, y0, x1 - x0, y1 - y0])


def write_shares(data: Path, model: Path) -> None:
    change_boxes(data, lambda x0, y0, x1, y1: [x0 / 200, y0 / 260, x1 / 200, y1 / 260])


def write_thousandths(data: Path, model: Path) -> None:
    change_boxes(data, lambda x0, y0, x1, y1: [x0 * 5, y0 / 0.26, x1 * 5, y1 / 0.26])


def enlarge_all_pages(data: Path, model: Path) -> None:
    change_documents(data, lambda page, number: page.update(image=None, size=[1700, 2200]))
    change_boxes(data, lambda x0, y0, x1, y1: [5 * x0, 13 * y0, 5 * x1, 13 * y1])


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    root = tmp_path_factory.mktemp("sound")
    tiny.corpus(root / "DATA", members=8, heldout=8, public=0, images=True)
    tiny.checkpoint(root / "MODEL", "layoutlm", "token-classification")
    return root


def test_a_preview_shows_the_boxes_to_their_owner_alone(sound, tmp_path, monkeypatch):
    shutil.copytree(sound / "DATA", tmp_path / "DATA")
    monkeypatch.chdir(tmp_path)
    for count, page in ((4, "page-4.png"), (2, "page-1.png")):
        result = docaudit("inspect", "DATA", "--preview", count)
        assert (
            f"Drawn into docaudit-preview/: {count} pages (page-1.png is m0, page-2.png is m1"
            in result.output
        )
        assert (tmp_path / "docaudit-preview" / page).exists()
    assert [
        oct(path.stat().st_mode)[-3:] for path in (tmp_path / "docaudit-preview").iterdir()
    ] == ["600"] * 2
    assert oct((tmp_path / "docaudit-preview").stat().st_mode)[-3:] == "700"
    drawn = Image.open(tmp_path / "docaudit-preview" / "page-1.png")
    word = json.loads((tmp_path / "DATA" / "documents.jsonl").read_text().splitlines()[0])["words"]
    assert {drawn.getpixel(tuple(map(int, one["box"][:2]))) for one in word} == {
        (31, 111, 235),
        (209, 36, 47),
    }
    change_documents(tmp_path / "DATA", lambda page, number: page.update(image=None))
    assert docaudit("inspect", "DATA", "--preview", 1).exit_code == 0, (
        "words are drawn where no image is"
    )
    shutil.rmtree(tmp_path / "docaudit-preview")
    (tmp_path / "docaudit-preview").symlink_to(tmp_path / "DATA")
    assert "docaudit-preview: is a link" in docaudit("inspect", "DATA", "--preview", 1).output


@pytest.fixture
def work(sound, tmp_path, monkeypatch):
    """A copy of the sound data set and its model, in the current folder."""
    for name in ("DATA", "MODEL"):
        shutil.copytree(sound / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_answer(work: Path, command: list[str], code: int, phrases: list[str]) -> None:
    """Fail unless the command ends so, says all phrases, and a kind of problem in one line."""
    result = docaudit(*command)
    output = result.output.replace(f"{work}/", "")
    assert result.exit_code == code, output
    assert [phrase for phrase in phrases if phrase not in output] == [], output
    assert output.count("error: ") <= 3, "problems of one kind are one line"


@pytest.mark.parametrize(
    ("command", "phrases"),
    [
        pytest.param(
            ["scan", "DATA", "MODEL"],
            ["they are swapped", "docaudit scan MODEL DATA"],
            id="model and data swapped in scan",
        ),
        pytest.param(
            ["scan", "MODEL", "DATA", "--reference", "auxiliary=roberta-base"],
            ["hf download roberta-base --local-dir"],
            id="a name of the hub as a reference",
        ),
        pytest.param(
            ["inspect", "MODEL"],
            ["MODEL is a model, and a data set was asked for", "docaudit init MODEL SOURCE"],
            id="the model given to inspect",
        ),
        pytest.param(
            ["scan", "microsoft/layoutlm-base-uncased", "DATA"],
            ["hf download microsoft/layoutlm-base-uncased --local-dir"],
            id="a name of the hub as the model",
        ),
        pytest.param(
            ["scan", "MODEL", "DATA", "--policy", "strictest"],
            ["strictest", "strict"],
            id="a policy that there is not",
        ),
        pytest.param(
            ["scan", "MODEL", "DATA", "--time", "30"],
            ["--time", "30m"],
            id="a time without its unit",
        ),
        pytest.param(
            ["import", "layoutlm", "DATA", "NEW"],
            ["layoutlm", "give one of", "chat,", "csv,"],
            id="a format that there is not",
        ),
        pytest.param(
            ["scan", "MODEL", "DATA", "--reference", "roberta-base"],
            ["roberta-base", "NAME=PATH"],
            id="a reference without its name",
        ),
        pytest.param(
            ["references", "MODEL", "DATA", "--reference", "pretrained=nowhere/at/all"],
            ["reference pretrained (command line): nowhere/at/all is not a folder"],
            id="a reference that is not there, in references",
        ),
        pytest.param(
            ["inspect", "MODEL", "DATA", "--reference", "baseline=DATA"],
            ["no reference is called 'baseline'", "baselines"],
            id="a reference that there is not, in inspect",
        ),
        pytest.param(
            ["forget-check", "MODEL", "no-data", "--ids", "nowhere.txt"],
            ["--ids nowhere.txt: No such file or directory", "one id or file name a line"],
            id="a list of ids that is not there: nothing is opened before",
        ),
        pytest.param(
            ["forget-check", "MODEL", "DATA", "--ids", "DATA"],
            ["--ids DATA: Is a directory", "one id or file name a line"],
            id="a folder as a list of ids",
        ),
    ],
)
def test_a_wrong_command_is_answered_with_its_remedy(command, phrases, work):
    check_answer(work, command, 2, phrases)


@pytest.mark.parametrize(
    ("spoil", "command", "phrases"),
    [
        pytest.param(
            keep_pickled_weights_only,
            ["scan", "MODEL", "DATA"],
            ["pytorch_model.bin", "save_pretrained"],
            id="weights as pytorch_model.bin only",
        ),
        pytest.param(
            remove_the_tokenizer,
            ["scan", "MODEL", "DATA"],
            ["tokenizer", "save_pretrained"],
            id="no tokenizer",
        ),
        pytest.param(
            remove_the_manifest,
            ["inspect", "DATA"],
            ["manifest.toml is missing in DATA", "docaudit init", "docaudit import"],
            id="no manifest",
        ),
        pytest.param(
            give_ids_twice,
            ["inspect", "DATA"],
            [
                "documents.jsonl:2 id: in line 1 already (m0) (8 times, also documents.jsonl:4 "
                "and documents.jsonl:6)"
            ],
            id="ids that occur twice",
        ),
        pytest.param(
            write_width_and_height,
            ["inspect", "DATA"],
            [
                "].box: corners out of order (",
                "times, also documents.jsonl:2 and documents.jsonl:3); give x0, y0, x1, y1",
            ],
            id="boxes of corner, width and height",
        ),
        pytest.param(
            turn_a_page,
            ["inspect", "DATA"],
            [
                "documents.jsonl:1 image: EXIF orientation 6 turns the page for some readers only",
                "save it upright",
            ],
            id="a page that EXIF turns",
        ),
        pytest.param(
            swap_sizes,
            ["inspect", "DATA"],
            [
                "documents.jsonl:1 size: 260 x 200, but the image has 200 x 260 (16 times, also",
                "before it was turned?",
            ],
            id="width and height swapped",
        ),
        pytest.param(
            remove_images,
            ["inspect", "DATA"],
            [
                "documents.jsonl:1 image: the image is missing (DATA/images/m0.png) (16 times, "
                "also documents.jsonl:2 and documents.jsonl:3); give its path from the folder"
            ],
            id="images that are missing",
        ),
        pytest.param(
            place_images_above,
            ["inspect", "DATA"],
            [
                "documents.jsonl:1 image: the path leaves DATA_DIR through '..' (16 times, "
                "also documents.jsonl:2 and documents.jsonl:3)",
                "copy it into DATA_DIR",
            ],
            id="images outside the folder, as Windows writes it",
        ),
        pytest.param(
            write_latin_1,
            ["inspect", "DATA"],
            [
                "documents.jsonl:1 not UTF-8 (byte 0xe4 at column ",
                "(16 times, also",
                "iconv -f WINDOWS-1252 -t UTF-8 documents.jsonl",
            ],
            id="not UTF-8",
        ),
        pytest.param(
            enlarge_an_image,
            ["inspect", "DATA"],
            [
                "documents.jsonl:1 image: the image has over 100 megapixels "
                "(DATA/images/m0.png); save the page at 300 dpi or less"
            ],
            id="an image of 400 megapixels",
        ),
        pytest.param(
            write_shares,
            ["inspect", "DATA"],
            [
                "words: all boxes are within 0 to 1 (200 x 260 pixels) (16 times, also",
                "multiply x by width",
            ],
            id="boxes from 0 to 1",
        ),
        pytest.param(
            write_thousandths,
            ["inspect", "DATA"],
            [
                "outside the page (200 x 260 pixels) (",
                "times, also documents.jsonl:2 and documents.jsonl:3); from 0 to 1000? "
                "Multiply x by width / 1000",
            ],
            id="boxes from 0 to 1000",
        ),
        pytest.param(
            write_words_as_texts,
            ["inspect", "DATA"],
            [
                "documents.jsonl:1 words[0]: must be a table (",
                'write {"text": "TOTAL", "box": [70, 800, 130, 820]}',
            ],
            id="words as strings",
        ),
        pytest.param(
            remove_some_boxes,
            ["inspect", "DATA", "--model", "MODEL"],
            [
                "this model reads layout, and 3 documents have no boxes, the first is m0",
                "add boxes and sizes",
            ],
            id="words without boxes on three pages, for a model that reads layout",
        ),
        pytest.param(
            call_splits_train_and_test,
            ["inspect", "DATA"],
            [
                "documents.jsonl:1 split: must be member, heldout or public (16 times, also",
                "write member for train, heldout for test or val",
            ],
            id="splits called train and test",
        ),
    ],
)
def test_a_mistake_is_refused_once_with_its_remedy(spoil, command, phrases, work):
    spoil(work / "DATA", work / "MODEL")
    check_answer(work, command, 2, phrases)


@pytest.mark.parametrize(
    ("spoil", "command", "code", "phrases"),
    [
        pytest.param(
            write_backslashes,
            ["inspect", "DATA"],
            0,
            ["1 of 7 attacks can run"],
            id="paths with backslashes",
        ),
        pytest.param(
            make_all_members,
            ["inspect", "DATA"],
            0,
            [
                "No unseen document (split heldout)",
                "Add such documents of the same source: --heldout-from SRC2",
            ],
            id="no held-out document",
        ),
        pytest.param(
            enlarge_all_pages,
            ["inspect", "DATA"],
            0,
            [
                "No box reaches beyond 1000, on pages of up to 1700 x 2200 pixels.",
                "docaudit inspect DATA_DIR --preview 3",
            ],
            id="boxes from 0 to 1000 on larger pages",
        ),
        pytest.param(
            remove_some_boxes,
            ["inspect", "DATA"],
            0,
            ["3 of 16 pages with words have no boxes: m0, m1 and m2", "Add boxes"],
            id="words without boxes on three pages",
        ),
    ],
)
def test_what_need_not_be_a_mistake_is_said(spoil, command, code, phrases, work):
    spoil(work / "DATA", work / "MODEL")
    check_answer(work, command, code, phrases)
