"""Policies read from files or records, and the rules that a policy has to keep.

Without them its verdict would say nothing.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from audit.cards import DeclaredPolicy
from audit.errors import PolicyError, printable
from audit.files import read_file, read_toml, shipped_folder
from audit.measurements import STRICT
from audit.policy.limits import TEXTS, Demand, Limit, Origin, Policy
from audit.record import AuditRecord

MISSPELT = 0.8
"""Likeness of two names from which one is taken for a mistake: provider_membership and membership
are less."""
HINT = "see docs/policies.md, and start from one of docaudit's own policies"
LONGEST_NAME = 64
_NAME = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9 ._-]{{0,{LONGEST_NAME - 2}}}[A-Za-z0-9])?")
_LOOK_ALIKE = str.maketrans("1i0", "llo")


class Problem(NamedTuple):
    """What no policy may say, and the place of a policy that says it."""

    place: str
    text: str

    def __str__(self) -> str:
        """Write the problem as one line: "place: text"."""
        return f"{self.place}: {self.text}"


class MetricRules(NamedTuple):
    """What a policy may ask of a metric; the default is that of an unknown share.

    Attributes:
        upper: the largest value that it can have; None: any number.
        cap: the value that a maximum must stay under; None: any number.
        is_leak: whether it grows with the leak.
        is_count: whether it counts what was found, so that its estimate may be limited alone.
        has_power: whether its attack measures its own strength.
    """

    upper: float | None = 1.0
    cap: float | None = 1.0
    is_leak: bool = False
    is_count: bool = False
    has_power: bool = False


def check_names(
    policy: Policy, metrics: Mapping[str, Collection[str]], complete: bool = True
) -> None:
    """Raise PolicyError where a policy names an attack or metric that is not in `metrics`.

    A scan checks this before it starts, as it may take hours.

    Args:
        policy: what to check.
        metrics: the metrics a policy may ask for, by attack.
        complete: whether `metrics` holds all attacks there are. An older record lacks attacks that
            came later: only a name close to one that it holds is then taken for a mistake.

    Raises:
        PolicyError: the policy names an attack or a metric that does not exist.
    """
    problems: list[str] = []
    for limit in policy.limits:
        if limit.attack in metrics:
            problems += _misspelt_metric(limit, metrics[limit.attack])
        elif complete or get_close_matches(limit.attack, metrics, 1, MISSPELT):
            problems.append(f"no attack is called {limit.attack!r}")
    if problems:
        lines = [f"policy {policy.name}: {problem}" for problem in problems]
        raise PolicyError(lines, f"attacks: {', '.join(metrics)}")


def _misspelt_metric(limit: Limit, metrics: Collection[str]) -> Iterator[str]:
    """Say that an attack has no such metric, and which one may be meant."""
    if limit.metric in metrics:
        return
    problem = f"{limit.attack} has no metric {limit.metric!r}"
    close = get_close_matches(limit.metric, metrics, 1)
    if close:
        problem = f"{problem}; did you mean {close[0]!r}?"
    yield problem


def check_subject(policy: Policy, *, forgotten: bool) -> None:
    """Refuse a policy for forgetting where nothing was to be forgotten, and any other elsewhere.

    Args:
        policy: policy that a record is to be held against.
        forgotten: whether the record is of documents that the model was to forget.

    Raises:
        PolicyError: the policy is for others.
    """
    if policy.forgets != forgotten:
        subject = "no_forgetting"
        if forgotten:
            subject = "forgetting"
        raise PolicyError(f"policy {policy.name}: {TEXTS[subject]}", TEXTS[f"{subject}_policy"])


def check_for_record(policy: Policy, record: AuditRecord) -> None:
    """Refuse a policy that is for other records, or that misspells an attack of this one.

    Raises:
        PolicyError: the policy is none for this record.
    """
    check_subject(policy, forgotten=record.corpus.forgotten is not None)
    limited = tuple(limit.metric for limit in policy.limits)
    check_names(policy, dict.fromkeys(record.battery, limited), complete=False)


def check_limits(policy: Policy, rules: Mapping[str, Mapping[str, MetricRules]]) -> None:
    """Refuse limits that a leaking model would meet, or that nothing could meet.

    Args:
        policy: what to check.
        rules: of every metric, by attack; one that is not among them is taken for a share.

    Raises:
        PolicyError: every such limit.
    """
    problems = []
    for index, limit in enumerate(policy.limits):
        rules_of_metric = rules.get(limit.attack, {}).get(limit.metric, MetricRules())
        place = f"policy {policy.name} limits.{index}"
        problems += [f"{place}: {problem}" for problem in _limit_problems(limit, rules_of_metric)]
    if problems:
        raise PolicyError(problems, HINT)


def _limit_problems(limit: Limit, rules: MetricRules) -> Iterator[str]:
    """Yield what makes a limit one that a leaking model would meet, or that nothing could."""
    if limit.max is not None:
        yield from _max_problems(limit.metric, limit.max, rules)
    elif limit.min is not None:
        yield from _min_problems(limit.metric, limit.min, rules)
    yield from _share_problems(limit, rules)
    if limit.holds == "estimate" and not rules.is_count:
        yield f"holds: {limit.metric} is not a count: limit its whole interval"
    elif limit.holds == "estimate" and not limit.min_power and rules.has_power:
        yield "holds: an estimate proves nothing with a weak attacker: give min_power as well"


def _max_problems(metric: str, bound: float, rules: MetricRules) -> Iterator[str]:
    """Yield why no number of a metric could exceed this maximum, or why it is out of range."""
    if rules.upper is not None and not 0 <= bound <= rules.upper:
        yield f"max {bound:g}: {_range_in_words(metric, rules.upper)}"
    elif bound == rules.upper:
        never = f"{metric} is never more than {rules.upper:g}"
        yield f"max {bound:g}: {never}, so no model could exceed it"
    elif rules.cap is not None and bound >= rules.cap:
        unable = f"{metric} may be unable to exceed {rules.cap:g}"
        yield f"max {bound:g}: {unable}, so no model could exceed it"


def _min_problems(metric: str, bound: float, rules: MetricRules) -> Iterator[str]:
    """Yield why a metric cannot have this minimum, or why no number could miss it."""
    if rules.upper is not None and not 0 <= bound <= rules.upper:
        yield f"min {bound:g}: {_range_in_words(metric, rules.upper)}"
    elif rules.is_leak:
        yield f"min: {metric} grows with the leak: limit it with max"
    elif bound <= 0:
        yield f"min {bound:g}: {metric} is never less than 0, so no model could fail"


def _range_in_words(metric: str, upper: float) -> str:
    """Write in which range a metric lies; for shares, that 65 % is written 0.65."""
    words = f"{metric} lies between 0 and {upper:g}"
    if upper == 1:
        return f"{words}, so that 65 % is 0.65"
    return words


def _share_problems(limit: Limit, rules: MetricRules) -> Iterator[str]:
    """Yield what is wrong with the share and floor that set the maximum of a count."""
    if limit.share is None and limit.floor is None:
        return
    if not rules.is_count:
        yield f"share: {limit.metric} is not a count: limit it with max alone"
    elif limit.share is None or limit.max is None:
        least = "is the least that a share of what is counted asks for"
        yield f"floor: {least}: give share, and max as its cap"
    elif limit.floor is not None and limit.floor > limit.max:
        yield f"floor {limit.floor:g}: is over max {limit.max:g}, its cap: give a smaller one"


POLICY: TypeAdapter[Policy] = TypeAdapter(Policy)
NO_POLICIES = ("defenses", "frameworks")
"""Files beside the shipped policies that are none."""


def shipped_policies() -> dict[str, Path]:
    """Return the shipped policies, by name."""
    policies = {}
    for item in shipped_folder("policies").glob("*.toml"):
        if item.stem not in NO_POLICIES:
            policies[item.stem] = item
    return policies


def path_of(name_or_path: str) -> Path:
    """Return the file of a policy: of a shipped one by its name, else the path itself."""
    return shipped_policies().get(name_or_path, Path(name_or_path))


def load(name_or_path: str) -> Policy:
    """Read a policy: the name of a shipped one ("default", "strict") or the path of a TOML file.

    Raises:
        PolicyError: every problem of the file.
    """
    shipped = shipped_policies()
    path = path_of(name_or_path)
    try:
        written = read_file(path)
        text = written.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise PolicyError(
            f"policy {path}: {reason}", f"shipped policies: {', '.join(sorted(shipped))}"
        ) from None
    policy, problems = _parse(f"policy {path}", text)
    original = shipped.get(policy.name)
    if original is not None and original.read_bytes() != written:
        waived = ""
        if policy.waivers:
            waived = ", as by waivers,"
        problems.append(_shipped_name(policy.name, waived))
    if problems:
        hint = _hint_for(policy.name, problems, is_shipped=original is not None)
        raise PolicyError([f"policy {path} {problem}" for problem in problems], hint)
    return _with_origin(policy, text, shipped=original is not None)


def _shipped_name(name: str, waived: str) -> Problem:
    """Return the problem of a policy that has the name of a shipped one and differs from it.

    `waived`: clause for the message where waivers make it differ; else empty.
    """
    return Problem("name", TEXTS["shipped_name"].format(name=name, waived=waived))


def _hint_for(name: str, problems: Collection[Problem], *, is_shipped: bool) -> str:
    """Say how to mend a policy: by another name where its name is a problem."""
    if all(problem.place != "name" for problem in problems):
        return HINT
    suggested = "team-receipts"
    if is_shipped:
        suggested = f"{name}-own"
    return f'say name = "{suggested}" in it, and give --policy FILE'


def read_declared(declared: DeclaredPolicy) -> Policy:
    """Read the policy that a record declares, whatever this version ships under its name.

    Raises:
        PolicyError: the text is no policy, or not the one that the record names.
    """
    where = "the record's policy"
    policy, problems = _parse(where, declared.toml)
    lines = [str(problem) for problem in problems]
    if policy.name != declared.name:
        lines.append("has another name than the record says")
    if hashlib.sha256(declared.toml.encode()).hexdigest() != declared.sha256:
        lines.append("has another sha256 than the record says")
    if lines:
        raise PolicyError([f"{where} {line}" for line in lines], HINT)
    return _with_origin(policy, declared.toml, shipped=declared.shipped)


def _with_origin(policy: Policy, toml: str, *, shipped: bool) -> Policy:
    """Add to a policy where it comes from, and how it asks less than the shipped one."""
    looser = ""
    if not shipped:
        looser = _how_looser(policy)
    return replace(policy, origin=Origin(toml, shipped, looser))


def _parse(where: str, toml: str) -> tuple[Policy, list[Problem]]:
    """Read a policy from TOML, and list what no policy may say; `where` names it in errors.

    Raises:
        PolicyError: the text is no TOML, or its fields are not those of a policy.
    """
    try:
        policy = POLICY.validate_python(read_toml(toml.encode()))
    except ValidationError as error:
        lines = []
        for item in error.errors():
            place = ".".join(str(step) for step in item["loc"])
            lines.append(f"{where} {place}: {item['msg']}")
        raise PolicyError(lines, HINT) from None
    except ValueError as error:  # TOMLDecodeError, and a number of thousands of digits
        raise PolicyError(f"{where}: not TOML: {error}") from None
    return policy, list(_contradictions(policy))


def check_made(policy: Policy) -> Policy:
    """Check a policy that a program made or changed, as one read from a file is checked.

    Returns:
        The policy. Its origin is left out if the file that it names holds another policy.

    Raises:
        PolicyError: every problem of the policy.
    """
    plain = replace(policy, origin=None)
    if policy.origin is not None and vars(_parse("policy", policy.origin.toml)[0]) == vars(plain):
        return policy
    problems = [*_contradictions(plain)]
    if policy.name in shipped_policies():
        problems.append(_shipped_name(policy.name, ""))
    if problems:
        raise PolicyError([f"policy {policy.name} {problem}" for problem in problems], HINT)
    return plain


def _contradictions(policy: Policy) -> Iterator[Problem]:
    """Yield what no policy may say, whatever attacks there are."""
    yield from _name_problems(policy.name, shipped_policies())
    if policy.origin is not None:
        yield Problem("origin", "is written by docaudit, not by a policy")
    if not policy.limits:
        yield Problem("limits", "the policy has none, so no model could fail")
    yield from _contradicting_limits(policy)
    limited = {limit.attack for limit in policy.limits}
    for index, demand in enumerate(policy.demands):
        for attack in demand.any_of:
            if attack not in limited:
                yield Problem(f"demands.{index}.any_of", f"no limit on {attack}")
    gated = {(limit.attack, limit.metric) for limit in policy.limits}
    for index, waiver in enumerate(policy.waivers):
        if (waiver.attack, waiver.metric) not in gated:
            yield Problem(f"waivers.{index}", f"no limit on {waiver.attack} {waiver.metric}")


def _contradicting_limits(policy: Policy) -> Iterator[Problem]:
    """Yield limits that limit nothing, and those that limit again what another one does."""
    first: dict[tuple[str, str, bool], int] = {}
    for index, limit in enumerate(policy.limits):
        place = f"limits.{index}"
        if (limit.max is None) == (limit.min is None):
            yield Problem(place, "give either max or min")
        if limit.holds == "estimate" and limit.max is None:
            yield Problem(place, "holds: an estimate needs a max")
        before = first.setdefault((limit.attack, limit.metric, limit.max is None), index)
        if before != index:
            yield Problem(place, f"limits.{before} already limits this metric: keep one of them")


def _name_problems(name: str, shipped: Collection[str]) -> Iterator[Problem]:
    """Say why a name is none, or reads like that of a shipped policy."""
    if not _NAME.fullmatch(name):
        rule = TEXTS["name_rule"].format(longest=LONGEST_NAME)
        yield Problem("name", f"“{printable(name[:LONGEST_NAME])}”: {rule}")
    elif name not in shipped:
        alike = next((policy for policy in shipped if _fold_name(policy) == _fold_name(name)), None)
        if alike is not None:
            looks_like = f"{name!r} looks like {alike!r}, a policy of docaudit"
            yield Problem("name", f"{looks_like}: choose another name")


def _fold_name(name: str) -> str:
    """Return a name as a hurried reader sees it, so that names that look alike are equal.

    That is without case and punctuation, and with look-alike characters made equal.
    """
    return re.sub(r"[^a-z0-9]", "", name.replace("I", "l").casefold().translate(_LOOK_ALIKE))


COMPARED = "default"
"""The shipped policy that others are compared with: strict is for sensitive documents."""


PREFIX = 12
"""Digits of a sha256 that sentences show; the whole one is in the record and in the report's
parameters."""


@dataclass(frozen=True, config=STRICT)
class PolicyIdentity:
    """The policy of a verdict beside the one that its record declares.

    Attributes:
        sha256: of the file that it was read from; None where it was read from none.
        shipped: whether docaudit ships this very file.
        state: "declared": it is the one that was declared before the scan; "another": it is not;
            "undeclared": the record is older and declares none.
        warning: a sentence on why it could have been chosen for its outcome; empty where it could
            not.
        looser: which of its limits ask less than the shipped ones, which of these it lacks, and
            what else it does without; empty where it asks no less.
    """

    name: str
    sha256: str | None
    shipped: bool
    state: Literal["declared", "another", "undeclared"]
    warning: str
    looser: str = ""

    @property
    def sentence(self) -> str:
        """Name the policy with its file's digest, and whether it was declared before the scan."""
        kind = "the owner's own"
        if self.shipped:
            kind = "shipped with docaudit, unchanged"
        digest = "not read from a file"
        if self.sha256 is not None:
            digest = f"{kind}, SHA-256 {self.sha256[:PREFIX]}"
        declared = ""
        if self.state == "declared" and not self.warning:
            declared = ", declared before the scan"
        return f"{self.name} ({digest}{declared})"


