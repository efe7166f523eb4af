"""Pages of the images of a source, with the words of their word files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.importers.contents import ImportRequest
from audit.importers.gathering.drafts import DraftPage, names_of
from audit.importers.gathering.files import ImageFinder, provider_of
from audit.importers.gathering.parts import part_of
from audit.importers.words.finding import SUFFIXES, WordFiles


class ImagePages:
    """The images of a source; each is one page, made when it is first asked for.

    Args:
        src: the folder.
        request: as for `Source.read`.
        suffixes: of word files.
    """

    def __init__(self, src: Path, request: ImportRequest, suffixes: tuple[str, ...] = SUFFIXES) -> None:
        self.finder, self.files = ImageFinder(src), WordFiles(src, suffixes)
        self._names, self._request = names_of(self.finder.paths), request
        self.pages: dict[str, DraftPage] = {}
        """By path within the source, those asked for."""

    def page(self, path: str, record: Mapping[str, Any] | None = None) -> DraftPage:
        """The page of an image.

        Args:
            path: as `ImageFinder.find` gives it.
            record: what the source says of it, which may name the provider.

        Raises:
            ManifestError: its word file cannot be read, or several may be it.
        """
        if path not in self.pages:
            page = DraftPage(self._names[path], self.finder.at(path), part=part_of(path))
            page.provider = provider_of(self._request.options.provider, record or {}, path)
            self.pages[path] = page
            self.files.fill(page, path)
        return self.pages[path]
