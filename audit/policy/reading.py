"""Policies read from files or records, and the rules that one has to keep so that its verdict says something."""

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
    """Refuse a policy that misspells something; called before a scan too, which may take hours.

    Args:
        policy: what to check.
        metrics: the metrics a policy may ask for, by attack.
        complete: whether these are all the attacks there are. An older record does not know those
            that came later: only a name close to one that it knows is then taken for a mistake.

    Raises:
        PolicyError: the policy names an attack or a metric that does not exist.
    """
    problems = []
    for limit in policy.limits:
        if limit.attack not in metrics and (
            complete or get_close_matches(limit.attack, metrics, 1, MISSPELT)
        ):
            problems.append(f"policy {policy.name}: no attack is called {limit.attack!r}")
        elif limit.attack in metrics and limit.metric not in metrics[limit.attack]:
            close = get_close_matches(limit.metric, metrics[limit.attack], 1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            problems.append(
                f"policy {policy.name}: {limit.attack} has no metric {limit.metric!r}{meant}"
            )
    if problems:
        raise PolicyError(problems, f"attacks: {', '.join(metrics)}")


def check_limits(policy: Policy, rules: Mapping[str, Mapping[str, MetricRules]]) -> None:
    """Refuse limits that a leaking model would meet, or that nothing could meet.

    Args:
        policy: what to check.
        rules: of every metric, by attack; one that is not among them is taken for a share.

    Raises:
        PolicyError: every such limit.
    """
    problems = [
        f"policy {policy.name} limits.{index}: {problem}"
        for index, limit in enumerate(policy.limits)
        for problem in _limit_problems(
            limit, rules.get(limit.attack, {}).get(limit.metric, MetricRules())
        )
    ]
    if problems:
        raise PolicyError(problems, HINT)


def _limit_problems(limit: Limit, rules: MetricRules) -> Iterator[str]:
    metric, upper, cap = limit.metric, rules.upper, rules.cap
    name, bound = ("max", limit.max) if limit.max is not None else ("min", limit.min)
    if bound is not None and upper is not None and not 0 <= bound <= upper:
        percent = ", so that 65 % is 0.65" if upper == 1 else ""
        yield f"{name} {bound:g}: {metric} lies between 0 and {upper:g}{percent}"
    elif limit.max is not None and limit.max == upper:
        yield f"max {bound:g}: {metric} is never more than {upper:g}, so no model could exceed it"
    elif limit.max is not None and cap is not None and limit.max >= cap:
        yield f"max {bound:g}: {metric} may be unable to exceed {cap:g}, so no model could exceed it"
    elif limit.min is not None and rules.is_leak:
        yield f"min: {metric} grows with the leak: limit it with max"
    elif limit.min is not None and limit.min <= 0:
        yield f"min {bound:g}: {metric} is never less than 0, so no model could fail"
    yield from _share_problems(limit, rules)
    if limit.holds == "estimate" and not rules.is_count:
        yield f"holds: {metric} is not a count: limit its whole interval"
    elif limit.holds == "estimate" and not limit.min_power and rules.has_power:
        yield "holds: an estimate proves nothing with a weak attacker: give min_power as well"


def _share_problems(limit: Limit, rules: MetricRules) -> Iterator[str]:
    if limit.share is None and limit.floor is None:
        return
    if not rules.is_count:
        yield f"share: {limit.metric} is not a count: limit it with max alone"
    elif limit.share is None or limit.max is None:
        yield "floor: is the least that a share of what is counted asks for: give share, and max as its cap"
    elif limit.floor is not None and limit.floor > limit.max:
        yield f"floor {limit.floor:g}: is over max {limit.max:g}, its cap: give a smaller one"


POLICY: TypeAdapter[Policy] = TypeAdapter(Policy)


def shipped_policies() -> dict[str, Path]:
    """Return the shipped policies, by name."""
    others = ("defenses", "frameworks")
    return {
        item.stem: item
        for item in shipped_folder("policies").glob("*.toml")
        if item.stem not in others
    }


def path_of(name_or_path: str) -> Path:
    """Return the file of a policy: of a shipped one by its name, else the path itself."""
    return shipped_policies().get(name_or_path, Path(name_or_path))


def load(name_or_path: str) -> Policy:
    """Read a policy: the name of a shipped one ("default", "strict") or the path of a TOML file.

    Raises:
        PolicyError: every problem of the file.
    """
    shipped, path = shipped_policies(), path_of(name_or_path)
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
        waived = ", as by waivers," if policy.waivers else ""
        problems.append(TEXTS["shipped_name"].format(name=policy.name, waived=waived))
    if problems:
        own = any(problem.startswith("name: ") for problem in problems)
        suggested = f"{policy.name}-own" if original is not None else "team-receipts"
        hint = f'say name = "{suggested}" in it, and give --policy FILE' if own else HINT
        raise PolicyError([f"policy {path} {problem}" for problem in problems], hint)
    return _with_origin(policy, text, shipped=original is not None)


def read_declared(declared: DeclaredPolicy) -> Policy:
    """Read the policy that a record declares, whatever this version ships under its name.

    Raises:
        PolicyError: the text is no policy, or not the one that the record names.
    """
    where = "the record's policy"
    policy, problems = _parse(where, declared.toml)
    if policy.name != declared.name:
        problems.append("has another name than the record says")
    if hashlib.sha256(declared.toml.encode()).hexdigest() != declared.sha256:
        problems.append("has another sha256 than the record says")
    if problems:
        raise PolicyError([f"{where} {problem}" for problem in problems], HINT)
    return _with_origin(policy, declared.toml, shipped=declared.shipped)


def _with_origin(policy: Policy, toml: str, *, shipped: bool) -> Policy:
    """Add to a policy where it comes from, and how it asks less than the shipped one."""
    looser = ""
    if not shipped:
        looser = _looser(policy)
    return replace(policy, origin=Origin(toml, shipped, looser))


def _parse(where: str, toml: str) -> tuple[Policy, list[str]]:
    """Return the policy of a text, and what no policy may say, each with its place.

    Raises:
        PolicyError: the text is no TOML, or its fields are not those of a policy.
    """
    try:
        policy = POLICY.validate_python(read_toml(toml.encode()))
    except ValidationError as error:
        problems = [
            f"{where} {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()
        ]
        raise PolicyError(problems, HINT) from None
    except ValueError as error:  # TOMLDecodeError, and a number of thousands of digits
        raise PolicyError(f"{where}: not TOML: {error}") from None
    return policy, list(_contradictions(policy))


def check_made(policy: Policy) -> Policy:
    """Check a policy that a program made or changed as `load` checks a file.

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
        problems.append(TEXTS["shipped_name"].format(name=policy.name, waived=""))
    if problems:
        raise PolicyError([f"policy {policy.name} {problem}" for problem in problems], HINT)
    return plain


def _contradictions(policy: Policy) -> Iterator[str]:
    """Yield what no policy may say, whatever attacks there are, each with its place."""
    yield from _name_problems(policy.name, shipped_policies())
    if policy.origin is not None:
        yield "origin: is written by docaudit, not by a policy"
    if not policy.limits:
        yield "limits: the policy has none, so no model could fail"
    first: dict[tuple[str, str, bool], int] = {}
    for index, limit in enumerate(policy.limits):
        if (limit.max is None) == (limit.min is None):
            yield f"limits.{index}: give either max or min"
        if limit.holds == "estimate" and limit.max is None:
            yield f"limits.{index}: holds: an estimate needs a max"
        before = first.setdefault((limit.attack, limit.metric, limit.max is None), index)
        if before != index:
            yield f"limits.{index}: limits.{before} already limits this metric: keep one of them"
    limited = {limit.attack for limit in policy.limits}
    for index, demand in enumerate(policy.demands):
        yield from (
            f"demands.{index}.any_of: no limit on {attack}"
            for attack in demand.any_of
            if attack not in limited
        )
    gated = {(limit.attack, limit.metric) for limit in policy.limits}
    for index, waiver in enumerate(policy.waivers):
        if (waiver.attack, waiver.metric) not in gated:
            yield f"waivers.{index}: no limit on {waiver.attack} {waiver.metric}"


def _name_problems(name: str, shipped: Collection[str]) -> Iterator[str]:
    """Say why a name is none, or reads like that of a shipped policy."""
    if not _NAME.fullmatch(name):
        yield f"name: “{printable(name[:LONGEST_NAME])}”: {TEXTS['name_rule'].format(longest=LONGEST_NAME)}"
    elif name not in shipped:
        alike = next((one for one in shipped if _folded(one) == _folded(name)), None)
        if alike is not None:
            yield f"name: {name!r} looks like {alike!r}, a policy of docaudit: choose another name"


def _folded(name: str) -> str:
    """Return a name as a hurried reader sees it: without case and punctuation, look-alike characters made equal."""
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
        """The name with what identifies the file, and whether it was declared before the scan."""
        kind = "shipped with docaudit, unchanged" if self.shipped else "the owner's own"
        digest = (
            "not read from a file"
            if self.sha256 is None
            else f"{kind}, SHA-256 {self.sha256[:PREFIX]}"
        )
        declared = (
            ", declared before the scan" if self.state == "declared" and not self.warning else ""
        )
        return f"{self.name} ({digest}{declared})"


def identify(record: AuditRecord, policy: Policy) -> PolicyIdentity:
    """Hold a policy against the one that a record declares, and say how it asks less than the shipped one."""
    identity = _identify(record, policy)
    if policy.origin is None:
        return identity
    return replace(identity, looser=policy.origin.looser)


def _looser(policy: Policy) -> str:
    """Say how an owner's own policy asks less than the shipped one; empty where it does not."""
    name = COMPARED
    if policy.forgets:
        name = "forget"
    shipped = load(name)
    clauses = [
        *_looser_limits(policy, shipped),
        *_lacking(policy, shipped),
        *_wider_gaps(policy, shipped),
    ]
    return "; ".join(clauses)


def _looser_limits(policy: Policy, shipped: Policy) -> Iterator[str]:
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


def _lacking(policy: Policy, shipped: Policy) -> Iterator[str]:
    """Name the shipped limits and demands that a policy does not have: without a limit anything is met."""
    limited = {(limit.attack, limit.metric) for limit in policy.limits}
    limits = [limit for limit in shipped.limits if (limit.attack, limit.metric) not in limited]
    demands = [demand for demand in shipped.demands if not _answers(policy, demand)]
    counts = [*_counted(len(limits), "limit"), *_counted(len(demands), "demand")]
    if counts:
        attacks = dict.fromkeys(limit.attack for limit in limits)
        names = [*attacks, *(demand.question for demand in demands)]
        yield TEXTS["lacking"].format(
            counts=" and ".join(counts), names=", ".join(names), shipped=shipped.name
        )


def _counted(count: int, noun: str) -> Iterator[str]:
    if count:
        yield f"{count} {noun}" + "s" * (count > 1)


def _answers(policy: Policy, demand: Demand) -> bool:
    """Test whether a policy demands the same, of the same attacks or of fewer."""
    return any(set(own.any_of) <= set(demand.any_of) for own in policy.demands)


def _wider_gaps(policy: Policy, shipped: Policy) -> Iterator[str]:
    """Name the gaps for tasks that the shipped policy does not do without."""
    permitted = {(gap.attack, task) for gap in shipped.gaps for task in gap.tasks}
    wider = []
    for gap in policy.gaps:
        tasks = [task for task in gap.tasks if (gap.attack, task) not in permitted]
        wider += [f"{gap.attack} of {task}" for task in tasks]
    if wider:
        yield TEXTS["wider_gaps"].format(names=", ".join(wider), shipped=shipped.name)


def _allows_more(own: Limit, other: Limit) -> bool:
    """Tell whether a limit has a larger maximum, or one that a larger share or floor makes so."""
    if own.max is None or other.max is None:
        return False
    shares = own.share or 1.0, other.share or 1.0
    floors = own.floor or 0.0, other.floor or 0.0
    return own.max > other.max or shares[0] > shares[1] or floors[0] > floors[1]


def _asks_less(own: Limit, other: Limit) -> bool:
    names = ("min_power", "min_coverage", "min_category_coverage")
    return (
        _allows_more(own, other)
        or any((getattr(own, name) or 0.0) < (getattr(other, name) or 0.0) for name in names)
        or (other.required and not own.required)
        or (own.holds == "estimate" != other.holds)
    )


def _identify(record: AuditRecord, policy: Policy) -> PolicyIdentity:
    origin, declared = policy.origin, record.policy
    sha256 = None if origin is None else origin.sha256
    shipped = origin is not None and origin.shipped
    if declared is None:
        warning = "the record declares no policy: this one may have been chosen after the results were known"
        return PolicyIdentity(policy.name, sha256, shipped, "undeclared", warning)
    if declared.sha256 != sha256:
        before = f"{declared.name} (SHA-256 {declared.sha256[:PREFIX]})"
        same = " of the same name" if declared.name == policy.name else ""
        warning = f"another policy{same} was declared before the scan: {before}"
        return PolicyIdentity(policy.name, sha256, shipped, "another", warning)
    return PolicyIdentity(policy.name, sha256, shipped, "declared", _late(record))


def _late(record: AuditRecord) -> str:
    """Say that outcomes are older than the declaration of the policy, or may be.

    Empty where none is.
    """
    timing = record.timing
    if timing.resumed and timing.oldest is None:
        return TEXTS["undated"].format(n=timing.resumed, started=timing.started[:10])
    if timing.oldest is None or timing.same_policy or timing.oldest >= timing.started:
        return ""
    return TEXTS["earlier"].format(oldest=timing.oldest[:10], started=timing.started[:10])
