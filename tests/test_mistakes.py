"""What newcomers do wrong: one line for each kind of problem, with its place, count and remedy (mistakes.toml)."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import tiny
from commands import docaudit
from PIL import Image

MISTAKES = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text())["mistake"]


def each(change):
    """Change every document, by its table and its number."""

    def make(data, model):
        path = data / "documents.jsonl"
        pages = [json.loads(line) for line in path.read_text().splitlines()]
        for number, page in enumerate(pages):
            change(page, number)
        path.write_text("".join(json.dumps(page, ensure_ascii=False) + "\n" for page in pages))

    return make


def boxes(change):
    def box(page, number):
        for word in page["words"]:
            word["box"] = change(*word["box"])

    return each(box)


def without_boxes(page, number):
    if number < 3:
        page["words"] = [{"text": word["text"]} for word in page["words"]]


def latin(data, model):
    each(lambda page, number: page["words"][0].update(text="Käse"))(data, model)
    path = data / "documents.jsonl"
    path.write_text(path.read_text(), "latin-1")


def turned(data, model):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("L", tiny.SIZE).save(data / "images/m0.png", exif=exif)
    each(lambda page, number: page.update(size=tiny.SIZE[::-1]) if number == 0 else None)(
        data, model
    )


def large(data, model):
    each(lambda page, number: page.update(image=None, size=[1700, 2200]))(data, model)
    boxes(lambda x0, y0, x1, y1: [5 * x0, 13 * y0, 5 * x1, 13 * y1])(data, model)


def bin_only(data, model):
    (model / "model.safetensors").rename(model / "pytorch_model.bin")


def no_tokenizer(data, model):
    for path in model.glob("*token*"):
        path.unlink()


MAKE = {
    "bin_only": bin_only,
    "no_tokenizer": no_tokenizer,
    "no_manifest": lambda data, model: (data / "manifest.toml").unlink(),
    "twice": each(lambda page, number: page.update(id=f"m{number // 2}")),
    "xywh": boxes(lambda x0, y0, x1, y1: [x0, y0, x1 - x0, y1 - y0]),
    "turned": turned,
    "swapped_size": each(lambda page, number: page.update(size=tiny.SIZE[::-1])),
    "no_images": lambda data, model: shutil.rmtree(data / "images"),
    "above": each(lambda page, number: page.update(image=f"..\\{page['id']}.png")),
    "backslashes": each(lambda page, number: page.update(image=page["image"].replace("/", "\\"))),
    "latin": latin,
    "huge": lambda data, model: Image.new("1", (20_000, 20_000)).save(data / "images/m0.png"),
    "no_heldout": each(lambda page, number: page.update(split="member")),
    "shares": boxes(lambda x0, y0, x1, y1: [x0 / 200, y0 / 260, x1 / 200, y1 / 260]),
    "thousandths": boxes(lambda x0, y0, x1, y1: [x0 * 5, y0 / 0.26, x1 * 5, y1 / 0.26]),
    "large": large,
    "strings": each(
        lambda page, number: page.update(words=[word["text"] for word in page["words"]])
    ),
    "unboxed": each(without_boxes),
    "train": each(
        lambda page, number: page.update(
            split={"member": "train", "heldout": "test"}[page["split"]]
        )
    ),
}


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
    each(lambda page, number: page.update(image=None))(tmp_path / "DATA", None)
    assert docaudit("inspect", "DATA", "--preview", 1).exit_code == 0, (
        "words are drawn where no image is"
    )
    shutil.rmtree(tmp_path / "docaudit-preview")
    (tmp_path / "docaudit-preview").symlink_to(tmp_path / "DATA")
    assert "docaudit-preview: is a link" in docaudit("inspect", "DATA", "--preview", 1).output


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["name"])
def test_a_mistake_is_named_once_with_its_remedy(mistake, sound, tmp_path, monkeypatch):
    for name in ("DATA", "MODEL"):
        shutil.copytree(sound / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    MAKE.get(mistake.get("make"), lambda data, model: None)(tmp_path / "DATA", tmp_path / "MODEL")
    result = docaudit(*mistake["command"])
    shown = result.output.replace(f"{tmp_path}/", "")
    assert result.exit_code == mistake.get("exit", 2), shown
    assert [phrase for phrase in mistake["says"] if phrase not in shown] == [], shown
    assert shown.count("error: ") <= 3, "problems of one kind are one line"
