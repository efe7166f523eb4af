"""Write the commands that go on from a scan, with the arguments that the scan had.

Every command that a terminal or a report prints after a scan is written here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from audit.beside import EVIDENCE_OPTION, OUT_OPTION, next_folder, with_new_folder, write_beside
from audit.cards import SERVED
from audit.defenses.remedy import Remedy
from audit.errors import command_line, listed
from audit.policy import Verdict
from audit.policy.reading import shipped_policies
from audit.record import AuditRecord
from audit.report.labels import LABELS

PLACES = LABELS["places"]
"""What a reader puts in place of a name in a command, by the name."""
UNKNOWN = {"pretrained": "BASE"}
"""Names that stand for the path of a reference; PATH for those of other references."""
SIZED_TASKS = ("intent-slots",)
"""Tasks whose models are trained anew: their sizes alone are taken from the audited model."""
BASE = " --reference pretrained=BASE"
"""Names what a model was fine-tuned from, where nobody has said it."""
NEW = "OUT"
"""Stands for the folder of a next scan where nobody knows that of the scan itself."""


@dataclass(frozen=True)
class Called:
    """How a scan was called, as the commands that go on from it repeat it.

    Attributes:
        places: what stands for names of `PLACES`, as somebody gave it on this machine; names that
            are missing here stay in the commands.
        references: references that the command line named: names and paths.
        options: further options of the scan, a word each.
        evidence: the folder of its evidence; empty: in its own folder.
    """

    places: Mapping[str, str] = field(default_factory=dict)
    references: Sequence[tuple[str, str]] | None = None
    options: Sequence[str] = ()
    evidence: str = ""

    def at(self, **places: str) -> Called:
        """Return the same with these places, by name; empty ones are left out."""
        chosen = {name: place for name, place in places.items() if place}
        return replace(self, places={**self.places, **chosen})

    def without_evidence(self) -> Called:
        """Return the same without the place of the evidence, for a report that others may read."""
        options = [*self.options]
        if EVIDENCE_OPTION in options:
            place = options.index(EVIDENCE_OPTION)
            del options[place : place + 2]
        return replace(self, options=options, evidence="")

    @property
    def next_out(self) -> str:
        """Return a folder for the next scan, beside that of the scan."""
        folder = self.places.get("SCAN_DIR")
        if folder is None:
            return NEW
        return next_folder(folder)

    @property
    def next_options(self) -> list[str]:
        """Return the further options of the next scan, whose evidence lies beside the scan's."""
        options = [*self.options]
        if EVIDENCE_OPTION in options:
            place = options.index(EVIDENCE_OPTION) + 1
            options[place] = next_folder(options[place])
        return options

    def put_in(self, text: str) -> str:
        """Put the places of the scan for the names in a text; scans in it write beside this one."""
        return put_in(with_new_folder(text, self.next_out), self.places)

    def in_folder(self, folder: str) -> Called:
        """Return the same for a scan that lies in this folder, unless it has one."""
        return replace(self, places={"SCAN_DIR": folder, **self.places})


def put_in(text: str, places: Mapping[str, str]) -> str:
    """Put places for the names in a text, quoted for a shell."""
    for name, place in places.items():
        quoted = shlex.quote(place).replace("\\", r"\\")
        text = re.sub(rf"(?<![\w.]){re.escape(name)}\b", quoted, text)
    return text


def put_into(verdict: Verdict, called: Called | None) -> Verdict:
    """Put places for the names in the commands that would decide limits."""
    if called is None:
        return verdict
    decisions = tuple(
        replace(decision, remedy=called.put_in(decision.remedy)) for decision in verdict.decisions
    )
    return replace(verdict, decisions=decisions)


def left_to_put_in(command: str) -> str:
    """Say what a reader puts in for the names in a command; empty where it can be run as it is."""
    clauses = []
    for name, meaning in PLACES.items():
        if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", command):
            clauses.append(f"for {name} {meaning}")
    if not clauses:
        return ""
    return f"put in {listed(clauses, 'and')}"


