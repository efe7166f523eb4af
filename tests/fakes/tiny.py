"""Tiny checkpoints (random weights), data sets and records, for every test that needs one.

Made from a seed.
"""

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw

from audit.cards import CorpusCard, Environment, ReferenceCard, TargetCard, Timing
from audit.corpus import documents as docs
from audit.corpus.manifest import write
from audit.measurements import Estimate, Measurement
from audit.record import AuditRecord, Result

FamilyName = (
    Literal["layoutlm", "bros", "bert", "docaudit-layoutlm-image", "docaudit-bros-image"]
    | Literal["layoutlmv3", "lilt", "roberta", "xlm-roberta"]
)
"""As `model_type` in a configuration."""
HeadName = Literal["mlm", "token-classification", "spade-extraction", "spade-linking"]
FAMILIES: tuple[FamilyName, ...] = ("layoutlm", "bros", "bert")
HEADS: tuple[HeadName, ...] = ("mlm", "token-classification")
"""What every family of `FAMILIES` has."""
IMAGE_FAMILIES: tuple[FamilyName, ...] = ("docaudit-layoutlm-image", "docaudit-bros-image")
BPE_FAMILIES: tuple[FamilyName, ...] = ("roberta", "xlm-roberta", "layoutlmv3", "lilt")
MASKED_FAMILIES: tuple[FamilyName, ...] = (*FAMILIES, *IMAGE_FAMILIES, *BPE_FAMILIES[:2])
TAGGING_FAMILIES: tuple[FamilyName, ...] = (*FAMILIES, *IMAGE_FAMILIES, *BPE_FAMILIES)
SPADE_FAMILIES: tuple[FamilyName, ...] = ("layoutlm", "bros", *IMAGE_FAMILIES)
SPADE_HEADS: tuple[HeadName, ...] = ("spade-extraction", "spade-linking")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CHARACTERS = string.ascii_lowercase + string.digits
VOCABULARY = (
    *SPECIAL,
    *CHARACTERS,
    *(f"##{character}" for character in CHARACTERS),
    *".,:;/-'#+&()%$@",
)
CLASSES = ("O", "VENDOR", "DATE", "TOTAL", "CLERK")
LABELS = ("O", *(f"{begin}-{name}" for name in CLASSES[1:] for begin in "BI"))
LABELS_OF: dict[docs.TaskKind, tuple[str, ...]] = {
    "token-classification": LABELS,
    "spade-extraction": CLASSES,
}
POSITIONS = 128
PICTURE = 32
"""The side in pixels of the pictures that tiny models see."""
SIZE = (200, 260)
VENDORS = ("gardenia bakery", "marlow tools", "abc stores")
CLERKS = ("anna berg", "tom okoro", "li wei", "sara lund")


def tokenizer(model_max_length: int = POSITIONS):
    """A character-level WordPiece: n letters or digits are n tokens.

    Upper case is folded, all else is [UNK].
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import BertTokenizerFast

    inner = Tokenizer(
        models.WordPiece({token: i for i, token in enumerate(VOCABULARY)}, unk_token="[UNK]")
    )
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    marks = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")}
    return BertTokenizerFast(tokenizer_object=inner, model_max_length=model_max_length, **marks)


def bpe_tokenizer(family: FamilyName = "roberta", model_max_length: int = POSITIONS):
    """A byte-level BPE, as RoBERTa's: n letters or digits that begin with a letter or digit are n tokens."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import LayoutLMv3Tokenizer, RobertaTokenizer

    tokens = ["<s>", "<pad>", "</s>", "<unk>", *sorted(ByteLevel.alphabet())]
    tokens += [*(f"\u0120{c}" for c in CHARACTERS), "<mask>"]
    return (LayoutLMv3Tokenizer if family == "layoutlmv3" else RobertaTokenizer)(
        vocab={token: index for index, token in enumerate(tokens)},
        merges=[("\u0120", character) for character in CHARACTERS],
        model_max_length=model_max_length,
    )


