"""Checkpoints in the shapes of published ones, with random weights, a tokenizer of characters and their processor."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

SHAPES: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("shapes.toml").read_text(encoding="utf-8")
)
FAKES = Path(__file__).parents[2] / "tests" / "fakes"
SHARD = 2 * 10**9
"""Bytes of a file of weights."""
SPREAD = 0.02
"""Standard deviation of random weights, as most models begin with."""


def config_of(name: str, *, tiny: bool = False) -> tuple[Any, Any, Any]:
    """Make a shape's configuration.

    Args:
        name: of `SHAPES`.
        tiny: the same kind with the sizes of tests.

    Returns:
        The configuration, the tokenizer whose ids it names, and the table of its family, if it sees
        pages as chats do.
    """
    if str(FAKES) not in sys.path:
        sys.path.append(str(FAKES))
    from answering_checkpoints import DONUT_MARKS, filled, settings_of, tokenizer
    from text_zoo import byte_tokenizer

    shape = SHAPES[name]
    kind = shape["kind"]
    sizes = {} if tiny else merged(SHAPES["shared"].get(shape["kind"], {}), shape["config"])
    family = None
    if kind == "llama":
        words = byte_tokenizer(template=True)
        own = settings_of("llama", words)
    elif kind == "donut":
        words = tokenizer(DONUT_MARKS)
        own = settings_of("donut", words)
        own["decoder_start_token_id"] = words.convert_tokens_to_ids(DONUT_MARKS[0])
        own["encoder"].setdefault("image_size", [64, 48])
        own["decoder"].setdefault("max_position_embeddings", 128)
    else:
        zoo = tomllib.loads((FAKES / "vlm_zoo.toml").read_text(encoding="utf-8"))
        family = zoo["families"][kind]
        words = tokenizer(tuple(family["marks"]), end=family["end"])
        own = {"model_type": kind, **filled(family["config"], words, zoo["shared"])}
        family["chat"] = zoo["templates"][family["template"]].replace(
            "IMAGE", family.get("image", "IMAGE")
        )
    return transformers.AutoConfig.for_model(**merged(own, sizes)), words, family


def merged(settings: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with others in their place, table by table."""
    tables = {
        name: merged(settings.get(name) or {}, own)
        for name, own in more.items()
        if isinstance(own, dict)
    }
    return {**settings, **more, **tables}


def empty_model(config: Any, dtype: torch.dtype = torch.bfloat16) -> Any:
    """Make the model that answers with this configuration, without its weights."""
    kinds = {"vision-encoder-decoder": "VisionEncoderDecoderModel", "llama": "LlamaForCausalLM"}
    name = kinds.get(config.model_type)
    with torch.device("meta"):
        if name is None:
            model = transformers.AutoModelForImageTextToText.from_config(config, dtype=dtype)
        else:
            model = getattr(transformers, name)(config).to(dtype)
    return model.eval()


def write_shape(folder: Path, name: str, device: str, *, tiny: bool = False) -> dict[str, Any]:
    """Write a checkpoint of a shape, its weights drawn on the device, a few gigabytes at a time.

    Returns:
        The numbers of parameters and bytes.
    """
    config, words, family = config_of(name, tiny=tiny)
    dtype = torch.float32 if SHAPES[name]["kind"] == "donut" else torch.bfloat16
    model = empty_model(config, dtype)
    folder.mkdir(parents=True, exist_ok=True)
    config.architectures = [type(model).__name__]
    config.dtype = dtype
    config.save_pretrained(folder)
    words.save_pretrained(folder)
    ends = {"eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}
    transformers.GenerationConfig(**ends).save_pretrained(folder)
    _write_processor(folder, name, config, family, tiny=tiny)
    if SHAPES[name]["kind"] == "donut":
        with torch.device(device):
            torch.manual_seed(0)
            type(model)(config).save_pretrained(folder)
        return {"parameters": model.num_parameters(), "bytes": 4 * model.num_parameters()}
    index: dict[str, str] = {}
    total = 0
    for number, shard in enumerate(_shards(model, device)):
        file = f"model-{number:05d}.safetensors"
        save_file(shard, folder / file, {"format": "pt"})
        index |= dict.fromkeys(shard, file)
        total += sum(own.numel() * own.element_size() for own in shard.values())
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text)
    return {"parameters": model.num_parameters(), "bytes": total}


def _write_processor(folder: Path, name: str, config: Any, family: Any, *, tiny: bool) -> None:
    if SHAPES[name]["kind"] == "donut":
        from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

        height, width = config.encoder.image_size
        DonutImageProcessorPil(size={"height": height, "width": width}).save_pretrained(folder)
    if family is None:
        return
    images = {**family["images"], **({} if tiny else SHAPES[name]["images"])}
    own = {"processor_class": family["processor"]}
    (folder / "preprocessor_config.json").write_text(json.dumps({**own, **images}))
    more = {**family.get("more", {}), **({} if tiny else SHAPES[name].get("more", {}))}
    (folder / "processor_config.json").write_text(json.dumps({**own, **more}))
    if "video" in family:
        video = {**own, "video_processor_type": family["video"]}
        (folder / "video_preprocessor_config.json").write_text(json.dumps(video))
    (folder / "chat_template.jinja").write_text(family["chat"])


def _shards(model: Any, device: str) -> Iterator[dict[str, torch.Tensor]]:
    """Yield random weights in files of `SHARD` bytes.

    A head that is tied to the embeddings is in none.
    """
    torch.manual_seed(0)
    shard: dict[str, torch.Tensor] = {}
    size = 0
    for name, empty in model.state_dict().items():
        if name in model.all_tied_weights_keys:
            continue
        own = torch.empty(empty.shape, dtype=empty.dtype, device=device)
        if empty.dim() > 1:
            own.normal_(std=SPREAD)
        else:
            own.fill_(float(name.endswith("weight")))
        shard[name] = own.cpu()
        size += own.numel() * own.element_size()
        if size >= SHARD:
            yield shard
            shard = {}
            size = 0
    if shard:
        yield shard