@dataclass(frozen=True)
class Commands:
    """Write the commands that go on from one scan.

    Attributes:
        record: record of the scan.
        verdict: verdict on it.
        called: how it was called.
    """

    record: AuditRecord
    verdict: Verdict
    called: Called

    def put_in(self, text: str) -> str:
        """Put the places of the scan for the names in a text; see `Called.put_in`."""
        return self.called.put_in(text)

    def of_remedy(self, remedy: Remedy) -> str:
        """Return the command that measures a remedy; empty where there is none."""
        match remedy.command:
            case "scan":
                return self.scan()
            case "scan longer":
                return self.scan_that_can_pass()
            case "scan at full strength":
                return self.scan_that_can_pass(with_base=True)
            case "scan at full budget":
                return self.scan("full")
            case "plan":
                return self.plan()
            case "train baselines":
                return self.train("baselines", "--count", "3")
            case "judge anew":
                return command_line("gate", self._place("SCAN_DIR"), "--policy", "NEW_POLICY.toml")
        return self._trying(remedy)

    def _trying(self, remedy: Remedy) -> str:
        """Return the command that tries the countermeasure of a remedy; empty without one."""
        if not remedy.measured_by:
            return ""
        if remedy.needs_training and self.is_served:
            return self.scan_checkpoint()
        return self.fix("--try", remedy.measured_by[0], trains=remedy.needs_training)

    def scan(self, budget: str = "") -> str:
        """Return the scan again, with another budget where one is named."""
        record = self.record
        words = ["scan"]
        if record.target.is_model:
            words.append(self._place("MODEL_DIR"))
        else:
            words.append("--no-model")
        words.append(self._place("DATA_DIR"))
        forgets = record.corpus.forgotten is not None
        if forgets:
            words[0] = "forget-check"
            words += ["--ids", self._place("IDS")]
        words += ["--policy", self._policy]
        if not forgets:
            words += ["--budget", budget or record.budget, "--seed", str(record.seed)]
        words += [OUT_OPTION, self.called.next_out]
        return command_line(*words, *self._reference_words(), *self.called.next_options)

    def scan_that_can_pass(self, *, with_base: bool = False) -> str:
        """Return the scan again, with the least budget that can pass the policy.

        Args:
            with_base: name what the model was fine-tuned from, where nothing else names it.
        """
        # Imported late: it loads numpy, which a gate does without.
        from audit.attacks.budget import budget_that_can_pass

        limits = [decision.limit for decision in self.verdict.decisions]
        command = self.scan(budget_that_can_pass(limits, self.record.budget))
        if with_base and not self._start_is_named:
            command += BASE
        return command

    def scan_checkpoint(self) -> str:
        """Return the scan of the checkpoint behind a server, which holds the weights."""
        words = ["scan", "CHECKPOINT_DIR", self._place("DATA_DIR"), "--policy", self._policy]
        return command_line(*words, OUT_OPTION, self.called.next_out)

    def fix(self, *words: str, trains: bool = True) -> str:
        """Return the command that tries countermeasures.

        Args:
            *words: words behind the folder.
            trains: whether one of them trains the model again.
        """
        command = ["fix", self._place("SCAN_DIR"), *words]
        if not self._is_declared and "--policy" not in words:
            command += ["--policy", self._policy]
        if self.called.evidence and EVIDENCE_OPTION not in words:
            command += [EVIDENCE_OPTION, self.called.evidence]
        line = write_beside(command_line(*command))
        # What is confirmed has been trained already, and nothing trains a served model.
        if not trains or self.is_served or "--confirm" in words:
            return line
        if not self._start_is_named:
            line += BASE
        return line

    def plan(self) -> str:
        """Return the command that says what the data set can decide."""
        return command_line("plan", self._place("DATA_DIR"), "--policy", self._policy)

    def references(self) -> str:
        """Return the command that lists the references, and how to train them."""
        return command_line("references", self._place("MODEL_DIR"), self._place("DATA_DIR"))

    def train(self, name: str, *words: str) -> str:
        """Return the command that trains references of a name."""
        command = ["references", self._place("MODEL_DIR"), self._place("DATA_DIR")]
        command += ["--train", name, *words]
        for reference, path in self.called.references or ():
            if reference == "pretrained":
                command += ["--reference", f"pretrained={path}"]
        line = command_line(*command)
        if not self._start_is_named:
            line += BASE
        return line

    @property
    def is_served(self) -> bool:
        """Test whether the audited model was behind a server."""
        return self.record.target.family == SERVED

    def _place(self, name: str) -> str:
        """Return what stands for a name in commands: what somebody gave, else the name."""
        return self.called.places.get(name, name)

    @property
    def _policy(self) -> str:
        """Return the policy as a command takes it: a shipped one, or a file."""
        if self.verdict.policy in shipped_policies():
            return self.verdict.policy
        return self._place("POLICY.toml")

    @property
    def _is_declared(self) -> bool:
        """Test whether `docaudit fix` takes the policy without being told: the scan declared it."""
        declared = self.record.policy
        if self.verdict.policy not in shipped_policies():
            return False
        return declared is None or declared.name == self.verdict.policy

    @property
    def _start_is_named(self) -> bool:
        """Test whether something names what the model was fine-tuned from, where it matters.

        Where nobody knows how the scan was called, it is taken to be named.
        """
        references = self.called.references
        if references is None or self.record.corpus.task in SIZED_TASKS:
            return True
        names = {name for name, _ in references}
        roles = {card.role for card in self.record.references}
        return "pretrained" in names | roles

    def _reference_words(self) -> Iterator[str]:
        """Yield the references of the command line, a word each.

        Where nobody knows their paths any more, the record says which there were.
        """
        references = self.called.references
        if references is None:
            cards = [card for card in self.record.references if card.source == "command line"]
            names = dict.fromkeys(_reference_name(card.role) for card in cards)
            references = [(name, UNKNOWN.get(name, "PATH")) for name in names]
        for name, path in references:
            yield "--reference"
            yield f"{name}={path}"


def _reference_name(role: str) -> str:
    """Return the name of a reference on the command line: that of "baseline-0" is "baselines"."""
    name, dash, _ = role.partition("-")
    if dash:
        return f"{name}s"
    return name
