"""Every kind of model that people bring, each with how a tiny checkpoint of it and its data set are written."""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import adapters
import answering_checkpoints
import encoder_zoo
import matrix_data as data
import nlu_models
import parsed_pages
import text_answering_checkpoints
import text_zoo
import tiny
import vlm_zoo

from audit.corpus.canaries.schema import PATTERNS
from audit.targets import TABLE
from audit.targets.extractive import HEADS

Labels = Sequence[str]
Writer = Callable[[Path, int, Labels], object]
"""Writes a checkpoint: its folder, the seed of its weights, the labels of the data set."""
NAMES = {
    **{kind: own["name"] for kind, own in TABLE["encoders"].items()},
    **TABLE["answering"]["seeing"],
    **tomllib.loads(Path(__file__).with_name("matrix_names.toml").read_text(encoding="utf-8")),
}
"""As people write them, by `model_type`."""


DENOISED = ("VT5", "UDOP", "T5")
"""Those that share a vocabulary with a public T5."""


@dataclass(frozen=True)
class Case:
    """A kind of model.

    Attributes:
        family: as people write it.
        task: the `task.kind` of its data set.
        data: writes the data set.
        write: writes the model.
        references: writers of the models that attacks compare it with, by name.
        needs: libraries without which it cannot be read, none of which docaudit installs by itself.
    """

    family: str
    task: str
    data: data.Data
    write: Writer
    references: dict[str, Writer] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """A name among all cases."""
        return f"{self.task}: {self.family}"


COMMON = {
    "mlm: DeBERTa-v2/v3",
    "document-classification: BERT",
    "extractive-qa: LiLT",
    "question-answering: LLaVA",
    "question-answering: Qwen2/2.5",
    "intent-slots: slots and intents of utterances",
    "token-classification: LayoutLMv2 and LayoutXLM",
}
"""One of each mechanism that no other test scans at every push, as those of outputs written and of
adapters are."""


def _encoder(kind: str, head: str) -> Writer:
    def write(folder: Path, seed: int, labels: Labels) -> None:
        encoder_zoo.write_encoder(
            folder, kind, head, labels=None if head == "mlm" else labels, seed=seed
        )

    return write


def _tiny(family: Any, head: Any) -> Writer:
    def write(folder: Path, seed: int, labels: Labels) -> None:
        tiny.checkpoint(folder, family, head, seed, labels if head in tiny.LABELS_OF else None)

    return write


def _plain(write: Callable[..., object], *before: Any, **more: Any) -> Writer:
    """A maker that takes folder and seed, and knows no labels."""
    return lambda folder, seed, labels: write(folder, *before, seed=seed, **more)


def _pages_of(head: str) -> data.Data:
    return data.classified if head == "document-classification" else data.pages(head)  # type: ignore[arg-type]


def _encoders() -> Iterator[Case]:
    text_model = {"layoutlmv3": "roberta", "lilt": "roberta"}
    for kind, head in encoder_zoo.PAIRS:
        auxiliary = _encoder(text_model.get(kind, kind), "mlm")
        yield Case(
            NAMES[kind], head, _pages_of(head), _encoder(kind, head), {"auxiliary": auxiliary}
        )
    for family in tiny.SPADE_FAMILIES:
        heads = (
            tiny.SPADE_HEADS if family in encoder_zoo.KINDS else (*tiny.HEADS, *tiny.SPADE_HEADS)
        )
        for head in heads:
            auxiliary = _tiny(family, "mlm")
            yield Case(
                NAMES[family], head, _pages_of(head), _tiny(family, head), {"auxiliary": auxiliary}
            )


def _pointing() -> Iterator[Case]:
    for family in encoder_zoo.POINTING:
        write = _plain(encoder_zoo.write_extractive, family)
        yield Case(NAMES[family], "extractive-qa", data.asked(kind="extractive-qa"), write)


def _answering(
    family: str, write: Writer, prompt: str | None = None, needs: Sequence[str] = ()
) -> Case:
    references = {"baselines": write}
    if family in DENOISED:
        references["auxiliary"] = _plain(text_answering_checkpoints.make_t5)
    return Case(family, "question-answering", data.asked(prompt), write, references, tuple(needs))


def _answerers() -> Iterator[Case]:
    makers = {
        "Donut": answering_checkpoints.make_donut,
        "other vision encoder-decoders": answering_checkpoints.make_vit_decoder,
        "Pix2Struct": answering_checkpoints.make_pix2struct,
        "VT5": text_answering_checkpoints.make_sentinel_vt5,
        "UDOP": partial(
            text_answering_checkpoints.make_udop, spare=text_answering_checkpoints.N_SENTINELS
        ),
    }
    for family, make in makers.items():
        prompt = "{question}" if make is answering_checkpoints.make_vit_decoder else None
        yield _answering(family, _plain(make), prompt)
    for name, zoo in vlm_zoo.ZOO.items():
        write = partial(_write_vlm, family=name, first=zoo.seed)
        yield _answering(NAMES[name], write, zoo.prompt, zoo.needed)
    for name in text_zoo.NAMES:
        write = _plain(text_zoo.write_text_model, name)
        if NAMES[name] in DENOISED:
            write = _plain(text_answering_checkpoints.make_t5)
        yield _answering(NAMES[name], write, text_zoo.prompt_of(name))


