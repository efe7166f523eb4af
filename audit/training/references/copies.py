"""Which documents are copies of each other: a model that learnt one of them knows them all."""

from __future__ import annotations

from collections.abc import Hashable

from audit.corpus.documents import Corpus, Document
from audit.corpus.images import image_path, read_header


def content_of(corpus: Corpus, document: Document) -> Hashable:
    """A key that copies share: the document's words; without words its image file, byte for byte; else its id.

    Raises:
        ManifestError: the image of a document without words cannot be read.
    """
    if document.words:
        return tuple(word.text for word in document.words)
    if document.image is not None:
        return read_header(image_path(corpus, document)).sha256
    return ("id", document.id)
