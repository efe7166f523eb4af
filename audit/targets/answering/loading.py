"""Loading a checkpoint that answers questions.

It is as safe as `audit.targets.encoders.loading` is for encoders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto as known

from audit import plugins
from audit.corpus.documents import TaskKind
from audit.errors import ModelError, TargetError
from audit.targets import TABLE, wording
from audit.targets.answering.layout import udop_reader
from audit.targets.answering.pictures import donut_reader, pix2struct_reader
from audit.targets.answering.processed import seeing_reader
from audit.targets.answering.reader import Inputs, Reader, lifted, open_ends, set_start
from audit.targets.answering.rows import rows_for, trial_sample
from audit.targets.answering.target import AnsweringTarget
from audit.targets.answering.words_reader import decoder_reader, encoder_decoder_reader
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import bytes_of_row, load_whole_model, place
from audit.targets.checkpoint.safety import DAMAGE, one_line, quiet
from audit.targets.encoders.families import OpenImage

_CORRECT = "correct generation_config.json: write it with model.generation_config.save_pretrained"
ReaderOf = Callable[..., Reader]
"""Makes a reader from folder, configuration and prompt; that of some families takes a system turn
too, by name."""


@dataclass(frozen=True)
class AnsweringFamily:
    """One family of models that answer questions.

    Attributes:
        name: name as the record and people name it.
        model_class: what its checkpoints are loaded as.
        reader_of: makes its reader.
        takes_system: `reader_of` takes a system turn as `system`.
        denoises: whether its models put back hidden spans as T5 does
            (`audit.targets.answering.denoiser`).
        parses: whether its models may be taught another prompt than a question's.
    """

    name: str
    model_class: type[Any]
    reader_of: ReaderOf
    takes_system: bool = False
    denoises: bool = False
    parses: bool = True


FAMILIES: dict[str, AnsweringFamily] = {
    "vision-encoder-decoder": AnsweringFamily(
        "Donut / vision encoder-decoder", transformers.VisionEncoderDecoderModel, donut_reader
    ),
    "pix2struct": AnsweringFamily(
        "Pix2Struct", transformers.Pix2StructForConditionalGeneration, pix2struct_reader
    ),
    "udop": AnsweringFamily(
        "UDOP", transformers.UdopForConditionalGeneration, udop_reader, parses=False
    ),
    # It sees pages, but transformers lists it among models of text.
    "phi4_multimodal": AnsweringFamily(
        "phi4_multimodal",
        transformers.Phi4MultimodalForCausalLM,
        seeing_reader,
        takes_system=True,
    ),
}
"""By the `model_type` of a configuration; a new family is a line here and a file beside this one. All other models that
transformers knows as image-text-to-text are read through their own processor."""


def find_family(kind: str) -> AnsweringFamily | None:
    """Find the family with this `model_type` in `FAMILIES` or among installed extensions.

    None for all others.
    """
    family = FAMILIES.get(kind) or plugins.find("docaudit.targets", kind)
    return family if isinstance(family, AnsweringFamily) else None


def is_answering(folder: AnyFolder) -> bool:
    """Return True for a checkpoint whose configuration is of a kind that answers questions.

    Raises:
        TargetError: the folder is no checkpoint, or is unsafe to load.
    """
    return _family_of(open_checkpoint(folder).config) is not None


def load_answering(
    folder: AnyFolder,
    *,
    device: str = "cpu",
    prompt: str | None = None,
    system: str | None = None,
    batch_rows: int | None = None,
    images: OpenImage | None = None,
    task: TaskKind = "question-answering",
) -> AnsweringTarget:
    """Load a checkpoint as a target that answers questions.

    Args:
        folder: a Hugging Face checkpoint on this machine.
        device: "cpu", "cuda" or "mps".
        prompt: what the model was trained to be asked with, "{question}" standing for the question;
            None: what its family is trained with.
        system: the text of the system turn that it was trained with; None: what its chat template
            itself writes.
        batch_rows: number of rows of a batch, see `AnsweringTarget`.
        images: images, see `AnsweringTarget`.
        task: task of the model; for another one than "question-answering" the prompt is given as it
            is, without a question.

    Raises:
        TargetError: the folder is not a checkpoint docaudit knows, would run code, or lacks weights
            or a processor.
    """
    folder = open_checkpoint(folder)
    family = _family_of(folder.config)
    if family is None:
        raise TargetError(
            *wording("answers_nothing", folder=folder, kind=folder.config.get("model_type"))
        )
    if task == "question-answering" and prompt:
        _check_places(prompt)
    _check_library(folder)
    model = load_whole_model(folder, family.model_class)
    config = model.config
    if system is not None and not family.takes_system:
        raise TargetError(
            f"{folder}: {family.name} has no system turn",
            "take [recipe] system out of manifest.toml",
        )
    reader_of = family.reader_of if system is None else partial(family.reader_of, system=system)
    with quiet(), _refusing(folder, "its processor cannot read a text"):
        reader = reader_of(folder, config, prompt)
    with quiet(), _refusing(folder, "its processor cannot read a page", reader.advice):
        reader.prompts([trial_sample()])
        taught = reader.taught([trial_sample()])
    batch_rows = batch_rows or rows_for(reader, device)
    row = 0
    if device == "cuda":
        row = bytes_of_row(config, _longest_row(taught), reader.max_new_tokens)
    model = place(model.eval(), device, row, batch_rows)
    with _refusing(folder, "its generation settings cannot be used", _CORRECT):
        set_start(model)
        withheld = lifted(model.generation_config, reader)
        open_ends(model.generation_config, reader)
    card = folder.card(
        model,
        family.name,
        "question-answering",
        "question answering",
        vocabulary=int(config.get_text_config(decoder=True).vocab_size),
        max_tokens=reader.max_tokens,
        device=device,
        resolution=reader.resolution,
        lifted=withheld,
    )
    target = AnsweringTarget(model, reader, card, batch_rows, images)
    unread = "the model cannot read what its processor makes of a page"
    with quiet(), torch.inference_mode(), _refusing(folder, unread):
        target.score_answers([trial_sample()], 1)
    return target


def _check_library(folder: CheckpointFolder) -> None:
    """Refuse a model whose layers are those of a library that is not installed.

    Raises:
        TargetError: it is not.
    """
    kind = str(folder.config.get("model_type"))
    library = TABLE["answering"]["libraries"].get(kind)
    if library is not None and find_spec(library) is None:
        raise TargetError(*wording("needs_package", folder=folder, kind=kind, library=library))


def _check_places(prompt: str) -> None:
    """Refuse a prompt that lacks the placeholder of the question or of the page's text.

    Raises:
        TargetError: it has none.
    """
    if "{question}" not in prompt and "{text}" not in prompt:
        raise TargetError(
            "the prompt has no {question} in it", "correct [recipe] prompt in manifest.toml"
        )


def _longest_row(inputs: Inputs) -> int:
    """Return the number of tokens of the longest row among a model's inputs."""
    return max(
        rows.shape[1] for rows in inputs.values() if rows.ndim == 2 and not rows.is_floating_point()
    )