def _write_vlm(folder: Path, seed: int, labels: Labels, *, family: str, first: int) -> None:
    vlm_zoo.write_vlm(folder, family, first + seed)


def _parsing() -> Iterator[Case]:
    makers: dict[str, tuple[Writer, str | None, tuple[str, ...]]] = {
        "Donut": (_plain(parsed_pages.donut), parsed_pages.PROMPT, ()),
        "Idefics3 (SmolDocling)": (
            partial(_write_vlm, family="idefics3", first=0),
            "Convert this page.",
            (),
        ),
        "Florence-2": (partial(_write_vlm, family="florence2", first=0), "<OCR>", ()),
        "Qwen2.5-VL": (
            partial(_write_vlm, family="qwen2_5_vl", first=0),
            "Write this page as JSON.",
            ("torchvision",),
        ),
        "T5": (_plain(text_zoo.write_text_model, "t5"), "{text}", ()),
    }
    for family, (write, prompt, needs) in makers.items():
        yield Case(family, "parsing", data.parsed(prompt), write, {"baselines": write}, needs)


def _utterances() -> Iterator[Case]:
    def write(folder: Path, seed: int, labels: Labels) -> None:
        made, vocabulary = nlu_models.model(
            seed=seed, tags=labels, intents=(*nlu_models.INTENTS, str(PATTERNS["pin"].intent))
        )
        made.save_pretrained(folder)
        vocabulary.save(folder)

    yield Case("slots and intents of utterances", "intent-slots", data.utterances, write)


def _adapters() -> Iterator[Case]:
    bert = {"auxiliary": _encoder("bert", "mlm")}
    of_tags = data.pages("token-classification")
    yield Case("LoRA over BERT", "token-classification", of_tags, tagger, bert)
    yield _answering("LoRA over Qwen2/2.5", decoder)
    yield _answering("LoRA over LLaVA", llava)


def _refused() -> Iterator[Case]:
    """Families that cannot be audited: a configuration says enough."""
    for kind in (*TABLE["refused"], *TABLE["left_out"]):
        write = partial(_write_settings, kind=kind, head="ForTokenClassification")
        family = NAMES.get(kind, kind)
        yield Case(family, "token-classification", data.pages("token-classification"), write)
    for kind in TABLE["extractive"]["unreadable"]:
        write = partial(_write_settings, kind=kind, head=HEADS.get(kind, ""))
        yield Case(NAMES[kind], "extractive-qa", data.asked(kind="extractive-qa"), write)


def _write_settings(folder: Path, seed: int, labels: Labels, *, kind: str, head: str) -> None:
    """A configuration and weights of nothing."""
    import json

    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "architectures": [head]}))
    save_file({"weight": torch.zeros(1)}, folder / "model.safetensors", {"format": "pt"})


def cases() -> list[Case]:
    """Every case, in the order in which people look for them."""
    makers = (_encoders, _pointing, _answerers, _parsing, _utterances, _adapters, _refused)
    return [case for make in makers for case in make()]


def tagger(folder: Path, seed: int, labels: Sequence[str]) -> None:
    """A LoRA with its head over a BERT that predicts masked tokens."""
    from transformers import BertForTokenClassification

    base = encoder_zoo.write_encoder(_beside(folder), "bert", labels=labels, seed=seed)
    _adapt(
        BertForTokenClassification.from_pretrained(base), folder, "TOKEN_CLS", ["query", "value"]
    )


def decoder(folder: Path, seed: int, labels: Sequence[str]) -> None:
    """A LoRA over a language model."""
    from transformers import AutoModelForCausalLM

    base = text_zoo.write_text_model(_beside(folder), "qwen2", seed)
    _adapt(AutoModelForCausalLM.from_pretrained(base), folder, "CAUSAL_LM", ["q_proj", "v_proj"])


def llava(folder: Path, seed: int, labels: Sequence[str]) -> None:
    """A LoRA over a model that reads images and text."""
    from transformers import AutoModelForImageTextToText

    base = vlm_zoo.write_vlm(_beside(folder), "llava", seed)
    _adapt(AutoModelForImageTextToText.from_pretrained(base), folder, None, ["q_proj", "v_proj"])


def _beside(folder: Path) -> Path:
    return folder.parent / f"{folder.name}-base"


def _adapt(base: Any, folder: Path, kind: str | None, targets: Sequence[str]) -> None:
    import peft

    adapters.adapted(
        base, folder, peft.LoraConfig(r=4, target_modules=list(targets), task_type=kind)
    )
