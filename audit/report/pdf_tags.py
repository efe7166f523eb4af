"""What WeasyPrint leaves undone of a tagged PDF: alternative texts, artifacts, definitions, and the two claims in XMP.

WeasyPrint takes a figure's alternative text only from a `<title>` in its SVG, has no artifact but backgrounds and
borders, and can claim PDF/A or PDF/UA, never both. `prepare` works on the HTML, `finish` mends the PDF's objects
before they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

SVG = "{http://www.w3.org/2000/svg}"
DECORATION = "docaudit:decoration"
"""Stands for the alternative text of a drawing that says nothing which a word beside it does not say."""
UA_CLAIM = b"""\
<rdf:Description rdf:about="" xmlns:pdfuaid="http://www.aiim.org/pdfua/ns/id/"><pdfuaid:part>1</pdfuaid:part>\
</rdf:Description>
<rdf:Description rdf:about="" xmlns:pdfaExtension="http://www.aiim.org/pdfa/ns/extension/" \
xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#" xmlns:pdfaProperty="http://www.aiim.org/pdfa/ns/property#">
<pdfaExtension:schemas><rdf:Bag><rdf:li rdf:parseType="Resource">
<pdfaSchema:schema>PDF/UA Universal Accessibility Schema</pdfaSchema:schema>
<pdfaSchema:namespaceURI>http://www.aiim.org/pdfua/ns/id/</pdfaSchema:namespaceURI>
<pdfaSchema:prefix>pdfuaid</pdfaSchema:prefix>
<pdfaSchema:property><rdf:Seq><rdf:li rdf:parseType="Resource">
<pdfaProperty:name>part</pdfaProperty:name><pdfaProperty:valueType>Integer</pdfaProperty:valueType>
<pdfaProperty:category>internal</pdfaProperty:category>
<pdfaProperty:description>Indicates which part of ISO 14289 is followed</pdfaProperty:description>
</rdf:li></rdf:Seq></pdfaSchema:property></rdf:li></rdf:Bag></pdfaExtension:schemas>
</rdf:Description>
"""
"""PDF/UA-1, and the description of its schema that PDF/A asks for."""


def prepare(root: Element) -> None:
    """Give each drawing of an HTML tree its alternative text, and take away links to what this page does not hold.

    The alternative text is the `aria-label`; a drawing with `aria-hidden` is decoration. One with neither stays
    without, which no validator lets through.
    """
    places = {f"#{element.get('id')}" for element in root.iter()}
    for link in root.iter("a"):
        if link.get("href", "#").startswith("#") and link.get("href") not in places:
            link.tag = "span"
    for svg in root.iter(f"{SVG}svg"):
        text = DECORATION if svg.get("aria-hidden") == "true" else svg.get("aria-label")
        if text and svg.find(f"{SVG}title") is None:
            title = Element(f"{SVG}title")
            title.text = " ".join(text.split())
            svg.insert(0, title)


def finish(_document: Any, pdf: Any, unused: int = 0) -> None:
    """Mend a `pydyf.PDF` that WeasyPrint drew as PDF/A-3a, so that it is PDF/UA-1 as well.

    Args:
        pdf: everything that will be written but the cross references.
        unused: empty objects to add: they change the bytes, and nothing else.
    """
    import pydyf

    _claim(pdf)
    tree = Tree(pdf)
    tree.make_artifacts()
    tree.pair_definitions()
    tree.index_headers()
    pdf.catalog["PageLabels"] = pydyf.Dictionary({"Nums": pydyf.Array([0, pydyf.Dictionary({"S": "/D"})])})
    if "AF" in pdf.catalog:
        # WeasyPrint lists each attachment twice.
        pdf.catalog["AF"] = pydyf.Array(dict.fromkeys(pdf.catalog["AF"]))
    for _ in range(unused):
        pdf.add_object(pydyf.Dictionary())
    for stream in pdf.objects:
        if isinstance(stream, pydyf.Stream) and ends_unclearly(stream.data):
            if stream.extra:
                stream.compress = False
            else:
                stream.stream.append(b"")  # drawing: one more line feed, which draws nothing


def ends_unclearly(content: bytes) -> bool:
    """Whether a stream ends in a carriage return: with the line feed after it, nobody can tell its length."""
    return b"\r\nendstream" in content


def _claim(pdf: Any) -> None:
    """Write both claims, uncompressed: who looks for them need not decode anything."""
    metadata = _object(pdf, pdf.catalog["Metadata"])
    (packet,) = metadata.stream
    metadata.stream = [packet.replace(b"</rdf:RDF>", UA_CLAIM + b"</rdf:RDF>")]
    metadata.compress = False


class Tree:
    """The structure tree of a PDF, with the marked content that its elements stand for."""

    def __init__(self, pdf: Any) -> None:
        self._pdf = pdf
        self._root = _object(pdf, pdf.catalog["StructTreeRoot"])
        numbers = _object(pdf, self._root["ParentTree"])["Nums"]
        self._elements_of_pages = numbers[1 : 2 * pdf.pages["Count"] : 2]

    def make_artifacts(self) -> None:
        """Turn decoration, and what stands in the margins of every page, into artifacts."""
        for element in self._elements():
            if str(getattr(element.get("Alt"), "string", "")) == DECORATION:
                _object(self._pdf, element["P"])["K"].remove(element.reference)
        read = {element.reference for element in self._elements()}
        for page, elements in zip(self._pages(), self._elements_of_pages, strict=True):
            orphans = {number for number, element in enumerate(elements) if element not in read}
            _hide(_object(self._pdf, page["Contents"]).stream, orphans)
            for number in orphans:
                elements[number] = "null"

    def pair_definitions(self) -> None:
        """Make each `div` of a `dl` one item: its term the label, its definition the body."""
        for element in list(self._elements()):
            if element["S"] != "/Div" or _object(self._pdf, element["P"])["S"] != "/L":
                continue
            element["S"] = "/LI"
            children = self._children(element)
            for child in children:
                # Where a page ends within, its rest on the next one has no term.
                child["S"] = "/Lbl" if child is children[0] and len(children) > 1 else "/LBody"
                for body in self._children(child):
                    body["S"] = "/NonStruct"

    def index_headers(self) -> None:
        """List the headers of tables by their names, which their cells give."""
        import pydyf

        named = sorted((element["ID"].data, element.reference) for element in self._elements() if "ID" in element)
        if named:
            self._root["IDTree"] = pydyf.Dictionary({"Names": pydyf.Array(part for pair in named for part in pair)})

    def _pages(self) -> Iterator[Any]:
        return (self._pdf.objects[number] for number in self._pdf.pages["Kids"][::3])

    def _elements(self) -> Iterator[Any]:
        """Every element under the root."""
        below = self._children(self._root)
        while below:
            element = below.pop()
            yield element
            below += self._children(element)

    def _children(self, element: Any) -> list[Any]:
        """The elements right below one; numbers of marked content and links are no elements."""
        kids = [_object(self._pdf, kid) for kid in element["K"] if isinstance(kid, bytes)]
        return [kid for kid in kids if kid["Type"] == "/StructElem"]


def _hide(stream: list[Any], orphans: set[int]) -> None:
    """Turn the marked content of these numbers into artifacts, in a stream of `/Tag`, properties, BDC."""
    for position, item in enumerate(stream):
        if isinstance(item, dict) and item.get("MCID") in orphans:
            stream[position - 1] = "/Artifact"
            item.clear()
            item["Type"] = "/Layout"


def _object(pdf: Any, reference: bytes) -> Any:
    return pdf.objects[int(reference.split()[0])]
