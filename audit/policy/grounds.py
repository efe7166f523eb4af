"""Names of what decides a limit, of what would decide it, and of how soon that is needed.

Code compares these; their sentences are written in `audit.policy.reasons`.
"""

from enum import Enum, IntEnum, auto


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
    SWAPPED = auto()
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
    ALL = auto()
    AS_IN_BASELINE = auto()
    ASK_ALIKE = auto()
    AUDIT_WEIGHTS = auto()
    CHECK_SIDES = auto()
    FIT_ALIKE = auto()
    GIVE_BASELINE = auto()
    LIST_COPIES = auto()
    LIST_MORE = auto()
    LIST_MORE_OR_LIMIT = auto()
    MEASURABLE = auto()
    MORE = auto()
    MORE_OF_THEM = auto()
    MORE_PROVIDERS = auto()
    NO_HELDOUT = auto()
    NO_OTHER_ATTACK = auto()
    OTHER_ATTACK = auto()
    OTHER_DOCUMENTS = auto()
    REPORT_FAILURE = auto()
    RUN_AGAIN = auto()
    SCAN_WITH_THIS_VERSION = auto()
    SPLIT_MODELS = auto()
    STATE_RULE = auto()
    STRENGTHEN = auto()
    STRONGER = auto()
    STRONGER_REFERENCE = auto()
    TRAIN_SPLITS = auto()
    TRAINING_LABELS = auto()


class Urgency(IntEnum):
    """How soon a cause has to be mended: the smallest first, and a cause before its effects.

    Alarms come first, as no other remedy helps a scan that means something else than it says.
    Unseen documents come before references, for no attack decides anything without them. To
    change the policy comes last.
    """

    LABEL_ORDER = auto()
    REFUSALS = auto()
    WAY_OF_WRITING = auto()
    USELESS = auto()
    KNOWING_REFERENCE = auto()
    SWAPPED_SIDES = auto()
    OTHER_ALARM = auto()
    NO_UNSEEN = auto()
    REFERENCE = auto()
    UNTRIED = auto()
    ATTACKER = auto()
    DOCUMENTS = auto()
    REPAIR = auto()
    POLICY = auto()

    @property
    def is_alarm(self) -> bool:
        """Tell whether nothing else helps before the cause is mended."""
        return self <= Urgency.OTHER_ALARM


OWN_WORDS = frozenset({Remedy.OF_ATTACK, Remedy.OF_RECORD})
"""Remedies that the record words itself: two of them are the same where their words are."""
