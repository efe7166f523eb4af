"""How receipts are laid out: four templates made of blocks, and the document that a drawn page becomes."""

from __future__ import annotations

from collections.abc import Callable

from receipts_generator import Receipt
from receipts_page import Field, Page

from audit.corpus.documents import Document, Split

COMPANY = Field("COMPANY", "organization")
ADDRESS = Field("ADDRESS", "location")
DATE = Field("DATE", "datetime")
TOTAL = Field("TOTAL", "amount")
CUSTOMER = Field("CUSTOMER", "person")
CASHIER = Field("CASHIER", "person")
CODE = Field("CODE", "code")
PHONE = Field("PHONE", "contact")


def write(receipt: Receipt) -> Page:
    """The page of a receipt, in its provider's look."""
    look = receipt.provider.look
    page = Page(look.width, look.height, look.margin, look.size, look.leading)
    TEMPLATES[look.template](page, receipt)
    return page


def document(receipt: Receipt, document_id: str, split: Split) -> Document:
    """The receipt as a document of the corpus; `write(receipt).png()` belongs at its `image`."""
    page = write(receipt)
    return Document(
        id=document_id,
        split=split,
        words=tuple(page.words),
        image=f"images/{document_id}.png",
        size=(page.width, page.height),
        provider=receipt.provider.name,
        entities=tuple(page.entities),
    )


def _header(page: Page, receipt: Receipt) -> None:
    provider, look = receipt.provider, receipt.provider.look
    name = provider.name.upper() if look.capitals else provider.name
    page.text(name, align=look.header, kind=COMPANY, size=look.header_size)
    page.newline(1.4)
    page.text(provider.slogan, align=look.header)
    page.newline()
    page.text(provider.street, align=look.header, kind=ADDRESS)
    page.newline()
    page.text(provider.town, align=look.header, kind=ADDRESS)
    page.newline()


def _row(page: Page, receipt: Receipt, label: str, value: str, kind: Field) -> None:
    look = receipt.provider.look
    end = page.text(label + look.colon)
    page.text(value, x=max(page.margin + look.indent, end + 8), kind=kind)
    page.newline()


def _code(page: Page, receipt: Receipt) -> None:
    _row(page, receipt, receipt.provider.labels.code, receipt.code, CODE)


def _date(page: Page, receipt: Receipt) -> None:
    written = receipt.date.strftime(receipt.provider.date_format)
    _row(page, receipt, receipt.provider.labels.date, written, DATE)


def _staff(page: Page, receipt: Receipt) -> None:
    _row(page, receipt, receipt.provider.labels.cashier, receipt.cashier, CASHIER)


def _customer(page: Page, receipt: Receipt) -> None:
    _row(page, receipt, receipt.provider.labels.customer, receipt.customer, CUSTOMER)
    _row(page, receipt, receipt.provider.labels.phone, receipt.phone, PHONE)


def _items(page: Page, receipt: Receipt) -> None:
    for name, count, cents in receipt.items:
        if receipt.provider.look.quantity_first:
            page.text(f"{count} x {name}")
        else:
            page.text(f"{name} x{count}")
        page.text(f"{count * cents // 100}.{count * cents % 100:02d}", align="right")
        page.newline()


def _total(page: Page, receipt: Receipt) -> None:
    page.text(receipt.provider.labels.total + receipt.provider.look.colon)
    page.text(receipt.money(receipt.total), align="right", kind=TOTAL)
    page.newline()


def _farewell(page: Page, receipt: Receipt) -> None:
    page.text(receipt.provider.farewell, align="center")
    page.newline()


def _rule(page: Page, receipt: Receipt) -> None:
    page.rule(receipt.provider.look.rule)


Block = Callable[[Page, Receipt], None]


def _stack(*blocks: Block) -> Block:
    """A template: blocks from top to bottom."""

    def draw(page: Page, receipt: Receipt) -> None:
        for block in blocks:
            block(page, receipt)

    return draw


TEMPLATES: dict[str, Block] = {
    "till": _stack(
        _header, _rule, _code, _date, _staff, _customer, _rule, _items, _rule, _total, _farewell
    ),
    "invoice": _stack(
        _code, _date, _rule, _header, _rule, _customer, _rule, _items, _total, _rule, _staff
    ),
    "slip": _stack(
        _header, _rule, _items, _total, _rule, _date, _code, _staff, _customer, _farewell
    ),
    "counter": _stack(
        _header, _staff, _rule, _customer, _rule, _items, _rule, _total, _rule, _code, _date
    ),
}
