"""Label Studio's JSON export.

Its tasks have regions in percent of the image, transcriptions, choices, and spans of texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from audit.corpus.documents import Word
from audit.errors import ManifestError
from audit.importers.assemble import LINKS_LEFT_OUT
from audit.importers.columns import Columns
from audit.importers.files import IMAGES, as_text, form_of
from audit.importers.formats.label_studio_results import (
    TURNED_TASK,
    Annotation,
    Fact,
    Region,
    last_number,
    read_results,
)
from audit.importers.interface import Importer
from audit.importers.pages import Field, Page, Span, clean, line_words
from audit.importers.source import Source, person_of
from audit.importers.words import BESIDE_JSON

GROUND_TRUTH = "tasks with several annotations, of which the ground truth was taken"
LAST = "tasks with several annotations and no ground truth, of which the last was taken"
UNANNOTATED = "tasks without an annotation"
MORE_IMAGES = "further images of tasks that are no pages of theirs, left out"
MORE_CHOICES = "choices beside the class of a page, left out"
OTHER_OBJECTS = "regions and choices of other objects than the page, left out"


class LabelStudio(Importer):
    """One document an image of a task, or a task with a text.

    Words of a word file beside the image, else those transcribed in its regions.
    """

    name = "label-studio"
    description = "Label Studio's .json export and the images"
    word_files = BESIDE_JSON
    marks = (("*.json", '"from_name":|"was_cancelled":'),)

    def pages(self, source: Source) -> Iterator[Page]:
        """Yield the pages of an export of Label Studio."""
        texts: list[Page] = []
        for path in source.files(
            ".json", hint="export the project as JSON, and put the file beside the images"
        ):
            with source.problems.catch():
                for place, task in source.records(path):
                    with source.problems.catch(f"{place}:"):
                        _add_task(source, place, task, texts)
        yield from source.pages
        yield from texts


class _Image(NamedTuple):
    """An image of a task.

    Attributes:
        key: the key of the task's data that has it.
        item: its number in the list under this key.
        path: what names it.
    """

    key: str
    item: int
    path: str


def _add_task(source: Source, place: str, task: Any, texts: list[Page]) -> None:
    """Make pages of a task, or add the task to the pages of its images.

    Raises:
        ManifestError: it has another form, or its image is not there.
    """
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        raise ManifestError('not a task: it has no "data"; export as JSON, not as JSON_MIN')
    with form_of("an annotation"):
        annotation = read_results(_results_of(source, task))
    source.notes.update(annotation.notes)
    images = _choose_images(source, task["data"], annotation)
    if images:
        pages = [source.page(source.find_image(image.path), task) for image in images]
        if len(pages) > 1:
            for page in pages:
                page.source = f"task-{task.get('id', place)}"
        _fill_images(source, images, pages, annotation)
    else:
        name = f"task-{task.get('id', len(texts) + 1)}"
        pages = [Page(name, provider=source.provider(task), person=person_of(task), place=place)]
        key = _choose_text(source, task["data"], annotation)
        _mark_spans(source, pages[0], task["data"][key], annotation)
        texts += pages
    for fact in annotation.facts:
        for number in _pages_of_fact(source, fact, images):
            _add_fact(source, pages[number], fact, task["data"])


def _results_of(source: Source, task: Mapping[str, Any]) -> Sequence[Any]:
    """Return the results of the annotation of a task that counts; cancelled ones never do.

    It is the ground truth, else the last one; the report counts tasks that have several.
    """
    valid: list[dict[str, Any]] = []
    truths: list[dict[str, Any]] = []
    for annotation in task.get("annotations", task.get("completions", [])):
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        valid.append(annotation)
        if annotation.get("ground_truth"):
            truths.append(annotation)
    if not valid:
        source.notes[UNANNOTATED] += 1
        return []
    if len(valid) > 1:
        source.notes[GROUND_TRUTH if truths else LAST] += 1
    results: Sequence[Any] = (truths or valid)[-1].get("result", [])
    return results


# Images


def _choose_images(source: Source, data: Mapping[str, Any], annotation: Annotation) -> list[_Image]:
    """Return the images of a task that are its pages, in their order.

    They are under the key that the owner names, else under one that results are of, else under the
    first; with it under keys that differ from it in a number only.
    """
    images: list[_Image] = []
    for key, value in data.items():
        images += _images_in(key, value)
    if not images:
        return []
    stem = _stem(_choose_key(source, images, annotation))
    chosen: list[_Image] = []
    for image in images:
        if _stem(image.key) == stem:
            chosen.append(image)
        else:
            source.notes[MORE_IMAGES] += 1
    return chosen


def _choose_key(source: Source, images: Sequence[_Image], annotation: Annotation) -> str:
    """Return the key whose images are the pages of a task."""
    by_owner = source.options.columns.get("image")
    targets = annotation.targets
    if by_owner is not None:
        targets = {by_owner}
    for image in images:
        if image.key in targets:
            return image.key
    return images[0].key


def _stem(key: str) -> str:
    """Return a key without the number that it ends with."""
    return key.rstrip("0123456789")


def _images_in(key: str, value: Any) -> list[_Image]:
    """List the images that a value names: a text, a list of texts, or of objects with a text."""
    entries = value
    if not isinstance(value, list):
        entries = [value]
    images: list[_Image] = []
    for number, entry in enumerate(entries):
        candidates = [entry]
        if isinstance(entry, dict):
            candidates = [*entry.values()]
        paths = [*filter(_names_image, candidates)]
        if paths:
            images.append(_Image(key, number, paths[0]))
    return images


def _names_image(value: Any) -> bool:
    """Test whether a value is the path or the address of an image."""
    if not isinstance(value, str):
        return False
    return value.lower().split("?d=")[-1].split("?")[0].endswith(IMAGES)


def _page_number(target: str, item: int | None, images: Sequence[_Image]) -> int | None:
    """Return the number of the page that a result is of; None where it is of no page.

    Args:
        target: name of the object in the labelling interface.
        item: number of the page in the object, where it is a list.
        images: pages of the task.
    """
    numbers = [number for number, image in enumerate(images) if image.key == target]
    if not numbers:
        numbers = [*range(len(images))]
    if item is not None:
        items = [images[number].item for number in numbers]
        return _number_at(numbers, items, item)
    ending = last_number(target)
    if len(numbers) == 1 or ending is None:
        return numbers[0]
    return _number_at(numbers, [_ending_of(images[number]) for number in numbers], ending)


def _number_at(numbers: Sequence[int], keys: Sequence[int], key: int) -> int | None:
    """Return the number that stands where a key does among keys; None where it does not."""
    if key not in keys:
        return None
    return numbers[keys.index(key)]


def _ending_of(image: _Image) -> int:
    """Return the number in the key of an image, else that of the image in its list."""
    number = last_number(image.key)
    if number is None:
        return image.item
    return number


def _fill_images(
    source: Source, images: Sequence[_Image], pages: Sequence[Page], annotation: Annotation
) -> None:
    """Give the pages of a task their regions, and the links between these."""
    regions: list[dict[str, Region]] = [{} for _ in images]
    for name, region in annotation.regions.items():
        number = _page_number(region.target, region.item, images)
        if number is None:
            source.notes[OTHER_OBJECTS] += 1
            continue
        regions[number][name] = region
        if region.page_turn:
            pages[number].unusable = TURNED_TASK
    n_links = 0
    for page, of_page in zip(pages, regions, strict=True):
        names = _add_regions(page, of_page)
        n_links += _add_links(page, names, annotation)
    source.notes[LINKS_LEFT_OUT] += len(annotation.relations) - n_links


def _add_regions(page: Page, regions: Mapping[str, Region]) -> dict[str, int]:
    """Give a page its regions as fields, and as words too where it has no word file.

    Returns:
        The number of the field of each region that has one, by the region's id.
    """
    page.unit = "shares"
    words = [*page.words]
    has_word_file = bool(page.words)
    fields: dict[str, int] = {}
    for name, region in regions.items():
        if region.box is None:
            continue
        first = len(words)
        if not has_word_file:
            words += _words_of(region)
        label = region.label
        if label is not None:
            inside = tuple(range(first, len(words)))
            fields[name] = len(page.fields)
            page.fields.append(Field(label, inside, region.box, region.text or None))
    page.words = words
    return fields


def _words_of(region: Region) -> Iterator[Word]:
    """Yield the words of a region; of one on its side, each has the box of all."""
    if region.is_upright:
        yield from line_words(region.text, region.box)
    else:
        yield from (Word(text, region.box) for text in region.text.split())


def _add_links(page: Page, fields: Mapping[str, int], annotation: Annotation) -> int:
    """Add the relations between the regions of a page as links; return how many they are."""
    links = [
        (_id_of(fields[relation.parent]), _id_of(fields[relation.child]))
        for relation in annotation.relations
        if {relation.parent, relation.child} <= fields.keys()
    ]
    page.links += tuple(dict.fromkeys(links))
    return len(links)


def _id_of(number: int) -> str:
    """Return the id that the entity of a field gets by its number."""
    return f"e{number + 1}"


# Texts


def _choose_text(source: Source, data: Mapping[str, Any], annotation: Annotation) -> str:
    """Return the key of a task's text: as the owner says, else where the marked words stand.

    Without any marked words it is one that results are of, else "text", else the only text.

    Raises:
        ManifestError: the task has no text, or does not say which it is.
    """
    texts = {key: value for key, value in data.items() if isinstance(value, str)}
    by_owner = source.options.columns.get("text")
    if by_owner in texts:
        return by_owner
    spans = annotation.spans
    fitting = [key for key, text in texts.items() if _holds_all(text, spans)]
    key = _prefer(fitting, annotation)
    if key is not None:
        return key
    if texts and spans:
        raise ManifestError("no text of its data has the marked words in their places")
    raise ManifestError(
        "its data name neither an image nor a text; name the key of the text: --columns text=KEY"
    )


def _prefer(keys: Sequence[str], annotation: Annotation) -> str | None:
    """Return the key, of several texts that fit, that results are of, else the usual one.

    Else the first that has the marked words, or the only one of texts without any.
    """
    for key in (*sorted(annotation.targets), "text"):
        if key in keys:
            return key
    if len(keys) == 1 or (keys and annotation.spans):
        return keys[0]
    return None


def _holds_all(text: str, spans: Sequence[Region]) -> bool:
    """Test whether a text has the marked words of all regions in their places."""
    return all(_place_in(text, region) for region in spans)


def _place_in(text: str, region: Region) -> Span | None:
    """Return the characters of a text that a region marks; None where they are other ones.

    Browsers count some characters twice, so both ways of counting are tried.
    """
    if region.span is None:
        return None
    spans = [region.span]
    if not text.isascii():
        spans += _without_surrogates(text, region.span)
    for start, end in spans:
        if not region.marked or _same(text[start:end], region.marked):
            return (start, end)
    return None


def _without_surrogates(text: str, span: Span) -> list[Span]:
    """Return a span of 16-bit units as one of characters; none where it divides one."""
    units = text.encode("utf-16-le", errors="surrogatepass")
    try:
        before = units[: 2 * span[0]].decode("utf-16-le")
        inside = units[2 * span[0] : 2 * span[1]].decode("utf-16-le")
    except UnicodeDecodeError:
        return []
    return [(len(before), len(before) + len(inside))]


def _same(first: str, second: str) -> bool:
    """Test whether two texts differ in white space at most."""
    return first.split() == second.replace("\\n", "\n").split()


def _mark_spans(source: Source, page: Page, text: str, annotation: Annotation) -> None:
    """Set a page's text to `text`, and add its marked spans as fields, and their links."""
    marked: list[tuple[str, Span, str]] = []
    for name, region in annotation.regions.items():
        place = _place_in(text, region) or region.span
        if place and region.label:
            marked.append((name, place, region.label))
    words = page.mark(text, [span for _, span, _ in marked])
    fields: dict[str, int] = {}
    for (name, (start, end), label), inside in zip(marked, words, strict=True):
        if inside:
            fields[name] = len(page.fields)
            page.fields.append(Field(label, inside, value=text[start:end]))
    n_links = _add_links(page, fields, annotation)
    source.notes[LINKS_LEFT_OUT] += len(annotation.relations) - n_links


# Facts of whole pages


def _pages_of_fact(source: Source, fact: Fact, images: Sequence[_Image]) -> Sequence[int]:
    """Return the numbers of the pages that a fact is about: all, unless it names one."""
    if not images:
        return [0]
    names_page = fact.item is not None or last_number(fact.target) is not None
    if len(images) == 1 or not names_page:
        return range(len(images))
    number = _page_number(fact.target, fact.item, images)
    if number is None:
        source.notes[OTHER_OBJECTS] += 1
        return []
    return [number]


def _add_fact(source: Source, page: Page, fact: Fact, data: Mapping[str, Any]) -> None:
    """Add a choice to a page as its class, or a text as an answer or a field."""
    values = [*filter(None, map(clean, fact.values))]
    if fact.kind == "choice":
        name_of_class = source.options.columns.get("label", fact.name)
        if page.label is None and fact.name == name_of_class:
            page.label = next(iter(values), None)
            values = values[1:]
        source.notes[MORE_CHOICES] += len(values)
        return
    columns = Columns(data, named=source.options.columns)
    question = columns.value(data, "question")
    if question is not None:
        page.ask(as_text(question), values)
    else:
        page.fields += (Field(fact.name or "text", value=value) for value in values)
