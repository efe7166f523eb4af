"""Invented folders and files that people give as a model, and that are none docaudit opens.

Each is tiny: names and first bytes as the libraries write them, and no weights.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

Make = Callable[[Path], Path]
"""Makes what is given in an empty folder, and returns its path."""
BERT = {"model_type": "bert", "architectures": ["BertForTokenClassification"]}


def write(path: Path, content: bytes | str = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_json(path: Path, content: object) -> Path:
    return write(path, json.dumps(content))


def safetensors(path: Path, *names: str, n_missing: int = 0) -> Path:
    """Write a file of tensors of two numbers each, without its last bytes where some go missing."""
    header = {}
    for number, name in enumerate(names):
        offsets = [8 * number, 8 * number + 8]
        header[name] = {"dtype": "F32", "shape": [2], "data_offsets": offsets}
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + bytes(8 * len(names))
    return write(path, content[: len(content) - n_missing])


def configured(folder: Path, **config: object) -> Path:
    """Write the configuration and the tokenizer of a tagger, without weights."""
    write_json(folder / "config.json", {**BERT, **config})
    write_json(folder / "tokenizer.json", {"version": "1.0"})
    return folder


def checkpoint(folder: Path, **config: object) -> Path:
    """Write a folder that looks like a checkpoint."""
    configured(folder, **config)
    safetensors(folder / "model.safetensors", "bert.a", "classifier.weight")
    return folder


def beside(*names: str) -> Make:
    """Make a configuration with these files beside it, in place of safetensors."""

    def make(folder: Path) -> Path:
        configured(folder)
        for name in names:
            write(folder / name)
        return folder

    return make


def only(*names: str) -> Make:
    """Make a folder with these files alone."""

    def make(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            write(folder / name)
        return folder

    return make


def file(name: str, content: bytes = b"x") -> Make:
    """Make one file, and give the file itself."""
    return lambda folder: write(folder / name, content)


def run(folder: Path) -> Path:
    for name in ("checkpoint-295", "checkpoint-1300"):
        checkpoint(folder / name)
        write_json(folder / name / "trainer_state.json", {"global_step": 1})
    write(folder / "training_args.bin")
    return folder


def weights_file(folder: Path) -> Path:
    return checkpoint(folder) / "model.safetensors"


def adapter(folder: Path, **settings: object) -> Path:
    write_json(folder / "adapter_config.json", {"peft_type": "LORA", **settings})
    safetensors(folder / "adapter_model.safetensors", "base_model.model.a.lora_A.weight")
    return folder


def retriever(folder: Path) -> Path:
    return adapter(
        folder,
        task_type="FEATURE_EXTRACTION",
        base_model_name_or_path="vidore/colpaligemma-3b-pt-448-base",
    )


def adapter_of_4_bits(folder: Path) -> Path:
    return adapter(
        folder,
        task_type="CAUSAL_LM",
        base_model_name_or_path="unsloth/Qwen2.5-VL-3B-Instruct-unsloth-bnb-4bit",
    )


def old_adapter(folder: Path) -> Path:
    write_json(folder / "adapter_config.json", {"peft_type": "LORA", "task_type": "TOKEN_CLS"})
    write(folder / "adapter_model.bin")
    return folder


def sentence_embedder(folder: Path) -> Path:
    checkpoint(folder, architectures=["BertModel"])
    write_json(folder / "modules.json", [])
    write_json(folder / "config_sentence_transformers.json", {})
    return folder


def own_code(folder: Path) -> Path:
    checkpoint(
        folder,
        model_type="deepseek_vl_v2",
        architectures=["DeepseekOCRForCausalLM"],
        auto_map={"AutoModel": "modeling_deepseekocr.DeepseekOCRForCausalLM"},
    )
    write(folder / "modeling_deepseekocr.py", "raise SystemExit('code of a stranger ran')\n")
    return folder


def pointer(folder: Path) -> Path:
    configured(folder)
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 438000000\n"
    write(folder / "model.safetensors", text)
    return folder


def cut_off(folder: Path) -> Path:
    configured(folder)
    safetensors(folder / "model.safetensors", "bert.a", n_missing=3)
    return folder


def shards_without_index(folder: Path) -> Path:
    configured(folder)
    for number in (1, 2):
        name = f"model-{number:05}-of-00002.safetensors"
        safetensors(folder / name, f"bert.{number}")
    return folder


def deepspeed(folder: Path) -> Path:
    configured(folder)
    write(folder / "zero_to_fp32.py", "# of DeepSpeed\n")
    write(folder / "global_step40" / "zero_pp_rank_0_mp_rank_00_model_states.pt")
    write(folder / "latest", "global_step40")
    return folder


def logged_by_mlflow(folder: Path) -> Path:
    write(folder / "MLmodel", "flavors:\n  transformers: {}\n")
    checkpoint(folder / "model")
    return folder


def data_set(folder: Path) -> Path:
    write(folder / "manifest.toml", 'name = "receipts"\n[task]\nkind = "token-classification"\n')
    write(folder / "documents.jsonl", "{}\n")
    return folder


def tokenizer_only(folder: Path) -> Path:
    write_json(folder / "tokenizer.json", {"version": "1.0"})
    write_json(folder / "tokenizer_config.json", {})
    return folder


def hub_cache(folder: Path) -> Path:
    checkpoint(folder / "models--org--name" / "snapshots" / ("0a" * 20))
    return folder / "models--org--name"


def spacy(folder: Path) -> Path:
    write(folder / "config.cfg", "[nlp]\n")
    write_json(folder / "meta.json", {"lang": "de", "name": "pipeline"})
    write(folder / "ner" / "model")
    return folder


def yolo(folder: Path) -> Path:
    write(folder / "args.yaml", "task: detect\n")
    write(folder / "weights" / "best.pt")
    return folder


STRANGE: dict[str, Make] = {
    "the folder of a run": run,
    "an empty folder": only(),
    "a GGUF file": file("model-Q4_K_M.gguf", b"GGUF"),
    "a folder with a GGUF file": beside("model.gguf"),
    "ONNX": beside("model.onnx"),
    "ONNX in a folder of its own": beside("onnx/model.onnx"),
    "TensorFlow": beside("tf_model.h5"),
    "Flax": beside("flax_model.msgpack"),
    "PyTorch's pickle": beside("pytorch_model.bin"),
    "OpenVINO": beside("openvino_model.xml", "openvino_model.bin"),
    "MLX": beside("weights.00.npz"),
    "TensorRT": beside("rank0.engine"),
    "Keras": only("model.keras"),
    "a SavedModel": only("saved_model.pb", "variables/variables.index"),
    "scikit-learn": file("clf.joblib"),
    "spaCy": spacy,
    "GLiNER": only("gliner_config.json", "pytorch_model.bin"),
    "flair": only("final-model.pt", "training.log"),
    "YOLO": yolo,
    "YOLO's file": file("best.pt"),
    "PaddleOCR": only("inference.pdmodel", "inference.pdiparams"),
    "a diffusion model": only("model_index.json", "unet/config.json"),
    "a bare state": file("state.pth"),
    "Lightning": file("epoch=3-step=100.ckpt"),
    "DeepSpeed": deepspeed,
    "FSDP": beside("pytorch_model_fsdp_0/__0_0.distcp"),
    "an archive": file("model.tar.gz"),
    "MLflow": logged_by_mlflow,
    "sentence-transformers": sentence_embedder,
    "ColPali's adapter": retriever,
    "an adapter of 4 bits": adapter_of_4_bits,
    "an adapter in a pickle": old_adapter,
    "code of its own": own_code,
    "a tokenizer alone": tokenizer_only,
    "the file of the weights": weights_file,
    "a Git pointer": pointer,
    "weights that are cut off": cut_off,
    "shards without an index": shards_without_index,
    "the Hub's cache": hub_cache,
    "a data set": data_set,
    "documents": only("train.jsonl", "test.jsonl"),
}
"""What is given as a model, by what it is."""
