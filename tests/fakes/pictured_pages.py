"""Small models that see pixels and are trained until they know pages by heart."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from answering_checkpoints import (
    CHAT_MARKS,
    CHAT_TEMPLATE,
    DONUT_MARKS,
    SIZE,
    saved,
    settings_of,
    tokenizer,
)
from PIL import Image, ImageDraw, ImageFont
from transformers import (
    AutoConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    VisionEncoderDecoderModel,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

from audit.corpus.documents import Corpus, Document, Word
from audit.corpus.images import page_view
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.answering.target import AnsweringTarget

PAGE = (144, 192)
"""Width and height of a page, pixels."""
LETTERHEAD = (144, 80)
RATE = 4e-3


def drawn(document: Document) -> Image.Image:
    """Draw a letterhead of coloured squares that no other page has, and the words below it."""
    squares = np.random.default_rng([*document.words[0].text.encode()])
    pixels = squares.integers(0, 256, (6, 8, 3), np.uint8)
    page = Image.new("RGB", PAGE, "white")
    page.paste(Image.fromarray(pixels).resize(LETTERHEAD, Image.Resampling.NEAREST))
    brush = ImageDraw.Draw(page)
    for word in document.words:
        assert word.box is not None
        brush.text(word.box[:2], word.text, fill="black", font=ImageFont.load_default(14))
    return page


def pictured(corpus: Corpus, folder: Path) -> Corpus:
    """The same pages as pictures, which are written to a folder."""
    folder.mkdir()
    documents = []
    for document in corpus.documents:
        words = []
        for row, word in enumerate(document.words):
            words.append(Word(word.text, (8.0, 90.0 + 32 * row, 136.0, 114.0 + 32 * row)))
        name = f"{document.id}.png"
        page = replace(document, words=tuple(words), size=PAGE, image=name)
        drawn(page).save(folder / name)
        documents.append(page)
    return replace(corpus, documents=tuple(documents), root=folder)


class Sharp:
    """Reads what the words of a page say, as an OCR does on larger pages."""

    def ask(self, queries: Sequence[Any]) -> list[str]:
        return [" ".join(word.text for word in query.view.words) for query in queries]


def untrained_donut(folder: Path, seed: int) -> Path:
    """Write a Donut of two stages and two layers with fresh weights."""
    words = tokenizer(DONUT_MARKS)
    settings = settings_of("donut", words)
    settings["encoder"].update(image_size=[*SIZE], embed_dim=32, num_heads=[2, 4])
    settings["decoder"].update(
        d_model=64, decoder_ffn_dim=128, decoder_attention_heads=4, dropout=0.0
    )
    start = words.convert_tokens_to_ids(DONUT_MARKS[0])
    torch.manual_seed(seed)
    model = VisionEncoderDecoderModel(
        AutoConfig.for_model(**settings, decoder_start_token_id=start)
    )
    images = DonutImageProcessorPil(size={"height": SIZE[0], "width": SIZE[1]})
    return saved(folder, model, words, images, ends="")


def untrained_llava(folder: Path, seed: int) -> Path:
    """Write a LLaVA that sees 32 x 32 pixels, with fresh weights."""
    words = tokenizer(CHAT_MARKS, end="<|end|>")
    settings = settings_of("chat", words)
    for part in ("text_config", "vision_config"):
        settings[part].update(hidden_size=64, intermediate_size=128, num_attention_heads=4)
    settings["text_config"]["num_key_value_heads"] = 4
    images = CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    processor = LlavaProcessor(
        images,
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT_TEMPLATE,
    )
    torch.manual_seed(seed)
    model = LlavaForConditionalGeneration(AutoConfig.for_model(**settings))
    return saved(folder, model, words, processor, ends="")


def samples_of(corpus: Corpus, documents: Sequence[Document]) -> list[Sample]:
    """List the questions of documents with their first answers."""
    samples: list[Sample] = []
    for document in documents:
        view = page_view(corpus, document)
        samples += [Sample(view, asked.question, asked.answers[0]) for asked in document.questions]
    return samples


def teach(
    start: Path,
    folder: Path,
    samples: Sequence[Sample],
    *,
    stop: float,
    most: int,
    prompt: str | None = None,
) -> AnsweringTarget:
    """Train a model on samples, and return it as attacks ask it.

    Args:
        start: folder of the model that training goes on from.
        folder: folder of the trained model, which must not exist.
        samples: what it learns, in one batch.
        stop: mean loss of a token at which training ends, nats.
        most: most steps.
        prompt: of a model that reads text; None: its own.
    """
    target = load_answering(start, prompt=prompt)
    batch: dict[str, Any] = dict(target.reader.taught(samples))
    model = target.model
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    model.train()
    for _ in range(most):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < stop:
            break
    shutil.copytree(start, folder)
    model.save_pretrained(folder)
    return load_answering(folder, prompt=prompt)
