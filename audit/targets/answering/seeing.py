"""The reader of any image-text-to-text model: in turns where its processor has a chat template, else with a prompt."""

from __future__ import annotations

from typing import Any

from audit.errors import TargetError
from audit.targets.answering.chat import ChatReader
from audit.targets.answering.parts import processor_of
from audit.targets.answering.processed import ProcessorReader, ends_of, mark_of, positions_of
from audit.targets.answering.prompted import PromptReader, example_of
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.table import TABLE


def reader_of(folder: CheckpointFolder, config: Any, prompt: str | None, system: str | None = None) -> ProcessorReader:
    """The reader of an image-text-to-text model.

    Args:
        folder: the checkpoint.
        config: its configuration.
        prompt: with "{question}" in it: the text of the user's turn, or the whole text where it holds the mark of the
            image or there is no chat template; None: the question alone, in turns.
        system: the text of the system turn.

    Raises:
        TargetError: its processor cannot be used, or has no chat template and there is no prompt.
    """
    n_embedded = config.get_text_config(decoder=True).vocab_size + TABLE["answering"]["unscored"].get(
        str(config.model_type), 0
    )
    processor = processor_of(folder, n_embedded)
    tokenizer, mark = processor.tokenizer, mark_of(processor)
    ends, positions = ends_of(folder, config, tokenizer), positions_of(config)
    processor.chat_template = getattr(processor, "chat_template", None) or tokenizer.chat_template
    whole = prompt is not None and mark is not None and mark in prompt
    if processor.chat_template and not whole:
        return ChatReader(processor, ends, positions, prompt, system)
    if prompt is None:
        example = example_of(str(config.model_type), mark)
        raise TargetError(
            f"{folder}: its processor has no chat template, so docaudit cannot tell how the model is asked",
            "write in manifest.toml, below [recipe], the very text that it was trained to be asked with, such as"
            f' prompt = "{example}", {{question}} standing for the question; or add the chat_template.jinja that it was'
            " fine-tuned with to the checkpoint",
        )
    if system is not None:
        raise TargetError(
            f"{folder}: a model that is asked with a whole prompt has no system turn",
            "write the text of [recipe] system into [recipe] prompt",
        )
    return PromptReader(processor, ends, positions, prompt, writes_apart=bool(config.is_encoder_decoder))
