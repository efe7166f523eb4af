"""Folders that docaudit takes as they stand: data sets, checkpoints, records, pages, policies, parameters."""

import json
import shutil
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import tiny
from hostile_sources import SOURCES

from audit import record as records
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Split, Task
from audit.corpus.manifest import load, write
from audit.files import EVIDENCE
from audit.record import AuditRecord

SAMPLES = Path(__file__).parents[2] / "sample_models"
TEXTS = tomllib.loads(Path(__file__).with_name("hostile_texts.toml").read_text())


def receipts(folder: Path) -> None:
    """A data set of receipts with images, entities, links and references."""
    tiny.corpus(folder / "data", members=3, heldout=3, public=2, images=True)


def part(sample: str, folder: Path, count: int = 3) -> None:
    """A few documents of each split of a sample's data set, with all that they name."""
    source = SAMPLES / sample / "data"
    whole = load(source)
    shutil.copytree(
        source, folder, ignore=shutil.ignore_patterns("references", "images", "README*")
    )
    kept = [one for split in ("member", "heldout", "public") for one in _first(whole, split, count)]
    for one in kept:
        if one.image is not None:
            (folder / one.image).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / one.image, folder / one.image)
    write(folder, replace(whole.manifest, references=type(whole.manifest.references)()), kept)


def _first(corpus: Corpus, split: Split, count: int) -> Iterable[Document]:
    found = [one for one in corpus.documents if one.split == split]
    return found if corpus.manifest.canaries is not None else found[:count]


def questions(folder: Path) -> None:
    """Forms with questions, paraphrases and providers."""
    part("questions", folder / "data")


def letters(folder: Path) -> None:
    """Texts without boxes, redacted."""
    part("letters", folder / "data", 2)


def _heard(place: Path) -> None:
    """Commands with tags and intents, some kept aside."""
    import nlu_models

    manifest = Manifest(
        1, "utterances", Task("intent-slots", nlu_models.TAGS), Membership("random")
    )
    kept = [
        replace(one, split="heldout") if number % 3 == 0 else one
        for number, one in enumerate(nlu_models.documents())
    ]
    write(place, manifest, kept)


def utterances(folder: Path) -> None:
    """Commands with tags, intents and a canary file."""
    from audit.corpus.canaries.insertion import insert

    _heard(folder / "plain")
    insert(
        load(folder / "plain"), folder / "data", pattern="pin", count=6, repeat=2, length=3, seed=1
    )
    shutil.rmtree(folder / "plain")


def answers(folder: Path) -> None:
    """Receipts as JSON, for models that write pages."""
    import parsed_pages

    parsed_pages.corpus(folder / "data", members=2, heldout=2, public=2)


def policy(folder: Path) -> None:
    """A policy with a waiver, and a record."""
    (folder / "policy.toml").write_text(TEXTS["policy"])
    record(folder)


def record(folder: Path) -> None:
    """A record with much in it, and one to compare it with."""
    import example_records

    records.write(example_records.violated()[0], folder / "record.json")
    shutil.copyfile(folder / "record.json", folder / "other.json")


def _answered(folder: Path, audited: AuditRecord, attack: str, metric: str) -> None:
    (folder / "policy.toml").write_text(
        TEXTS["asked_policy"].replace("ATTACK", attack).replace("METRIC", metric)
    )
    named = replace(audited, corpus=replace(audited.corpus, task="question-answering"))
    records.write(named, folder / "record.json")
    shutil.copyfile(folder / "record.json", folder / "other.json")


def answering_record(folder: Path) -> None:
    """A record of a model that answers questions, with drawn pages."""
    import example_answers

    _answered(folder, example_answers.leaky()[0], "memorisation", "net")


def canaried_record(folder: Path) -> None:
    """A record with canaries."""
    import example_canaries

    _answered(folder, example_canaries.held(example_canaries.canaries())[0], "canaries", "excess")


def attested(folder: Path) -> None:
    """A report folder with its attestation, its model and its data set."""
    import attested as made

    tiny.corpus(folder / "of", members=2, heldout=2, public=1)
    made.folder(folder, folder / "of")
    shutil.rmtree(folder / "of")
    (folder / "out" / EVIDENCE).mkdir()


def parameters(folder: Path) -> None:
    """Parameters of attacks, an audit sheet, ids of documents, and a model folder that ends the scan behind them."""
    tiny.corpus(folder / "data", members=2, heldout=2, public=1)
    (folder / "model").mkdir()
    (folder / "parameters.toml").write_text(TEXTS["parameters"])
    (folder / "ids.txt").write_text("m0\nm1\n")
    (folder / "about.toml").write_text(TEXTS["about"])


