"""Tiny image-text-to-text models (random weights), a table a family in vlm_zoo.toml.

From a seed, without torchvision.

Processors are written as the Hub has them, so that nothing that makes them need be installed.
"""

import json
import tomllib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from answering_checkpoints import ENDS, filled, saved, seeded, tokenizer

Settings = dict[str, Any]
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TEMPLATES: dict[str, str] = _TABLE["templates"]


@dataclass(frozen=True)
class Zoo:
    """A family of image-text-to-text models.

    Attributes:
        config: the settings of a tiny configuration.
        processor: the name of its processor's class.
        images: the settings of its image processor, its type among them.
        more: settings of the processor itself.
        template: its chat template; None: it has none.
        image: what stands for the image in it.
        marks: special tokens of its vocabulary.
        named: those that its processor asks the tokenizer for, by name.
        end: the token that ends a turn.
        video: the type of its video processor, where its processor has one; such a one needs
            torchvision.
        torchvision: its processor needs torchvision, whether by a video processor or not.
        libraries: what it needs beside.
        prompt: what it is asked with, where it has no chat template.
        seed: of weights that say something.
        large: its processor makes large pictures, whatever its settings say: one row of a batch is
            enough.
    """

    config: Settings
    processor: str
    images: Settings
    more: Settings = field(default_factory=dict)
    template: str | None = None
    image: str = "IMAGE"
    marks: tuple[str, ...] = ()
    named: dict[str, str] = field(default_factory=dict)
    end: str = "</s>"
    video: str | None = None
    torchvision: bool = False
    libraries: tuple[str, ...] = ()
    prompt: str | None = None
    seed: int = 0
    large: bool = False

    @property
    def needed(self) -> list[str]:
        """The libraries that it needs, in the order in which it asks for them."""
        sees = ["torchvision"] if self.torchvision or self.video is not None else []
        return [*sees, *self.libraries]

    @property
    def chat_template(self) -> str | None:
        return (
            None if self.template is None else TEMPLATES[self.template].replace("IMAGE", self.image)
        )


ZOO: dict[str, Zoo] = {name: Zoo(**own) for name, own in _TABLE["families"].items()}


def lacking(family: str) -> list[str]:
    """The libraries that a family needs and that are not installed, in the order in which it asks."""
    return [name for name in ZOO[family].needed if find_spec(name) is None]


def skip_unless_readable(family: str) -> None:
    """Skips the test where a library that this family's processor needs is not installed."""
    if missing := lacking(family):
        pytest.skip(f"{family} needs {', '.join(missing)}: pip install 'docaudit[vision]'")


def write_vlm(
    folder: Path,
    family: str,
    seed: int | None = None,
    *,
    template: str | None = None,
    ends: str = ENDS,
    wider: Settings | None = None,
) -> Path:
    """Writes a tiny checkpoint of a family: random weights, a tokenizer of characters, its processor's settings.

    Args:
        folder: made here.
        family: a key of `ZOO`.
        seed: of the weights; None: the family's own.
        template: a chat template in place of the family's own.
        ends: characters that end an answer beside the end token.
        wider: `config` and `images` in which it differs from its family.
    """
    import transformers

    zoo = ZOO[family]
    words = tokenizer(tuple(zoo.marks), end=zoo.end)
    more = wider or {}
    if zoo.named:
        words._set_model_specific_special_tokens(dict(zoo.named))
    own = _merged(filled(zoo.config, words, _TABLE["shared"]), more.get("config", {}))
    config = transformers.CONFIG_MAPPING[family.removesuffix("-t5")](**own)
    seeing = transformers.AutoModelForImageTextToText
    if type(config) not in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        seeing = transformers.AutoModelForCausalLM
    model = seeded(
        seeing.from_config,
        config,
        zoo.seed if seed is None else seed,
    )
    for name, gate in model.named_parameters():
        if "attn_gate" in name or "mlp_gate" in name:
            gate.data.fill_(1.0)  # Mllama's are shut when they are fresh: it would not see the page
    saved(folder, model, words, ends=ends)
    settings = {"processor_class": zoo.processor, **zoo.images, **more.get("images", {})}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    (folder / "processor_config.json").write_text(
        json.dumps({"processor_class": zoo.processor, **zoo.more})
    )
    if zoo.video is not None:
        videos = {"processor_class": zoo.processor, "video_processor_type": zoo.video}
        (folder / "video_preprocessor_config.json").write_text(json.dumps(videos))
    if template or zoo.template:
        (folder / "chat_template.jinja").write_text(template or str(zoo.chat_template))
    return folder


def _merged(settings: Settings, more: Settings) -> Settings:
    """These settings with others in their place, table by table."""
    tables = {
        name: _merged(settings.get(name, {}), own)
        for name, own in more.items()
        if isinstance(own, dict)
    }
    return {**settings, **more, **tables}
