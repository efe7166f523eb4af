"""What a newcomer has: annotated forms with a tagger, and conversations with an adapter.

Trained by transformers.
"""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tiny
import vlm_zoo
from PIL import Image

from audit.corpus.documents import Document
from audit.targets.checkpoint.safety import quiet

TAGS = ("O", *(f"{begin}-{label}" for label in ("HEADER", "QUESTION", "ANSWER") for begin in "BI"))
LABEL_OF = {"VENDOR": "header", "DATE": "answer", "TOTAL": "answer", "CLERK": "answer"}


def pages(train: int, test: int, seed: int = 0) -> dict[str, list[Document]]:
    """Receipts of `tiny.documents`, by the folder that they lie in."""
    made = tiny.documents(train, test, 0, seed)
    return {"train": [*made[:train]], "test": [*made[train:]]}


def write_forms(folder: Path, divided: dict[str, list[Document]]) -> Path:
    """A folder as FUNSD's: `train` and `test`, each with annotations and images."""
    for part, own in divided.items():
        for name in ("annotations", "images"):
            (folder / part / name).mkdir(parents=True, exist_ok=True)
        for page in own:
            tiny.page_image(page).save(folder / part / "images" / f"{page.id}.png")
            (folder / part / "annotations" / f"{page.id}.json").write_text(
                json.dumps({"form": [*_items(page)]})
            )
    return folder


def _items(page: Document) -> Any:
    """The page's fields, and its other words one by one, as FUNSD has them."""
    fields = {index: entity for entity in page.entities for index in entity.words}
    groups = [(LABEL_OF[entity.label], entity.words) for entity in page.entities]
    groups += [("other", (index,)) for index in range(len(page.words)) if index not in fields]
    for number, (label, indices) in enumerate(sorted(groups, key=lambda one: one[1])):
        words = [
            {"text": page.words[i].text, "box": [*map(int, page.words[i].box or ())]}
            for i in indices
        ]
        text = " ".join(word["text"] for word in words)
        left, top, right, bottom = zip(*(word["box"] for word in words), strict=True)
        box = [min(left), min(top), max(right), max(bottom)]
        yield {
            "id": number,
            "text": text,
            "box": box,
            "label": label,
            "words": words,
            "linking": [],
        }


def _training(folder: Path, steps: int, **settings: Any) -> Any:
    from transformers import TrainingArguments

    quietly: dict[str, Any] = {
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return TrainingArguments(
        output_dir=str(folder.parent / "runs"), max_steps=steps, **quietly, **settings
    )


def train_tagger(folder: Path, learned: Sequence[Document], steps: int = 30) -> Path:
    """A LayoutLMv3 with tags, trained on the pages and saved by `Trainer.save_model`."""
    import torch
    from transformers import LayoutLMv3ImageProcessor, LayoutLMv3Processor, Trainer

    model = tiny.model("layoutlmv3", "token-classification", 0, TAGS)
    side = {"height": tiny.PICTURE, "width": tiny.PICTURE}
    processor = LayoutLMv3Processor(
        LayoutLMv3ImageProcessor(apply_ocr=False, size=side), tiny.bpe_tokenizer("layoutlmv3")
    )
    rows = [_row(processor, page) for page in learned]
    arguments = _training(folder, steps, learning_rate=2e-3, per_device_train_batch_size=8)
    torch.manual_seed(0)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(
            model=model, args=arguments, train_dataset=rows, processing_class=processor
        )
        trainer.train()
        trainer.save_model(str(folder))
    return folder


def _row(processor: Any, page: Document) -> dict[str, Any]:
    """A page with its tags, as transformers' example of LayoutLMv3 has it."""
    width, height = tiny.SIZE
    tags = ["O"] * len(page.words)
    for entity in page.entities:
        for place, index in enumerate(entity.words):
            tags[index] = f"{'B' if place == 0 else 'I'}-{LABEL_OF[entity.label].upper()}"
    scale = np.array([1000 / width, 1000 / height] * 2)
    encoded = processor(
        tiny.page_image(page).convert("RGB"),
        [word.text for word in page.words],
        boxes=[[*map(int, np.array(word.box) * scale)] for word in page.words],
        word_labels=[TAGS.index(tag) for tag in tags],
        truncation=True,
        padding="max_length",
        max_length=tiny.POSITIONS,
        return_tensors="pt",
    )
    return {name: values[0] for name, values in encoded.items()}


def write_chat(folder: Path, divided: dict[str, list[Document]]) -> Path:
    """`train.jsonl` and `test.jsonl` of messages about images, and the images."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for part, own in divided.items():
        with (folder / f"{part}.jsonl").open("w") as file:
            for page in own:
                readable(page).save(folder / "images" / f"{page.id}.png")
                file.write(json.dumps({"messages": _messages(page)}) + "\n")
    return folder


def readable(page: Document) -> Image.Image:
    """A picture of the page that an OCR can read."""
    from PIL import ImageDraw, ImageFont

    picture = Image.new("RGB", (tiny.SIZE[0] * 4, tiny.SIZE[1] * 4), "white")
    drawing = ImageDraw.Draw(picture)
    font = ImageFont.load_default(size=28)
    for word in page.words:
        assert word.box is not None
        drawing.text((word.box[0] * 4, word.box[1] * 4), word.text, fill="black", font=font)
    return picture


QUESTIONS = {"DATE": "what is the date?", "TOTAL": "what is the total?"}


def _messages(page: Document) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    for entity in page.entities:
        if entity.label in QUESTIONS:
            question = [{"type": "text", "text": QUESTIONS[entity.label]}]
            image = [] if said else [{"type": "image", "image": f"images/{page.id}.png"}]
            answer = " ".join(page.words[index].text for index in entity.words)
            said.append({"role": "user", "content": [*image, *question]})
            said.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
    return said


def train_adapter(folder: Path, base: Path, learned: Sequence[Document], steps: int = 10) -> Path:
    """A LoRA of a tiny LLaVA, written to `base`.

    Trained on the conversations and saved by `Trainer.save_model`.
    """
    import peft
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor, Trainer

    vlm_zoo.write_vlm(base, "llava")
    own = {"learning_rate": 2e-2, "per_device_train_batch_size": 1, "remove_unused_columns": False}
    arguments = _training(folder, steps, **own)
    torch.manual_seed(0)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        processor = AutoProcessor.from_pretrained(base, backend="pil")
        rows = [row for page in learned for row in _answers(processor, page)]
        lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        model = peft.get_peft_model(AutoModelForImageTextToText.from_pretrained(base), lora)
        trainer = Trainer(
            model=model, args=arguments, train_dataset=rows, data_collator=lambda own: own[0]
        )
        trainer.train()
        trainer.save_model(str(folder))
    return folder


def _answers(processor: Any, page: Document) -> Any:
    """Each question of the page with its answer, a batch of one."""
    said = _messages(page)
    for asked, answer in zip(said[::2], said[1::2], strict=True):
        turns = [{"role": "user", "content": [{"type": "image"}, asked["content"][-1]]}, answer]
        rendered = processor.apply_chat_template(turns)
        batch = processor(images=readable(page), text=rendered, return_tensors="pt")
        yield {**batch, "labels": batch["input_ids"].clone()}