def tokenizer_of(family: FamilyName, model_max_length: int = POSITIONS):
    """The tokenizer that the family's tiny checkpoints have."""
    return (
        bpe_tokenizer(family, model_max_length)
        if family in BPE_FAMILIES
        else tokenizer(model_max_length)
    )


def _settings(family: FamilyName) -> dict[str, object]:
    """What the family's tiny configuration has besides what all have."""
    image = {"image_size": PICTURE, "image_channels": [8, 16]}
    after_padding = {
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "max_position_embeddings": POSITIONS + 2,
    }
    return {
        "docaudit-layoutlm-image": image,
        "docaudit-bros-image": image,
        "layoutlmv3": {
            **after_padding,
            "coordinate_size": 10,
            "shape_size": 12,
            "input_size": PICTURE,
        },
        "lilt": {**after_padding, "hidden_size": 96},
        "roberta": after_padding,
        "xlm-roberta": after_padding,
    }.get(family, {})


def model(
    family: FamilyName = "layoutlm",
    head: HeadName = "mlm",
    seed: int = 0,
    labels: Sequence[str] | None = None,
):
    """A model with random weights: two layers of 64 units, 128 positions.

    `labels` are `LABELS_OF` when not given.
    """
    import torch

    from audit.targets.encoders.families import family_named

    model_class = family_named(family).heads[head]
    own = LABELS_OF.get(head, ()) if labels is None else labels
    ids = {label: index for index, label in enumerate(own)}
    names = {"label2id": ids, "id2label": dict(enumerate(own))} if head in LABELS_OF else {}
    settings: dict[str, object] = {
        "vocab_size": len(tokenizer_of(family)),
        "max_position_embeddings": POSITIONS,
        "initializer_range": 0.2,  # ten times the usual, so that answers differ by more than rounding
        **{
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 96,
        },
        **names,
    }
    config = model_class.config_class(**{**settings, **_settings(family)})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model_class(config)


def checkpoint(
    folder: Path,
    family: FamilyName = "layoutlm",
    head: HeadName = "mlm",
    seed: int = 0,
    labels: Sequence[str] | None = None,
) -> Path:
    """Save `model` with `tokenizer` in `folder` (made when missing); gives the folder back."""
    model(family, head, seed, labels).save_pretrained(folder)
    tokenizer_of(family).save_pretrained(folder)
    return folder


def documents(
    members: int = 6, heldout: int = 6, public: int = 4, seed: int = 0
) -> tuple[docs.Document, ...]:
    """Receipts: ids m0, m1 ...

    h0 ... p0 ...; about fifteen words, eighty tokens, four entities, two links each.

    Vendors (organization) and clerks (person) repeat within and across splits; dates and totals
    (amount) mostly do not. Every entity has 5 to 14 tokens of `tokenizer`.
    """
    rng = np.random.default_rng(seed)
    splits: list[tuple[docs.Split, int]] = [
        ("member", members),
        ("heldout", heldout),
        ("public", public),
    ]
    return tuple(
        _receipt(f"{split[0]}{number}", split, rng)
        for split, count in splits
        for number in range(count)
    )


def corpus(
    folder: Path,
    *,
    members: int = 6,
    heldout: int = 6,
    public: int = 4,
    seed: int = 0,
    kind: docs.TaskKind = "token-classification",
    images: bool = False,
    references: docs.ReferencePaths | None = None,
) -> Path:
    """Write `documents` as a valid data set, with white pages of grey words when `images`.

    Gives the folder back.
    """
    pages = documents(members, heldout, public, seed)
    if images:
        (folder / "images").mkdir(parents=True, exist_ok=True)
        pages = tuple(_with_image(folder, page) for page in pages)
    manifest = docs.Manifest(
        schema=1,
        name="tiny-receipts",
        task=docs.Task(kind, LABELS_OF.get(kind, ())),
        membership=docs.Membership("random"),
        references=references or docs.ReferencePaths(),
    )
    write(folder, manifest, pages)
    return folder


USEFUL = Estimate(
    "masked_token_accuracy", 0.6, 0.5, 0.7, 100, "tokens", 6, "made up", 0.1, "chance"
)
"""A model that does its task."""


