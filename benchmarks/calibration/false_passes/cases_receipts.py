"""Constructions of receipts and masked language models: findings 4 to 7, and the clean model of the sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from audit.corpus.documents import Document, Split
from benchmarks.calibration.false_passes import policies, receipts
from benchmarks.calibration.false_passes.lab import CONSTRUCTIONS, Lab, construction
from benchmarks.calibration.false_passes.receipts import Boxes, Receipts
from benchmarks.calibration.false_passes.scans import Audit, Numbers, Policy

N_ATTACKED = 80
"""Receipts of each side that a direct attack is made on."""
DEFAULT = Policy("default")
CLEAN = receipts.SAMPLE / "clean"
Sides = dict[Split, Sequence[Document]]


def _of_sample(made: Receipts) -> Sides:
    """Return the sample's receipts of each split."""
    return {"member": made.of("member"), "heldout": made.of("heldout"), "public": made.of("public")}


def _truth(lab: Lab, model: Path, sides: Sides, change: Boxes | None = None) -> Numbers:
    """Attack a model directly: its members and held-out receipts against receipts that are in no data set."""
    attacked = {
        "members": list(sides["member"][:N_ATTACKED]),
        "held-out": list(sides["heldout"][:N_ATTACKED]),
        "strangers": lab.receipts.strangers[:N_ATTACKED],
    }
    if change is not None:
        for side, documents in attacked.items():
            attacked[side] = list(map(change, documents))
    strangers = attacked["strangers"]
    return {
        "members against strangers": lab.receipts_told_apart(model, attacked["members"], strangers),
        "held-out against strangers": lab.receipts_told_apart(
            model, attacked["held-out"], strangers
        ),
        "names of members": lab.names_restored(model, attacked["members"]),
        "names of strangers": lab.names_restored(model, strangers),
    }


def _scan(model: Path, data: Path, truth: Numbers) -> Audit:
    """Scan by the default policy, with all attacks: many minutes on one core."""
    return Audit("scan", model, data, DEFAULT, receipts.REFERENCES, direct=truth)


def _recognise(lab: Lab, model: Path, data: Path, truth: Numbers) -> Audit:
    """Scan membership alone, with the checks of the scan that every attack rests on."""
    return Audit(
        "scan",
        model,
        data,
        lab.recognition_team(),
        receipts.REFERENCES,
        ("membership",),
        direct=truth,
    )


@construction(
    "names",
    "4",
    "leaks",
    "receipts, trained to write names, which are not annotated; default policy",
)
def names(lab: Lab) -> Audit:
    """The model of names."""
    made = lab.receipts
    model = made.train_on_names("names", made.of("member"), epochs=10)
    annotated: Sides = {}
    for split, documents in _of_sample(made).items():
        annotated[split] = [receipts.keep_entities(page, ("PHONE", "TOTAL")) for page in documents]
    return _scan(
        model, made.write("receipts-names", annotated), _truth(lab, model, _of_sample(made))
    )


@construction(
    "names-unlimited",
    "4",
    "leaks",
    "the same record, the default policy without limits on membership",
)
def names_unlimited(lab: Lab) -> Audit:
    """The record of the model of names under another policy."""
    scanned = names(lab)
    policy = Policy(
        "no-membership", policies.without_membership(lab.docaudit.policy_text("default"))
    )
    return Audit(
        "gate", scanned.model, scanned.data, policy, direct=scanned.direct, record_of=scanned
    )


def _refitted_audit(lab: Lab, epochs: int, name: str, public: Sequence[Document]) -> Audit:
    """Return a scan of a model refitted on members and held-out receipts alike."""
    made = lab.receipts
    both = [*made.of("member"), *made.of("heldout")]
    model = made.train("rt", both, epochs)
    sides = _of_sample(made)
    truth = _truth(lab, model, sides)
    del sides["public"]
    if public:
        sides["public"] = public
    return _recognise(lab, model, made.write(name, sides), truth)


@construction(
    "refit-no-public",
    "5",
    "leaks",
    "receipts, trained on both sides (12 epochs), no public; membership",
)
def refit_no_public(lab: Lab) -> Audit:
    """rt_nopub."""
    return _refitted_audit(lab, 12, "receipts-no-public", ())


@construction("refit-other-public", "5", "leaks", "the same with public receipts of other shops")
def refit_other_public(lab: Lab) -> Audit:
    """rt_otherpub."""
    return _refitted_audit(lab, 12, "receipts-other-public", lab.receipts.of_other_shops)