def _family_of(raw: dict[str, Any]) -> AnsweringFamily | None:
    """Return the family of a raw configuration; None when its models do not answer questions."""
    kind = str(raw.get("model_type"))
    family = find_family(kind)
    class_name = known.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind)
    if family is not None:
        class_name = family.model_class.__name__
    elif class_name is not None:
        seeing_class = transformers.AutoModelForImageTextToText
        family = AnsweringFamily(kind, seeing_class, seeing_reader, takes_system=True)
    else:
        return _text_family_of(kind, raw)
    architectures = raw.get("architectures")
    if not isinstance(architectures, list) or not architectures or class_name in architectures:
        return family
    return None


_TEXT_FAMILIES: tuple[tuple[dict[str, str], Any, ReaderOf], ...] = (
    (
        known.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        transformers.AutoModelForSeq2SeqLM,
        encoder_decoder_reader,
    ),
    (known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM, decoder_reader),
)
"""Models of text: those that read a page as words, by the classes that transformers has for
them."""


def _text_family_of(kind: str, raw: dict[str, Any]) -> AnsweringFamily | None:
    """Return the family of a model of text; None for all others.

    A configuration that names no class is taken for one unless the family has masked language
    models too.
    """
    if any(part in kind for part in TABLE["answering"]["other_input"]):
        return None
    architectures = raw.get("architectures") or []
    may_be_unnamed = kind not in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    for classes, model_class, reader_of in _TEXT_FAMILIES:
        class_name = classes.get(kind)
        if class_name is None:
            continue
        if class_name in architectures or (not architectures and may_be_unnamed):
            return AnsweringFamily(
                kind, model_class, reader_of, takes_system=reader_of is decoder_reader
            )
    return None


@contextmanager
def _refusing(folder: CheckpointFolder, what: str, advice: str = Reader.advice) -> Iterator[None]:
    """Turn what transformers raises within into a `TargetError` about the checkpoint.

    Args:
        folder: the checkpoint.
        what: what failed, in words.
        advice: what the owner can do.
    """
    try:
        yield
    except ModelError as error:
        refusal = TargetError(f"{folder}: {what}: {error.about}", advice)
        refusal.story = error.story
        raise refusal from None
    except (*DAMAGE, MemoryError) as error:
        raise TargetError(f"{folder}: {what}: {one_line(error)}", advice) from None
