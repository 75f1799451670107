"""What must be true of names, addresses and order in a file, beyond the form of each single value."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

from dogwatch.model.names import RESERVED_ROLES
from dogwatch.model.plan import SQLITE
from dogwatch.spec.problem import did_you_mean
from dogwatch.spec.schema import AGENTS_MAX, HARNESSES
from dogwatch.spec.source import Source
from dogwatch.spec.survey import DispatchEntry, RoleEntry, Spot, Survey
from dogwatch.spec.targets import is_target

RESERVED_PREFIX = "DOGWATCH_"


def apply(source: Source, found: Survey) -> None:
    """Reports everything that is against the rules."""
    _roles(source, found)
    _unique(source, "phase", ((name, (*place, "name")) for name, place, _ in found.phases))
    _unique(source, "dispatch", ((entry.name, (*entry.place, "name")) for entry in found.dispatches))
    _unique(source, "checkpoint", ((entry.name, (*entry.place, "name")) for entry in found.checkpoints))
    for phase in range(len(found.phases)):
        gates = [gate for gate in found.gates if gate.phase == phase]
        _unique(source, "gate", ((gate.name, (*gate.place, "name")) for gate in gates))
    for _, place, body in found.phases:
        if not any(body.get(key) for key in ("dispatches", "checkpoints", "gates")):
            source.report(place, "the phase has nothing to do", "give it dispatches, or remove it")
    _addresses(source, found)
    _afters(source, found)
    _reviewers(source, found)
    _gates(source, found)
    _partitions(source, found)
    _byte_checks(source, found)
    _notify(source, found)


def agents_of(found: Survey, name: str) -> tuple[str, ...]:
    """The agents that a role's or an agent's name means; none where it is unknown."""
    for role in found.roles:
        if name == role.name:
            return role.agents()
        if name in role.agents():
            return (name,)
    return ()


def _roles(source: Source, found: Survey) -> None:
    holders: dict[str, str] = {}
    for role in found.roles:
        if role.name in RESERVED_ROLES:
            message = f"the role name {role.name!r} is reserved for dogwatch's own processes"
            source.report(role.place, message, "choose another name", at_key=True)
        for agent in role.agents():
            if agent in holders:
                message = f"the roles {holders[agent]!r} and {role.name!r} both have an agent {agent!r}"
                source.report(role.place, message, "choose another name", at_key=True)
            holders.setdefault(agent, role.name)
        _environment(source, role)
        _harness(source, role)
    if len(holders) > AGENTS_MAX:
        message = f"the roles have {len(holders)} agents together; at most {AGENTS_MAX} are allowed"
        source.report(("roles",), message, "lower a `count`, or split the pipeline", at_key=True)


def _environment(source: Source, role: RoleEntry) -> None:
    names = role.body.get("environment")
    for name in names if isinstance(names, dict) else ():
        if name.startswith(RESERVED_PREFIX):
            message = f"environment variables that begin with {RESERVED_PREFIX} are reserved"
            source.report((*role.place, "environment", name), message, "choose another name", at_key=True)


def _harness(source: Source, role: RoleEntry) -> None:
    needs = {"scripted": "script", "command": "command"}
    harness = role.body.get("harness")
    if not isinstance(harness, str) or harness not in HARNESSES:
        return
    for other, key in needs.items():
        if other == harness and not role.body.get(key):
            message = f"a role with the harness {harness!r} needs {key!r}"
            source.report(role.place, message, f"add `{key}: ...` to the role {role.name!r}")
        # A real client may be started by another command than its own name.
        if other != harness and role.body.get(key) and (harness in needs or key != "command"):
            message = f"{key!r} has no meaning with the harness {harness!r}"
            source.report((*role.place, key), message, f"remove it, or say `harness: {other}`", at_key=True)


def _unique(source: Source, what: str, spots: Iterable[Spot]) -> None:
    first: dict[str, int] = {}
    for name, place in spots:
        if name and name in first:
            where = f", first in line {first[name]}" if first[name] else ""
            source.report(place, f"the {what} name {name!r} is given twice{where}", "rename one of them")
        first.setdefault(name, source.line(place))


def _addresses(source: Source, found: Survey) -> None:
    roles = {role.name: role for role in found.roles}
    agents = {agent for role in found.roles for agent in role.agents()}
    for entry in found.dispatches:
        place = (*entry.place, "to")
        role = roles.get(entry.target)
        if not entry.target:
            continue
        if entry.address == "one" and role is not None and role.count not in (None, 1):
            names = ", ".join(role.agents()[:4])
            hint = f"say `all {role.name}`, `any {role.name}`, or one of {names}"
            source.report(place, f"the role {role.name!r} has {role.count} holders", hint)
        elif " " in entry.target:
            message = f"{entry.target!r} is neither one name nor `all` or `any` and a role"
            source.report(place, message, "say `writer`, `auditor-2`, `all auditor` or `any auditor`")
        elif entry.address == "one" and entry.target not in agents:
            _unknown(source, place, "role or agent", entry.target, {*roles, *agents})
        elif entry.address != "one" and role is None and entry.target in agents:
            hint = f"say `to: {entry.target}`, or `{entry.address}` and a role"
            source.report(place, f"{entry.target!r} is one agent, not a role", hint)
        elif entry.address != "one" and role is None:
            _unknown(source, place, "role", entry.target, roles)


def _afters(source: Source, found: Survey) -> None:
    dispatches: dict[str, DispatchEntry] = {}
    for entry in found.dispatches:
        dispatches.setdefault(entry.name, entry)
    for entry in found.dispatches:
        _no_repeats(source, entry.after)
        for name, place in entry.after:
            other = dispatches.get(name)
            if other is None:
                _unknown(source, place, "dispatch", name, dispatches)
            elif other.phase > entry.phase:
                later = found.phases[other.phase][0]
                hint = f"move {name!r} into this phase, or {entry.name!r} into {later!r}"
                source.report(place, f"{name!r} comes only in the later phase {later!r}", hint)
            elif other is entry:
                source.report(place, f"{name!r} cannot come after itself", "remove it")
    for _, after in found.milestones:
        _no_repeats(source, after)
        for name, place in after:
            if name not in dispatches:
                _unknown(source, place, "dispatch", name, dispatches)


def _reviewers(source: Source, found: Survey) -> None:
    known = {name for role in found.roles for name in (role.name, *role.agents())}
    for checkpoint in found.checkpoints:
        seen: dict[str, str] = {}
        for name, place in checkpoint.reviewers:
            agents = agents_of(found, name)
            if not agents:
                _unknown(source, place, "role or agent", name, known)
            twice = next((agent for agent in agents if agent in seen), None)
            if twice:
                message = f"{twice!r} is named twice, as {seen[twice]!r} and as {name!r}"
                source.report(place, message, "keep one of them")
            seen.update(dict.fromkeys(agents, name))


def _gates(source: Source, found: Survey) -> None:
    for gate in found.gates:
        given = [key for key in ("command", "checks", "partitions") if gate.body.get(key)]
        if len(given) > 1:
            message = f"a gate has either {given[0]!r} or {given[1]!r}, not both"
            source.report((*gate.place, given[1]), message, "make two gates of it", at_key=True)
        if not given:
            message = "a gate needs 'command', 'checks' or 'partitions'"
            source.report(gate.place, message, "a gate without a check would let all pass")


def _partitions(source: Source, found: Survey) -> None:
    for place, body in found.partitions:
        database = body.get("database")
        if isinstance(database, str) and (problem := _database_problem(database)):
            source.report((*place, "database"), *problem)
        if "max_age_s" in body and not body.get("dated_by"):
            message, hint = "'max_age_s' needs 'dated_by'", "name the column that says when a row was made"
            source.report((*place, "max_age_s"), message, hint, at_key=True)


def _database_problem(database: str) -> tuple[str, str] | None:
    if database.startswith(SQLITE):
        return None if database != SQLITE else ("the database has no path", "write sqlite:data/market.db")
    try:
        url = urlsplit(database)
        secret = url.password is not None or "password" in parse_qs(url.query)
    except ValueError:
        return "the database is no URL", "write postgresql://USER@HOST/NAME"
    if url.scheme not in ("postgresql", "postgres"):
        return "the database is neither SQLite nor PostgreSQL", "write sqlite:PATH or postgresql://USER@HOST/NAME"
    return ("a password does not belong here", "leave it out; ~/.pgpass or PGPASSFILE is read") if secret else None


def _byte_checks(source: Source, found: Survey) -> None:
    for place, body in found.byte_checks:
        pattern = body.get("matches")
        problem = _regex_problem(pattern) if isinstance(pattern, str) else ""
        if problem:
            hint = "in single quotes, YAML leaves backslashes as they are"
            source.report((*place, "matches"), f"not a regular expression: {problem}", hint)
        least, most = body.get("min_bytes", 1), body.get("max_bytes")
        if isinstance(least, int) and isinstance(most, int) and least > most:
            source.report((*place, "max_bytes"), f"'max_bytes' is less than 'min_bytes', which is {least}")


def _notify(source: Source, found: Survey) -> None:
    seen: set[str] = set()
    for target, place in found.targets:
        # Neither message quotes the target: it may hold a secret.
        if target.strip() and not is_target(target):
            hint = "a target begins with its kind, such as mailto://, ntfy:// or json://"
            source.report(place, "this is no URL of a target", hint)
        elif target in seen:
            source.report(place, "this target is named twice", "keep one of them")
        seen.add(target)
    _no_repeats(source, found.notify_on)


def _regex_problem(pattern: str) -> str:
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return ""


def _no_repeats(source: Source, spots: tuple[Spot, ...]) -> None:
    seen: set[str] = set()
    for name, place in spots:
        if name in seen:
            source.report(place, f"{name!r} is named twice", "keep one of them")
        seen.add(name)


def _unknown(source: Source, place: tuple[str | int, ...], what: str, name: str, known: Iterable[str]) -> None:
    if not source.full:  # the search for near names takes its time
        source.report(place, f"there is no {what} {name!r}", did_you_mean(name, known))
