"""Figure 7 of the CDMI paper: what the attack reconstructs from one training, epoch after epoch.

The paper attacks a bimodal LayoutLM on FUNSD. Here LayoutLM starts from a small BERT, sees no
image, and is trained on SROIE or FUNSD. No held-out document chooses an epoch: each checkpoint is
the same training, stopped later.
"""

from __future__ import annotations

import json
from functools import partial

from audit.corpus import manifest
from audit.references.recipes import Recipe
from audit.targets.batching import longest_row
from benchmarks.gpu.cdmi import BATCH, LEARNING_RATE, POSITIONS, SHARES, sources
from benchmarks.gpu.work import Json, Result, Work
from benchmarks.papers import cdmi_epochs, cdmi_report, cdmi_tables
from benchmarks.papers.cdmi_numbers import Number
from benchmarks.papers.cdmi_tables import Setting

EPOCHS = {False: (15, 50, 150, 300), True: (1, 2, 3, 4)}
"""The checkpoints attacked, by whether the run is tiny. The paper saves one epoch in five, from 1
to 300."""
SHARE = 0.4
"""Of the fields: the paper's for figure 7."""
CANDIDATES = {False: 128, True: 4}
NOTE = (
    "A LayoutLM of all layers of the backbone, without images, trained as a masked language model on the paper's "
    "private split. Candidates come from the public model of `cdmi-{corpus}-public`. N_c is 128; a score chooses among "
    "8 attempts a field; 40 % of the fields are attacked. Intervals are 95 %, over documents; one training."
)


def train_checkpoints(work: Work, *, argument: str) -> Result:
    """Train once and keep the weights after each of `EPOCHS`."""
    setting = setting_of(argument, tiny=work.tiny)
    log = work.step("train", partial(_train, setting, work), 120.0)
    return Result(
        log, [f"{log['pages']} pages, {setting.recipe.epochs} epochs in {log['minutes']:.1f} min."]
    )


def attack_checkpoint(work: Work, *, argument: tuple[str, int]) -> Result:
    """Attack the weights after the epoch that has this place in `EPOCHS`."""
    corpus, place = argument
    setting = setting_of(corpus, tiny=work.tiny)
    epoch = EPOCHS[work.tiny][place]
    kept = work.folder_of("cdmi")
    results = work.folder / "records"
    results.mkdir(exist_ok=True)
    criterion = f"epoch-{epoch}"
    record = results / f"{setting.name}-{criterion}.json"

    def audit() -> Json:
        data = cdmi_tables.make_data(setting, sources(work)[corpus], kept, SHARES[corpus])
        cdmi_tables.audit_model(
            setting, criterion, data, kept, work.device, "auto", results=results
        )
        return {name: vars(number) for name, number in cdmi_report.numbers_in(record).items()}

    numbers = work.step("audit", audit)
    return Result({"epoch": epoch, "numbers": numbers}, trend_lines(corpus, [(epoch, numbers)]))


def compare_epochs(work: Work, *, argument: str) -> Result:
    """Put the checkpoints of a training into one table."""
    rows = []
    for place, epoch in enumerate(EPOCHS[work.tiny]):
        step = work.folder_of(f"epochs-{argument}-{place + 1}") / "audit.step.json"
        rows.append((epoch, json.loads(step.read_text())))
    return Result({str(epoch): numbers for epoch, numbers in rows}, trend_lines(argument, rows))


def trend_lines(corpus: str, rows: list[tuple[int, Json]]) -> list[str]:
    """Print the note and a row for each epoch."""
    numbers = [
        (epoch, {name: Number(**number) for name, number in stored.items()})
        for epoch, stored in rows
    ]
    return [NOTE.format(corpus=corpus), "", *cdmi_epochs.table(numbers)]


def setting_of(corpus: str, *, tiny: bool) -> Setting:
    """Describe the private model whose epochs are compared."""
    recipe = Recipe(
        epochs=max(EPOCHS[tiny]), learning_rate=LEARNING_RATE, batch_size=BATCH, bf16=True
    )
    return cdmi_epochs.Epochs(corpus, "mlm", False, recipe, SHARE, CANDIDATES[tiny])


def _train(setting: Setting, work: Work) -> Json:
    kept = work.folder_of("cdmi")
    given = sources(work)
    data = cdmi_tables.make_data(setting, given[setting.corpus], kept, SHARES[setting.corpus])
    cdmi_tables.make_pretrained(
        given["backbone"], kept / "pretrained", None, longest_row(POSITIONS)
    )
    start = cdmi_tables.make_start(setting, manifest.load(data), kept)
    cdmi_epochs.train(setting, start, data, kept, EPOCHS[work.tiny], work.device)
    return json.loads((kept / f"{setting.name}.json").read_text())
