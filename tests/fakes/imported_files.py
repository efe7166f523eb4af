"""Files of a test, imported in this process: the documents and the counts that come of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostile_sources import write_files

from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, TaskKind
from audit.errors import DocauditError
from audit.importers.assemble import ImportReport
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.importers.source import Options


@dataclass(frozen=True)
class Imported:
    """A data set that an import made.

    Attributes:
        documents: its documents, by id.
        report: the report of the import.
    """

    documents: Mapping[str, Document]
    report: ImportReport

    @property
    def notes(self) -> dict[str, int]:
        """The counts of the summary."""
        return dict(self.report.notes)

    def text(self, name: str) -> str:
        """The words of a document, joined by spaces."""
        return " ".join(word.text for word in self.documents[name].words)

    def fields(self, name: str) -> list[tuple[str, str]]:
        """The label and the text of each field of a document."""
        document = self.documents[name]
        return [(entity.label, document.text_of(entity)) for entity in document.entities]

    def questions(self, name: str) -> list[tuple[str, tuple[str, ...]]]:
        """The questions of a document, each with its answers."""
        document = self.documents[name]
        return [(question.question, question.answers) for question in document.questions]


def import_files(
    format: str,
    files: Mapping[str, str],
    folder: Path,
    *,
    task: TaskKind | None = None,
    columns: Mapping[str, str] | None = None,
) -> Imported:
    """Import files, written as of `write_files` into a new folder.

    Raises:
        DocauditError: they are refused.
    """
    src = folder / "src"
    dst = folder / "out"
    write_files(files, src)
    options = Options(columns=columns or {})
    request = ImportRequest(src, dst, {"member": 1.0}, 1, task=task, options=options)
    report = FORMATS[format].convert(request)
    documents = manifests.load(dst).documents
    return Imported({document.id: document for document in documents}, report)


def refusal_of(
    format: str,
    files: Mapping[str, str],
    folder: Path,
    *,
    task: TaskKind | None = None,
    columns: Mapping[str, str] | None = None,
) -> str:
    """Return the problems and the hint with which files are refused; fail where they are not."""
    try:
        import_files(format, files, folder, task=task, columns=columns)
    except DocauditError as error:
        return "\n".join([*error.problems, error.hint or ""])
    raise AssertionError("it was imported")