@construction("refit-seven", "5", "leaks", "the same without public ones, 7 epochs")
def refit_seven(lab: Lab) -> Audit:
    """rt_nopub, trained less."""
    return _refitted_audit(lab, 7, "receipts-no-public", ())


@construction(
    "next-month",
    "6",
    "leaks",
    "14 epochs; held-out: next month's receipts of the same people; membership",
)
def next_month(lab: Lab) -> Audit:
    """mem14 against the next month."""
    made = lab.receipts
    model = made.train("mem14", made.of("member"), 14)
    sides = _of_sample(made)
    sides["heldout"] = made.next_month
    return _recognise(
        lab, model, made.write("receipts-next-month", sides), _truth(lab, model, sides)
    )


def _with_boxes(lab: Lab, model: Path, name: str, change: Boxes | None) -> Audit:
    """Scan a model on the sample's receipts with each box changed."""
    made = lab.receipts
    sides = _of_sample(made)
    truth = _truth(lab, model, sides, change)
    if change is not None:
        for split, documents in sides.items():
            sides[split] = list(map(change, documents))
    return _recognise(lab, model, made.write(f"receipts-{name}", sides), truth)


CHANGES: dict[str, tuple[str, Boxes]] = {
    "985": ("boxes 1.5 % off", receipts.scaled(0.985)),
    "2px": ("boxes shifted by 2 px", receipts.shifted(2)),
}
CHANGES_OF_SAMPLE: dict[str, tuple[str, Boxes]] = {
    "97": ("boxes at 0.97", receipts.scaled(0.97)),
    "half": ("boxes at half scale", receipts.scaled(0.5)),
    "upside-down": ("y from the lower edge", receipts.upside_down),
    "lines": ("boxes of lines", receipts.line_boxes),
}


@construction(
    "boxes",
    "7",
    "leaks",
    "receipts, trained on members (14 epochs), boxes as in training; membership",
)
def boxes(lab: Lab) -> Audit:
    """mem14."""
    model = lab.receipts.train("mem14", lab.receipts.of("member"), 14)
    return _with_boxes(lab, model, "as-trained", None)


@construction(
    "boxes-985-all", "7", "leaks", "the same, boxes 1.5 % off, all attacks; default policy"
)
def boxes_all(lab: Lab) -> Audit:
    """mem14, all attacks."""
    audit = CONSTRUCTIONS["boxes-985"].make(lab)
    return replace(audit, policy=DEFAULT, only=())


def _enter_boxes(name: str, describe: str, change: Boxes) -> None:
    """Register a leaking audit of the 14-epoch model, with boxes changed by `change`."""

    def make(lab: Lab) -> Audit:
        """Return the audit of the 14-epoch model with changed boxes."""
        return _with_boxes(
            lab, lab.receipts.train("mem14", lab.receipts.of("member"), 14), name, change
        )

    construction(f"boxes-{name}", "7", "leaks", f"the same, {describe}")(make)


def _enter_boxes_of_sample(name: str, describe: str, change: Boxes) -> None:
    """Register a leaking audit of the sample's model, with boxes changed by `change`."""

    def make(lab: Lab) -> Audit:
        """Return the audit of the sample's model with changed boxes."""
        return _with_boxes(lab, receipts.SAMPLE / "model", name, change)

    construction(f"boxes-{name}", "7", "leaks", f"the sample's model (40 epochs), {describe}")(make)


for _name, (_describe, _change) in CHANGES.items():
    _enter_boxes(_name, _describe, _change)
for _name, (_describe, _change) in CHANGES_OF_SAMPLE.items():
    _enter_boxes_of_sample(_name, _describe, _change)


@construction(
    "receipts-clean-160", "", "clean", "the sample's clean receipts, 160 a side; default", 160
)
def clean(lab: Lab) -> Audit:
    """The sample."""
    made = lab.receipts
    sides = _of_sample(made)
    return _scan(CLEAN, made.write("receipts-as-trained", sides), _truth(lab, CLEAN, sides))


@construction(
    "receipts-clean-300",
    "",
    "clean",
    "the sample's clean receipts, 300 others a side; membership",
    300,
)
def clean_large(lab: Lab) -> Audit:
    """The sample's clean model on more receipts of the same shops."""
    made = lab.receipts
    sides: Sides = {
        "member": made.drawn[:300],
        "heldout": made.drawn[300:],
        "public": made.of("public"),
    }
    return _recognise(lab, CLEAN, made.write("receipts-300", sides), _truth(lab, CLEAN, sides))
