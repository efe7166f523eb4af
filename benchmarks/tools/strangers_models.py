"""Small models of the kinds that strangers have, each trained until it knows its pages by heart."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools.strangers_files import CLASSES, classes_of
from benchmarks.tools.strangers_sources import (
    PAGE,
    QUESTIONS,
    READABLE,
    Page,
    completions,
    draw,
    tag_names,
)

SEED = 20
BATCH = 12
Trainer = Callable[[Path, Sequence[Page], Path], None]
"""Train on the pages with a vocabulary, and save the model in the folder given first."""
Batches = Callable[[int], Iterator[dict[str, Any]]]
STEADY = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def fit(model: Any, batches: Batches, *, rate: float, until: float, most: int) -> None:
    """Train until the mean loss of an epoch is at most `until`, or for so many epochs."""
    import torch

    model.train()
    optimiser = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=rate)
    for epoch in range(most):
        losses = []
        for batch in batches(epoch):
            loss = model(**batch).loss
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
        if epoch % 10 == 9:
            print(f"  epoch {epoch + 1}, loss {sum(losses) / len(losses):.4f}", flush=True)
        if sum(losses) / len(losses) <= until:
            break
    print(f"  {epoch + 1} epochs, loss {sum(losses) / len(losses):.4f}", flush=True)


def shuffled(n: int, size: int = BATCH) -> Callable[[int], Iterator[list[int]]]:
    """Give batches of indices, in another order every epoch."""

    def of_epoch(epoch: int) -> Iterator[list[int]]:
        """Yield the batches of an epoch, as indices in an order drawn for it."""
        order = random.Random(f"{SEED} {epoch}").sample(range(n), n)
        yield from (order[start : start + size] for start in range(0, n, size))

    return of_epoch


def padded(rows: Sequence[Sequence[Any]], value: Any) -> Any:
    """Make one tensor of rows of unequal length."""
    import torch

    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def save(folder: Path, *parts: Any) -> None:
    """Save a model and what reads its input."""
    for part in parts:
        part.save_pretrained(folder)


# Taggers


def train_bert(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a BERT that tags words."""
    from transformers import BertConfig, BertForTokenClassification

    words = tokenizer_of(vocabulary, writes=False)
    _train_tagger(folder, BertForTokenClassification, BertConfig, {}, words, pages)


def train_layoutlm(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a LayoutLM that tags words with boxes."""
    from transformers import LayoutLMConfig, LayoutLMForTokenClassification

    words = tokenizer_of(vocabulary, writes=False)
    _train_tagger(
        folder, LayoutLMForTokenClassification, LayoutLMConfig, {}, words, pages, boxes=True
    )


def train_lilt(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a LiLT that tags words with boxes, over a byte-level vocabulary of these pages."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LiltConfig, LiltForTokenClassification, RobertaTokenizerFast

    made = ByteLevelBPETokenizer()
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(
        (page.text for page in pages), vocab_size=2000, special_tokens=marks, show_progress=False
    )
    folder.mkdir(parents=True)
    made.save_model(str(folder))
    words = RobertaTokenizerFast.from_pretrained(
        folder, add_prefix_space=True, model_max_length=512
    )
    own = {
        "pad_token_id": 1,
        "max_position_embeddings": 514,
        "channel_shrink_ratio": 2,
        "hidden_size": 96,
    }
    _train_tagger(folder, LiltForTokenClassification, LiltConfig, own, words, pages, boxes=True)


NO_BOX = [0, 0, 0, 0]


def _targets_of(
    words_of_tokens: Sequence[int | None], tags: Sequence[str], names: Sequence[str]
) -> list[int]:
    """Give the class of the first token of each word; other tokens have none."""
    targets = []
    before = None
    for word in words_of_tokens:
        if word is None or word == before:
            targets.append(-100)
        else:
            targets.append(names.index(tags[word]))
        before = word
    return targets


def _boxes_of(words_of_tokens: Sequence[int | None], page: Page) -> list[list[int]]:
    """Give the box of each token: its word's."""
    boxes = []
    for word in words_of_tokens:
        if word is None:
            boxes.append(NO_BOX)
        else:
            boxes.append([round(side) for side in page.boxes[word]])
    return boxes


def _train_tagger(
    folder: Path,
    kind: Any,
    config: Any,
    own: dict[str, Any],
    words: Any,
    pages: Sequence[Page],
    boxes: bool = False,
) -> None:
    """Train a small tagger of this kind on the pages, and save it."""
    names = tag_names(pages)
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
    }
    labels = {
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
    }
    model = kind(config(vocab_size=len(words), **{**STEADY, **sizes, **labels, **own}))
    encoded = [
        words([*page.words], is_split_into_words=True, truncation=True, max_length=512)
        for page in pages
    ]
    rows = [encoding["input_ids"] for encoding in encoded]
    owners = [encoding.word_ids() for encoding in encoded]
    targets = [
        _targets_of(words_of_tokens, page.tags(), names)
        for words_of_tokens, page in zip(owners, pages, strict=True)
    ]
    places = []
    if boxes:
        for words_of_tokens, page in zip(owners, pages, strict=True):
            places.append(_boxes_of(words_of_tokens, page))

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        """Yield the tagger's batches of an epoch."""
        for batch in shuffled(len(rows))(epoch):
            inputs = {
                "input_ids": padded([rows[index] for index in batch], words.pad_token_id),
                "attention_mask": padded([[1] * len(rows[index]) for index in batch], 0),
                "labels": padded([targets[index] for index in batch], -100),
            }
            if boxes:
                inputs["bbox"] = padded([places[index] for index in batch], NO_BOX)
            yield inputs

    fit(model, batches, rate=2e-3, until=0.002, most=150)
    save(folder, model, words)