def identify(record: AuditRecord, policy: Policy) -> PolicyIdentity:
    """Hold a policy against the one that a record declares.

    Say how it asks less than the shipped one.
    """
    identity = _identify(record, policy)
    if policy.origin is None:
        return identity
    return replace(identity, looser=policy.origin.looser)


def _how_looser(policy: Policy) -> str:
    """Say how an owner's own policy asks less than the shipped one; empty where it does not."""
    name = COMPARED
    if policy.forgets:
        name = "forget"
    shipped = load(name)
    clauses = [
        *_looser_limits(policy, shipped),
        *_lacking_limits(policy, shipped),
        *_wider_gaps(policy, shipped),
    ]
    return "; ".join(clauses)


def _looser_limits(policy: Policy, shipped: Policy) -> Iterator[str]:
    """Yield how many limits of a policy ask less than the shipped ones; nothing where none does."""
    theirs = {(limit.attack, limit.metric): limit for limit in shipped.limits}
    count = 0
    for limit in policy.limits:
        compared = theirs.get((limit.attack, limit.metric))
        if compared is not None and _asks_less(limit, compared):
            count += 1
    if count:
        verb = "are"
        if count == 1:
            verb = "is"
        yield TEXTS["looser_limits"].format(
            count=count, all=len(policy.limits), verb=verb, shipped=shipped.name
        )


