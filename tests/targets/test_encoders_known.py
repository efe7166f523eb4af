"""Families known by what transformers has of them, and sentences about those that are not."""

from pathlib import Path

import encoder_zoo
import pytest
import tiny
import transformers
from checkpoint_faults import change

from audit.corpus.documents import Document
from audit.errors import TargetError
from audit.targets import TABLE
from audit.targets.encoders.families import family_of
from audit.targets.encoders.loading import load


def renamed(folder: Path, **settings: object) -> Path:
    """A tiny BERT whose configuration says something else."""
    encoder_zoo.write_encoder(folder, "bert", str(settings.pop("head", "mlm")))
    change(folder / "config.json", **settings)
    return folder


def test_heads_are_transformers_own_but_for_those_that_the_table_names() -> None:
    bros = family_of("bros")
    bert = family_of("bert")
    deberta = family_of("deberta-v2")
    assert bros is not None
    assert bert is not None
    assert deberta is not None
    assert bros.heads["mlm"].__name__ == "BrosForMaskedLM"
    assert "document-classification" not in bros.heads
    assert bert.heads["document-classification"].__name__ == "BertForSequenceClassification"
    assert {head: one.__name__ for head, one in deberta.heads.items()} == {
        "mlm": "DebertaV2ForMaskedLM",
        "token-classification": "DebertaV2ForTokenClassification",
        "document-classification": "DebertaV2ForSequenceClassification",
    }
    assert all(family_of(kind) is not None for kind in TABLE["encoders"])


@pytest.mark.parametrize("kind", ["gpt2", "t5", "bart", "esm", "tapas", "vit", "no such type"])
def test_what_reads_no_words_of_a_page_is_no_family(kind: str) -> None:
    assert family_of(kind) is None


@pytest.mark.parametrize(
    "kind", ["roberta", "camembert", "xlm-roberta", "mpnet", "longformer", "data2vec-text"]
)
def test_positions_are_counted_from_padding_where_the_model_does_so(kind: str) -> None:
    family = family_of(kind)
    assert family is not None
    assert family.counts_from_padding
    others = [
        family_of(other)
        for other in ("bert", "distilbert", "deberta-v2", "albert", "electra", "modernbert")
    ]
    assert not any(other is None or other.counts_from_padding for other in others)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("layoutlmv2", "detectron2"),
        ("beit", "a BEiT or DiT classifies pictures alone"),
        ("vit", "a ViT classifies pictures alone"),
        ("fnet", "reads the padding"),
        ("bart", "writes text"),
        ("deepseek_vl_v2", "deepseek-community/DeepSeek-OCR-2"),
        ("dots_ocr", f"transformers {transformers.__version__} has no class for dots_ocr"),
    ],
)
def test_families_that_cannot_be_audited_are_said_to_be(
    kind: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(TargetError, match="unknown architecture") as raised:
        load(renamed(tmp_path, model_type=kind))
    assert sentence in raised.value.hint


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
def test_a_model_that_gives_no_single_class_is_refused(problem: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="does not put pages into one of several classes"):
        load(renamed(tmp_path, head="document-classification", problem_type=problem))


def test_classes_without_names_are_named_by_the_manifest(tmp_path: Path) -> None:
    folder = renamed(
        tmp_path,
        head="document-classification",
        id2label={0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"},
    )
    assert load(folder, labels=("form", "letter", "bill")).labels == ("form", "letter", "bill")
    with pytest.raises(TargetError, match="does not name its 3 classes"):
        load(folder)


@pytest.mark.parametrize("kind", ["distilbert", "deberta-v2", "modernbert"])
def test_a_configuration_of_fewer_layers_than_there_are_is_refused(
    kind: str, tmp_path: Path
) -> None:
    encoder_zoo.write_encoder(tmp_path, kind, "mlm")
    name = "n_layers" if kind == "distilbert" else "num_hidden_layers"
    change(tmp_path / "config.json", layer_types=None, **{name: 1})
    with pytest.raises(TargetError, match="fewer layers than the weights have"):
        load(tmp_path)


def test_a_page_is_read_from_its_beginning_by_a_classifier(tmp_path: Path) -> None:
    target = load(encoder_zoo.write_encoder(tmp_path, "bert", "document-classification"))
    long = Document("d", "member", tiny.laid_out(["abc"] * 100), size=tiny.SIZE, label="form")
    page = target.encode(long)
    around = target.encode(long, (20,))
    beyond = target.encode(long, (90,))
    assert page is not None
    assert around is not None
    assert (page.page_class, page.ids.tolist()) == (
        encoder_zoo.CLASSES.index("form"),
        around.ids.tolist(),
    )
    assert beyond is None
