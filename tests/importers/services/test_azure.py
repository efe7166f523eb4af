"""Azure's results as its services answer, and as its SDKs save them."""

from pathlib import Path
from typing import Any

import pytest
from service_results import boxes_of, corners, fields_of, import_result, points, texts_of

TOTAL = corners(0.5, 0.5, 1, 0.8)
AMOUNT = corners(2, 0.5, 2.6, 0.8)
FLAT = [0.5, 0.5, 1, 0.5, 1, 0.8, 0.5, 0.8]
INCHES = {"width": 6.0, "height": 4.0, "unit": "inch"}
SNAKE_PAGE = {"page_number": 1, **INCHES, "words": [{"content": "Total", "polygon": points(TOTAL)}]}
CAMEL_PAGE = {"pageNumber": 1, **INCHES, "words": [{"content": "Total", "polygon": FLAT}]}
FORM_PAGE = {
    "page_number": 1,
    **INCHES,
    "lines": [
        {
            "text": "Total",
            "bounding_box": points(TOTAL),
            "words": [{"text": "Total", "bounding_box": points(TOTAL)}],
        }
    ],
}
READ_PAGE = {
    "page": 1,
    **INCHES,
    "lines": [
        {"text": "Total", "bounding_box": FLAT, "words": [{"text": "Total", "bounding_box": FLAT}]}
    ],
}
IMAGE = {
    "metadata": {"width": 6, "height": 4},
    "readResult": {
        "blocks": [
            {
                "lines": [
                    {
                        "text": "Total",
                        "boundingPolygon": points(TOTAL),
                        "words": [
                            {"text": "Total", "boundingPolygon": points(TOTAL), "confidence": 0.9}
                        ],
                    }
                ]
            }
        ]
    },
}
FORMS = {
    "to_dict of azure-ai-formrecognizer 3.3": {"api_version": "2023-07-31", "pages": [SNAKE_PAGE]},
    "as_dict of azure-ai-documentintelligence": {"modelId": "prebuilt-read", "pages": [CAMEL_PAGE]},
    "pages alone": {"pages": [CAMEL_PAGE]},
    "a list of pages": [SNAKE_PAGE],
    "to_dict of FormPage": [FORM_PAGE],
    "to_dict of RecognizedForm": [{"form_type": "receipt", "pages": [FORM_PAGE]}],
    "the answer": {"status": "succeeded", "analyzeResult": {"pages": [CAMEL_PAGE]}},
    "the answer of a preview": {
        "analyzeResult": {
            "pages": [{**INCHES, "words": [{"content": "Total", "boundingBox": FLAT}]}]
        }
    },
    "as_dict of Read": {"status": "succeeded", "analyze_result": {"read_results": [READ_PAGE]}},
    "Image Analysis": IMAGE,
    "lines without words": {
        "analyzeResult": {
            "readResults": [{**INCHES, "lines": [{"text": "Total", "boundingBox": FLAT}]}]
        }
    },
}


@pytest.mark.parametrize("value", FORMS.values(), ids=FORMS.keys())
def test_each_form_of_a_result_is_read(value: Any, tmp_path: Path) -> None:
    document = import_result("azure", value, tmp_path)
    assert texts_of(document) == ["Total"]
    assert boxes_of(document) == [(50, 50, 100, 80)]


def region(polygon: Any) -> list[dict[str, Any]]:
    """Return the regions of an element on the first page."""
    return [{"pageNumber": 1, "polygon": polygon}]


WORDS = [
    {"content": "Total", "polygon": points(TOTAL)},
    {"content": "4.20", "polygon": points(AMOUNT)},
]
PAGE = {"pageNumber": 1, **INCHES, "words": WORDS}


def test_keys_and_values_are_fields(tmp_path: Path) -> None:
    pair = {
        "key": {"content": "Total", "boundingRegions": region(points(TOTAL))},
        "value": {"content": "4.20", "boundingRegions": region(points(AMOUNT))},
    }
    value = {
        "modelId": "prebuilt-document",
        "pages": [PAGE],
        "keyValuePairs": [pair, {"key": None}],
    }
    document = import_result("azure", value, tmp_path, "token-classification")
    assert fields_of(document) == [("key", "Total"), ("value", "4.20")]


AMOUNT_FIELD = {"type": "currency", "content": "4.20", "boundingRegions": region(points(AMOUNT))}
SDK_FIELD = {
    "value_type": "float",
    "content": "4.20",
    "bounding_regions": [{"page_number": 1, "polygon": points(AMOUNT)}],
}
DOCUMENTS = {
    "a field": {"InvoiceTotal": AMOUNT_FIELD, "CustomerName": None},
    "a field in a list of objects": {
        "Items": {
            "type": "array",
            "valueArray": [{"type": "object", "valueObject": {"InvoiceTotal": AMOUNT_FIELD}}],
        }
    },
    "a field of the SDK": {"InvoiceTotal": SDK_FIELD},
    "a field in lists of the SDK": {
        "Items": {
            "value_type": "list",
            "value": [{"value_type": "dictionary", "value": {"InvoiceTotal": SDK_FIELD}}],
        }
    },
    "a field without a place": {"InvoiceTotal": {"type": "string", "content": "4.20"}},
}


@pytest.mark.parametrize("fields", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_fields_of_documents_are_fields(fields: Any, tmp_path: Path) -> None:
    value = {"modelId": "prebuilt-invoice", "pages": [PAGE], "documents": [{"fields": fields}]}
    document = import_result("azure", value, tmp_path, "token-classification")
    assert fields_of(document) == [("InvoiceTotal", "4.20")]
