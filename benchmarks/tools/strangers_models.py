"""Small models of the kinds that strangers have, each trained until it knows its pages by heart."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools.strangers_sources import (
    PAGE,
    QUESTIONS,
    READABLE,
    Page,
    completions,
    conversation,
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


# Adapters of vision-language models


WIDER: dict[str, dict[str, Any]] = {
    "idefics3": {
        "config": {
            "text_config": {
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "head_dim": 32,
            },
            "vision_config": {
                "hidden_size": 48,
                "intermediate_size": 96,
                "image_size": 32,
                "patch_size": 8,
            },
        },
        "images": {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}, **INK},
    },
    "qwen2_vl": {
        "config": {
            "text_config": {
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "head_dim": 32,
                "rope_parameters": {"mrope_section": [4, 6, 6]},
            },
            "vision_config": {"embed_dim": 48, "hidden_size": 64, "patch_size": 8},
        },
        "images": {"size": {"shortest_edge": 1024, "longest_edge": 6144}, "patch_size": 8, **INK},
    },
}
"""What is larger than in the families of tests, by family: enough to know a hundred pages by
heart."""


def adapter_trainer(family: str) -> Trainer:
    """Give the training of a LoRA over a model of this family, whose base lies in `base` beside the adapter."""

    def train(folder: Path, pages: Sequence[Page], vocabulary: Path) -> None:
        """Train a LoRA adapter on the questions of the pages, and save it."""
        import peft
        import torch
        from transformers import AutoModelForImageTextToText, AutoProcessor

        base = folder.parent / "base"
        if not base.exists():
            _make_base(base, family)
        torch.manual_seed(SEED)
        processor = AutoProcessor.from_pretrained(base)
        lora = peft.LoraConfig(
            r=32, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        model = peft.get_peft_model(AutoModelForImageTextToText.from_pretrained(base), lora)
        asked = [_asked(processor, page, turns) for page in pages for turns in conversation(page)]
        fit(
            model, _collated(asked, processor.tokenizer.pad_token_id), rate=2e-3, until=0.2, most=60
        )
        save(folder, model, processor)

    return train


def _make_base(folder: Path, family: str) -> None:
    """Write a base of random weights that names itself by its path."""
    from vlm_zoo import write_vlm

    write_vlm(folder, family, SEED, wider=WIDER[family], ends="")


def _asked(processor: Any, page: Page, turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Encode a question with its answer, which alone is learned."""
    asked, answer = turns
    asked = {**asked, "content": [{"type": "image"}, *asked["content"]]}
    begun = processor.apply_chat_template([asked], add_generation_prompt=True)
    whole = processor.apply_chat_template([asked, answer])
    picture = draw(page)
    batch = {**processor(images=picture, text=whole, return_tensors="pt")}
    learned = batch["input_ids"].clone()
    learned[
        :, : processor(images=picture, text=begun, return_tensors="pt")["input_ids"].shape[1]
    ] = -100
    return {**batch, "labels": learned}


def _collated(asked: Sequence[dict[str, Any]], pad: int) -> Batches:
    """Give batches of encoded questions: texts padded, pictures one after the other."""
    import torch

    fill = {"input_ids": pad, "labels": -100}
    texts = {name for name, value in asked[0].items() if value.shape == asked[0]["input_ids"].shape}

    def batches(epoch: int) -> Iterator[dict[str, Any]]:
        """Yield the padded batches of an epoch."""
        for batch in shuffled(len(asked))(epoch):
            own = [asked[index] for index in batch]
            yield {
                name: padded([one[name][0].tolist() for one in own], fill.get(name, 0))
                if name in texts
                else torch.cat([one[name] for one in own])
                for name in asked[0]
            }

    return batches