def pages(folder: Path) -> None:
    """A plain folder of pages with JSON beside them and a list of members."""
    receipts(folder)
    for number, path in enumerate(sorted((folder / "data" / "images").iterdir())):
        path.rename(folder / "data" / path.name)
        words = {
            "words": [
                {"text": "Total", "box": [4, 4, 44, 14]},
                {"text": "9", "box": [50, 4, 60, 14]},
            ]
        }
        if number % 2:
            (folder / "data" / path.name).with_suffix(".json").write_text(json.dumps(words))
    (folder / "data" / "images").rmdir()
    for name in ("manifest.toml", "documents.jsonl"):
        (folder / "data" / name).unlink()
    (folder / "members.txt").write_text("m0\nm1.png\n")
    (folder / "members.csv").write_text("id,file_name\nm0,m0.png\nm1,m1.png\n")
    (folder / "members.json").write_text('[{"file_name": "m0.png"}, "m1"]')


def source(name: str, folder: Path) -> None:
    """A source of a format."""
    (folder / "src").mkdir()
    SOURCES[name](folder / "src")


def model(kind: str, folder: Path) -> None:
    """A checkpoint, with a data set that it can be audited with."""
    place = folder / "model"
    if kind in ("layoutlm", "layoutlmv3"):
        receipts(folder)
        tiny.checkpoint(place, kind, "token-classification")
    elif kind == "bert":
        tiny.corpus(folder / "data", members=3, heldout=3, public=2, kind="mlm")
        tiny.checkpoint(place, "bert", "mlm")
    elif kind == "adapter":
        import adapters

        receipts(folder)
        tiny.checkpoint(folder / "base", "bert", "mlm")
        adapters.tagger(folder / "base", place)
    else:
        _writing(kind, folder, place)
    _fill_tokenizer(place / "tokenizer.json")


def templated(folder: Path) -> None:
    """A checkpoint whose texts a chat template writes, with its data set."""
    model("idefics2", folder)
    (folder / "model" / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")


def offered(folder: Path) -> None:
    """A checkpoint with its data set, and a source of another one, as a Hub offers them."""
    model("bert", folder)
    source("chat", folder)


def stated(folder: Path) -> None:
    """A folder of a report with a statement about another one, and the key that signed it."""
    attested(folder)
    earlier = Path(__file__).parents[1] / "workflows"
    shutil.copyfile(earlier / "attested_by_0.13.intoto.jsonl", folder / "statement.intoto.jsonl")
    shutil.copyfile(earlier / "attested_by_0.13.pem", folder / "key.pem")


def _fill_tokenizer(path: Path) -> None:
    """Give a tokenizer.json values in the fields that are null as a rule, so that edits reach what is in them."""
    if not path.is_file():
        return
    content = json.loads(path.read_text())
    pad = {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]", "pad_to_multiple_of": 8}
    content["padding"] = {"strategy": {"Fixed": 16}, "direction": "Right", **pad}
    content["truncation"] = {
        "direction": "Right",
        "max_length": 64,
        "strategy": "LongestFirst",
        "stride": 4,
    }
    path.write_text(json.dumps(content))


def _writing(kind: str, folder: Path, place: Path) -> None:
    """A checkpoint that answers, points, writes pages, or hears commands."""
    import answering_checkpoints
    import asked_pages
    import encoder_zoo
    import nlu_models
    import parsed_pages
    import text_answering_checkpoints

    if kind == "utterances":
        _heard(folder / "data")
        nlu_models.checkpoint(place)
    elif kind == "parsing":
        answers(folder)
        parsed_pages.donut(place)
    elif kind == "idefics2":
        import vlm_zoo

        asked_pages.corpus(folder / "data", members=2, heldout=2, public=2)
        vlm_zoo.write_vlm(place, kind)
    else:
        asked_pages.corpus(folder / "data", members=2, heldout=2, public=2)
        texts = text_answering_checkpoints
        pixels = answering_checkpoints
        made = {
            "donut": asked_pages.donut,
            "pix2struct": pixels.make_pix2struct,
            "t5": texts.make_t5,
        }
        made |= {
            "vt5": texts.make_vt5,
            "extractive": lambda path: encoder_zoo.write_extractive(path, "bert"),
        }
        made[kind](place)
