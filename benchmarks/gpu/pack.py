"""Makes SROIE, FUNSD and a backbone small enough to be sent to a machine that takes little.

    python -m benchmarks.gpu.pack --sroie SROIE --funsd FUNSD --backbone MINILM packed

Images keep their size, since boxes are in their pixels, and lose colour and detail: say so beside
bimodal numbers. Weights are stored in float16.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from PIL import Image

QUALITY = 25
"""Of a JPEG."""
IMAGES = {".jpg", ".jpeg", ".png"}


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("sroie", "funsd", "backbone"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    for name in ("sroie", "funsd"):
        if (source := getattr(options, name)) is not None:
            pack_pages(source, options.out / name)
    if options.backbone is not None:
        pack_weights(options.backbone, options.out / "backbone")
    total = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
    print(f"{options.out}: {total / 2**20:.1f} MB")


def pack_pages(source: Path, folder: Path) -> None:
    """Copy a folder; images become grey JPEGs of the same size and name."""
    for path in sorted(source.rglob("*")):
        copy = folder / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in IMAGES:
            with Image.open(path) as page:
                page.convert("L").save(copy.with_suffix(".jpg"), quality=QUALITY, optimize=True)
        else:
            shutil.copyfile(path, copy)


def pack_weights(source: Path, folder: Path) -> None:
    """A BERT-like checkpoint in half precision, with its tokenizer."""
    from transformers import AutoTokenizer, BertModel

    BertModel.from_pretrained(source, local_files_only=True).half().save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, local_files_only=True).save_pretrained(folder)


if __name__ == "__main__":
    main()