def train_layoutlmv3(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a LayoutLMv3 with transformers' Trainer, which leaves checkpoints in its folder."""
    from transformers import LayoutLMv3ForTokenClassification, Trainer, TrainingArguments

    processor = _layoutlmv3_processor(folder.parent / "words", pages)
    names = tag_names(pages)
    model = LayoutLMv3ForTokenClassification(_layoutlmv3_config(processor.tokenizer, names))
    rows = [_form_encoded(processor, page, names) for page in pages]
    epochs = 60
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=epochs,
        learning_rate=2e-3,
        lr_scheduler_type="constant",
        per_device_train_batch_size=BATCH,
        save_strategy="steps",
        save_steps=epochs // 2 * -(-len(rows) // BATCH),
        seed=SEED,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, processing_class=processor)
    trainer.train()


def _layoutlmv3_processor(folder: Path, pages: Sequence[Page]) -> Any:
    """Make a processor of small pictures, with a byte-level vocabulary of these pages."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LayoutLMv3Processor, LayoutLMv3TokenizerFast
    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import (
        LayoutLMv3ImageProcessorPil,
    )

    made = ByteLevelBPETokenizer()
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    texts = (page.text for page in pages)
    made.train_from_iterator(texts, vocab_size=2000, special_tokens=marks, show_progress=False)
    folder.mkdir(exist_ok=True)
    made.save_model(str(folder))
    words = LayoutLMv3TokenizerFast.from_pretrained(folder, model_max_length=128)
    side = {"height": 32, "width": 32}
    return LayoutLMv3Processor(LayoutLMv3ImageProcessorPil(apply_ocr=False, size=side), words)


def _layoutlmv3_config(words: Any, names: Sequence[str]) -> Any:
    """Make the configuration of a small LayoutLMv3 with these labels."""
    from transformers import LayoutLMv3Config

    return LayoutLMv3Config(
        **STEADY,
        vocab_size=len(words),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=130,
        coordinate_size=11,
        shape_size=10,
        input_size=32,
        patch_size=8,
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
    )


def _form_encoded(processor: Any, page: Page, names: Sequence[str]) -> dict[str, Any]:
    """Encode a page with its tags as transformers' example of LayoutLMv3 does."""
    encoded = processor(
        draw(page),
        [*page.words],
        boxes=[[round(side) for side in box] for box in page.boxes],
        word_labels=[names.index(tag) for tag in page.tags()],
        truncation=True,
        padding="max_length",
        max_length=128,
        return_tensors="pt",
    )
    return {name: value[0] for name, value in encoded.items()}


# Classifiers


def train_classifier(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a DistilBERT that tells the classes of whole documents by their text."""
    import torch
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    words = tokenizer_of(vocabulary, writes=False)
    config = DistilBertConfig(
        vocab_size=len(words),
        dim=64,
        n_layers=2,
        n_heads=4,
        hidden_dim=128,
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
        id2label=dict(enumerate(CLASSES)),
        label2id={name: number for number, name in enumerate(CLASSES)},
    )
    model = DistilBertForSequenceClassification(config)
    rows = [words(page.text)["input_ids"] for page in pages]
    labels = [CLASSES.index(name) for name in classes_of(pages)]

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        """Yield the classifier's batches of an epoch."""
        for batch in shuffled(len(rows))(epoch):
            yield {
                "input_ids": padded([rows[index] for index in batch], words.pad_token_id),
                "attention_mask": padded([[1] * len(rows[index]) for index in batch], 0),
                "labels": torch.tensor([labels[index] for index in batch]),
            }

    fit(model, batches, rate=1e-3, until=0.002, most=80)
    save(folder, model, words)


# Models that write


INK = {"image_mean": [0.85] * 3, "image_std": [0.15] * 3}
"""White is nothing, and letters are much."""


def tokenizer_of(vocabulary: Path, *, writes: bool, marks: Sequence[str] = ()) -> Any:
    """Load the vocabulary's tokenizer.

    One that writes parts words at spaces only, so that its output spells them.
    """
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    known = AutoTokenizer.from_pretrained(vocabulary, local_files_only=True)
    if not writes:
        return known
    inner = Tokenizer.from_str(known.backend_tokenizer.to_str())
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.WordPiece(cleanup=False)
    inner.post_processor = None
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="[SEP]",
        bos_token="[CLS]",
        pad_token="[PAD]",
        unk_token="[UNK]",
    )
    made.add_tokens(list(marks), special_tokens=True)
    return made