def record(
    *attacks: Result,
    battery: tuple[str, ...] = ("reconstruction",),
    utility: tuple[Measurement, ...] = (USEFUL,),
    left_out: tuple[Result, ...] = (),
) -> AuditRecord:
    """A record around these results; nothing in it was measured."""
    card = TargetCard(
        "model",
        "BERT",
        "mlm",
        "BERT, masked language model",
        10,
        92,
        127,
        "a" * 64,
        "cpu",
        "float32",
    )
    return AuditRecord(
        schema_version=2,
        target=card,
        corpus=CorpusCard(
            "tiny", "b" * 64, "mlm", "random", {"member": 6}, {"member": {"amount": 6}}, 3, 0
        ),
        references=(ReferenceCard("auxiliary", "trained", card, {"epochs": 2}),),
        budget="standard",
        share=1.0,
        seed=0,
        battery=battery,
        attacks=attacks,
        utility=utility,
        environment=Environment("0.1.0", "3.11.0", "Linux x86_64", "CPU", 2, {"numpy": "2.0.0"}),
        timing=Timing("2026-01-01T00:00:00+00:00", "2026-01-01T00:01:00+00:00", 60.0),
        left_out=left_out,
    )


def laid_out(texts: Sequence[str]) -> tuple[docs.Word, ...]:
    """Words in lines of four, top to bottom, on a page of `SIZE`.

    The last lines may share the bottom of the page.
    """
    words = []
    for index, text in enumerate(texts):
        x = 4 + 48 * (index % 4)
        y = 4 + 12 * min(index // 4, 20)
        words.append(docs.Word(text, (float(x), float(y), float(x + 44), float(y + 10))))
    return tuple(words)


def _receipt(name: str, split: docs.Split, rng: np.random.Generator) -> docs.Document:
    vendor = str(rng.choice(VENDORS))
    clerk = str(rng.choice(CLERKS))
    date = f"{rng.integers(1, 29):02}/{rng.integers(1, 13):02}/20{rng.integers(10, 27)}"
    total = f"{rng.integers(10, 1000)}.{rng.integers(100):02}"
    parts: list[tuple[str, str, docs.Category | None]] = [
        (vendor, "VENDOR", "organization"),
        ("date:", "", None),
        (date, "DATE", "datetime"),
        ("clerk", "", None),
        (clerk, "CLERK", "person"),
    ]
    items = [
        f"item {rng.integers(1, 10)} x {rng.integers(1, 10)}.00"
        for _ in range(int(rng.integers(1, 4)))
    ]
    parts += [
        *((item, "", None) for item in items),
        ("total", "", None),
        (total, "TOTAL", "amount"),
    ]
    texts: list[str] = []
    entities = []
    for text, label, category in parts:
        start = len(texts)
        texts += text.split()
        if category is not None:
            entities.append(
                docs.Entity(f"e{len(entities)}", label, category, tuple(range(start, len(texts))))
            )
    links = (("e0", "e1"), ("e2", "e3"))  # vendor and date, clerk and total
    return docs.Document(
        name,
        split,
        laid_out(texts),
        size=SIZE,
        provider=vendor,
        entities=tuple(entities),
        links=links,
    )


def page_image(document: docs.Document) -> Image.Image:
    """A page of `SIZE` in coloured noise of its own, for whoever asks for a document's image without any files."""
    noise = np.random.default_rng([*document.id.encode()]).integers(
        0, 256, (SIZE[1] // 10, SIZE[0] // 10, 3), np.uint8
    )
    return Image.fromarray(noise).resize(SIZE, Image.Resampling.NEAREST)


def _with_image(folder: Path, document: docs.Document) -> docs.Document:
    from dataclasses import replace

    page = Image.new("L", SIZE, 255)
    drawing = ImageDraw.Draw(page)
    for word in document.words:
        assert word.box is not None
        drawing.rectangle(word.box, fill=160)
    name = f"images/{document.id}.png"
    page.save(folder / name)
    return replace(document, image=name)