def _lacking_limits(policy: Policy, shipped: Policy) -> Iterator[str]:
    """Name the shipped limits and demands that a policy does not have.

    Without a limit anything is met.
    """
    limited = {(limit.attack, limit.metric) for limit in policy.limits}
    limits = [limit for limit in shipped.limits if (limit.attack, limit.metric) not in limited]
    demands = [demand for demand in shipped.demands if not _answers(policy, demand)]
    counts = [*_count_in_words(len(limits), "limit"), *_count_in_words(len(demands), "demand")]
    if counts:
        attacks = dict.fromkeys(limit.attack for limit in limits)
        names = [*attacks, *(demand.question for demand in demands)]
        yield TEXTS["lacking"].format(
            counts=" and ".join(counts), names=", ".join(names), shipped=shipped.name
        )


def _count_in_words(count: int, noun: str) -> Iterator[str]:
    """Yield a count with its noun, "2 waivers"; nothing where it is 0."""
    if count:
        yield f"{count} {noun}" + "s" * (count > 1)


def _answers(policy: Policy, demand: Demand) -> bool:
    """Test whether a policy demands the same, of the same attacks or of fewer."""
    return any(set(same.any_of) <= set(demand.any_of) for same in policy.demands)


def _wider_gaps(policy: Policy, shipped: Policy) -> Iterator[str]:
    """Name the gaps for tasks that the shipped policy does not do without."""
    permitted = set(_permitted_gaps(shipped))
    wider = []
    for attack, task in _permitted_gaps(policy):
        if (attack, task) not in permitted:
            wider.append(f"{attack} of {task}")
    if wider:
        yield TEXTS["wider_gaps"].format(names=", ".join(wider), shipped=shipped.name)