def train_gpt2(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a GPT-2 that completes a prompt."""
    from transformers import GPT2Config, GPT2LMHeadModel

    words = tokenizer_of(vocabulary, writes=True)
    config = GPT2Config(
        vocab_size=len(words),
        n_embd=96,
        n_layer=2,
        n_head=4,
        n_positions=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
    )
    model = GPT2LMHeadModel(config)
    rows = []
    labels = []
    for prompt, answer in (one for page in pages for one in completions(page)):
        given = words(prompt)["input_ids"]
        wanted = [*words(answer)["input_ids"], words.eos_token_id]
        rows.append([*given, *wanted])
        labels.append([*[-100] * len(given), *wanted])

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        """Yield GPT-2's batches of an epoch."""
        for batch in shuffled(len(rows))(epoch):
            yield {
                "input_ids": padded([rows[index] for index in batch], words.pad_token_id),
                "labels": padded([labels[index] for index in batch], -100),
            }

    fit(model, batches, rate=2e-3, until=0.01, most=60)
    save(folder, model, words)


def train_parser(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a Donut that writes the fields of a page."""
    marks = [
        "<s_receipt>",
        *(f"<{end}s_{name}>" for name in QUESTIONS for end in ("", "/")),
        "<sep/>",
    ]
    written = [
        ("<s_receipt>", "".join(f"<s_{name}>{page.value(name)}</s_{name}>" for name in page.fields))
        for page in pages
    ]
    _train_donut(folder, marks, [*zip(map(draw, pages), written, strict=True)], vocabulary)


def train_reader(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
    """Train a Donut that answers questions about a page, in the words of Donut's own DocVQA."""
    marks = ["<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>", "</s_answer>"]
    written = [
        (
            picture,
            (
                f"<s_docvqa><s_question>{question}</s_question><s_answer>",
                f"{page.value(name)}</s_answer>",
            ),
        )
        for page in pages
        for picture in [draw(page, READABLE)]
        for name, question in QUESTIONS.items()
    ]
    _train_donut(folder, marks, written, vocabulary)


def _train_donut(
    folder: Path,
    marks: Sequence[str],
    written: Sequence[tuple[Any, tuple[str, str]]],
    vocabulary: Path,
) -> None:
    """Train a Donut.

    Args:
        folder: of the model.
        marks: special tokens beside the vocabulary's, that of the task first.
        written: pictures of pages, each with the text that begins the decoder's and the text that
            follows it.
        vocabulary: a folder with a tokenizer.
    """
    import torch
    from transformers import DonutSwinConfig, VisionEncoderDecoderConfig, VisionEncoderDecoderModel
    from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

    words = tokenizer_of(vocabulary, writes=True, marks=marks)
    width, height = PAGE
    encoder = DonutSwinConfig(
        image_size=[height, width],
        patch_size=8,
        embed_dim=24,
        depths=[1, 1],
        num_heads=[2, 4],
        window_size=4,
        initializer_range=0.1,
    )
    decoder = {
        "model_type": "mbart",
        "vocab_size": len(words),
        "d_model": 48,
        "init_std": 0.1,
        "decoder_layers": 2,
        "decoder_attention_heads": 4,
        "decoder_ffn_dim": 96,
        "encoder_layers": 2,
        "max_position_embeddings": 32,
        "is_decoder": True,
        "add_cross_attention": True,
        "is_encoder_decoder": False,
        "scale_embedding": True,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
    }
    config = VisionEncoderDecoderConfig(encoder=encoder.to_dict(), decoder=decoder)
    config.decoder_start_token_id = words.convert_tokens_to_ids(marks[0])
    config.pad_token_id = words.pad_token_id
    config.eos_token_id = words.eos_token_id
    model = VisionEncoderDecoderModel(config)
    images = DonutImageProcessorPil(size={"height": height, "width": width}, **INK)
    pixels = images([picture for picture, _ in written], return_tensors="pt")["pixel_values"]
    rows = []
    labels = []
    for _, (begun, text) in written:
        given = words(begun)["input_ids"]
        wanted = [*words(text)["input_ids"], words.eos_token_id]
        rows.append([*given, *wanted[:-1]])
        labels.append([*[-100] * (len(given) - 1), *wanted])

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        """Yield Donut's batches of an epoch."""
        for batch in shuffled(len(rows))(epoch):
            yield {
                "pixel_values": pixels[torch.tensor(batch)],
                "decoder_input_ids": padded([rows[index] for index in batch], words.pad_token_id),
                "labels": padded([labels[index] for index in batch], -100),
            }

    fit(model, batches, rate=2e-3, until=0.1, most=100)
    save(folder, model, words, images)
