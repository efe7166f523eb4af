"""Figures, tables and trend that the text of an attack declares, validated by pydantic.

Texts of attacks (`audit.attacks.text`) are made of these; `audit.report` draws them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Form = Literal["share", "points", "ratio", "count", "number"]
"""share: printed in percent; points: in hundredths; ratio and number: as they are."""


class StrictModel(BaseModel):
    """A frozen model that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NamedMetric(StrictModel):
    """A measurement by its full name, with its label in a figure or table."""

    label: str
    metric: str


class MetricPanel(StrictModel):
    """A diagram with one line for each series."""

    title: str
    series: tuple[NamedMetric, ...]


class HistogramFigure(StrictModel):
    """A histogram of the record.

    `labels` are of its series and their parts, `height` is in inches.
    """

    draw: Literal["histogram"] = "histogram"
    histogram: str
    caption: str
    labels: dict[str, str] = Field(default_factory=dict)
    height: float | None = None


class CurvePanel(StrictModel):
    """A curve of the record; axis and quantity are the record's own where they are None.

    `beyond` names the metric whose limit is drawn as a line so far above the diagonal.
    """

    curve: str
    title: str = ""
    axis: str | None = None
    quantity: str | None = None
    form: Form = "number"
    x_scale: float = 1
    diagonal: bool = False
    beyond: str = ""


class CurveFigure(StrictModel):
    """Curves of the record, a panel each.

    `series` has their labels in order, `height` of a row is in inches.
    """

    draw: Literal["curves"] = "curves"
    panels: tuple[CurvePanel, ...]
    caption: str
    series: dict[str, str] = Field(default_factory=dict)
    height: float | None = None


Figure = HistogramFigure | CurveFigure
Figures = tuple[Annotated[Figure, Field(discriminator="draw")], ...]


class TableColumn(NamedMetric):
    """A column of a compact table: a measurement.

    Attributes:
        metric: the measurement's name without the row's suffix.
        after: the last part of the name, behind the row's suffix.
        counted: whether the whole number of units behind a share is printed too.
        null: whether what the measurement is compared with is printed in its place.
        n: whether the number of units stands here instead of beside the row's label.
    """

    after: str = ""
    counted: bool = False
    null: bool = False
    n: bool = False


class TableRow(StrictModel):
    """A row of a compact table, left out where nothing of it was measured.

    Attributes:
        suffix: ending of the names of all columns; empty asks for the metric itself.
        instead: other measurements by the metric of a column; all other columns are empty then.
    """

    label: str
    suffix: str = ""
    instead: dict[str, str] = Field(default_factory=dict)

    def name(self, base: str, after: str = "") -> str | None:
        """Return the full name of what a column asks for in this row; None for nothing."""
        if self.instead or not base:
            return self.instead.get(base)
        return ".".join(name for name in (base, self.suffix, after) if name)


class TableSpec(StrictModel):
    """A few kinds of numbers side by side.

    In a file, `each = "GROUP"` in a row stands for a row for each entry of a group of labels.
    """

    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]


class ReportPart(StrictModel):
    """A part of an attack's section.

    Attributes:
        text: the macro of its sentences.
        template: holds that macro; empty: the attack's own.
    """

    title: str
    text: str
    figures: Figures = ()
    tables: tuple[TableSpec, ...] = ()
    template: str = ""


class TrendSpec(StrictModel):
    """Several checkpoints side by side.

    Attributes:
        summary: metrics that sum the attack up, by heading: the columns of a sweep's table on the
            terminal.
        columns: columns of the trend's table; empty: `summary`.
    """

    panels: tuple[MetricPanel, ...] = ()
    columns: tuple[NamedMetric, ...] = ()
    summary: dict[str, str] = Field(default_factory=dict)

    @property
    def shown(self) -> tuple[NamedMetric, ...]:
        """Return the columns of the trend's table."""
        return self.columns or tuple(
            NamedMetric(label=label, metric=name) for label, name in self.summary.items()
        )