def _permitted_gaps(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield the attacks that a policy does without, each with a task of models."""
    for gap in policy.gaps:
        for task in gap.tasks:
            yield gap.attack, task


def _allows_more(limit: Limit, shipped: Limit) -> bool:
    """Tell whether a limit has a larger maximum, or one that a larger share or floor makes so."""
    if limit.max is None or shipped.max is None:
        return False
    if (limit.share or 1.0) > (shipped.share or 1.0):
        return True
    return limit.max > shipped.max or (limit.floor or 0.0) > (shipped.floor or 0.0)


def _asks_less(limit: Limit, shipped: Limit) -> bool:
    """Tell whether a limit asks less than the shipped one on the same metric."""
    if _allows_more(limit, shipped):
        return True
    for name in ("min_power", "min_coverage", "min_category_coverage"):
        if (getattr(limit, name) or 0.0) < (getattr(shipped, name) or 0.0):
            return True
    if shipped.required and not limit.required:
        return True
    return limit.holds == "estimate" and shipped.holds != "estimate"


def _identify(record: AuditRecord, policy: Policy) -> PolicyIdentity:
    """Hold a policy against the declared one, whatever it asks."""
    origin = policy.origin
    declared = record.policy
    sha256 = None
    shipped = False
    if origin is not None:
        sha256 = origin.sha256
        shipped = origin.shipped
    if declared is None:
        none = "the record declares no policy"
        warning = f"{none}: this one may have been chosen after the results were known"
        return PolicyIdentity(policy.name, sha256, shipped, "undeclared", warning)
    if declared.sha256 != sha256:
        same = ""
        if declared.name == policy.name:
            same = " of the same name"
        before = f"{declared.name} (SHA-256 {declared.sha256[:PREFIX]})"
        warning = f"another policy{same} was declared before the scan: {before}"
        return PolicyIdentity(policy.name, sha256, shipped, "another", warning)
    return PolicyIdentity(policy.name, sha256, shipped, "declared", _late_declaration(record))


def _late_declaration(record: AuditRecord) -> str:
    """Say that outcomes are older than the declaration of the policy, or may be.

    Empty where none is.
    """
    timing = record.timing
    if timing.resumed and timing.oldest is None:
        return TEXTS["undated"].format(n=timing.resumed, started=timing.started[:10])
    if timing.oldest is None or timing.same_policy or timing.oldest >= timing.started:
        return ""
    return TEXTS["earlier"].format(oldest=timing.oldest[:10], started=timing.started[:10])
