"""Names of what decides a limit, and of what would decide it.

Code compares these; their sentences are written in `audit.policy.reasons`.
"""

from enum import Enum, auto


class Ground(Enum):
    """On what a limit was decided; each has one sentence.

    `WORSE` and `LOST` are found by the comparison with a baseline, the others by rules.
    """

    UNKNOWN_ATTACK = auto()
    NO_NUMBER = auto()
    FAILED = auto()
    SKIPPED = auto()
    NO_DATA = auto()
    NOT_RUN = auto()
    INAPPLICABLE = auto()
    GAP = auto()
    CANNOT_EXCEED = auto()
    NO_UNITS = auto()
    UNTRIED_UNITS = auto()
    FEW_UNITS = auto()
    CONFIRMED = auto()
    CONFIRMED_MIRRORED = auto()
    CONFOUNDED = auto()
    NOT_CONFIRMED = auto()
    WEAKENED = auto()
    UNMEASURED_POWER = auto()
    WEAK = auto()
    UNMEASURED_USEFULNESS = auto()
    UNRESOLVED_USEFULNESS = auto()
    USELESS = auto()
    CHECK = auto()
    CONDITION = auto()
    LEFT_OUT = auto()
    UNKNOWN_COVERAGE = auto()
    UNCOVERED = auto()
    WITHIN = auto()
    CROSSES = auto()
    WORSE = auto()
    LOST = auto()


class Remedy(Enum):
    """What would decide a limit; `OF_ATTACK` and `OF_RECORD` are in the record's own words."""

    OF_ATTACK = auto()
    OF_RECORD = auto()
    AGAIN = auto()
    ALL = auto()
    AS_IN_BASELINE = auto()
    ASK_ALIKE = auto()
    AUDIT_WEIGHTS = auto()
    GIVE_BASELINE = auto()
    LIST_COPIES = auto()
    LIST_MORE = auto()
    LIST_MORE_OR_LIMIT = auto()
    MORE = auto()
    MORE_OF_THEM = auto()
    MORE_PROVIDERS = auto()
    NO_HELDOUT = auto()
    NO_OTHER_ATTACK = auto()
    OTHER_ATTACK = auto()
    REPORT_FAILURE = auto()
    RUN_AGAIN = auto()
    SCAN_WITH_THIS_VERSION = auto()
    SPLIT_MODELS = auto()
    STATE_RULE = auto()
    STRONGER = auto()
    STRONGER_REFERENCE = auto()
    TRAIN_SPLITS = auto()
    TRAINING_LABELS = auto()


OWN_WORDS = frozenset({Remedy.OF_ATTACK, Remedy.OF_RECORD})
"""Remedies that the record words itself: two of them are the same where their words are."""
MORE_DOCUMENTS = frozenset({Remedy.MORE, Remedy.SPLIT_MODELS, Remedy.STATE_RULE})
"""Remedies that are, or end with, the advice to audit more documents."""
