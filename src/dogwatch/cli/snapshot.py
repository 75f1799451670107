"""What `dogwatch status` knows: runs, agents, tasks and crew as plain values, the stable shape of `status --json`.

    {"at":         {"boot", "mono", "wall"},
     "dispatcher": {"member", "pid", "alive", "heartbeat_age_s", "starts"} or null,
     "more":       how many ended runs were left out,
     "runs":       [{"run", "spec", "project", "output", "rehearsal", "state", "over", "cleared", "cause", "sha256",
                     "phase", "phase_number", "phases", "age_s", "ended_age_s",
                     "queued":      whether it waits to be let in, "waits_for": why, or "",
                     "progress":    {"accepted", "tasks", "milestones", "milestones_total"},
                     "refresh":     {"done", "agents"}: how many have the newest instructions, or null,
                     "held":        why nothing is done for now, or "",
                     "watch_age_s": how old the watchdog's view is, or null,
                     "waits":       [{"waiter", "target", "what", "age_s"}],
                     "agents":      [{"agent", "agent_id", "role", "state", "incarnation", "name", "session", "pid",
                                      "task", "progress_percent", "age_s", "restarts", "nudges", "cause",
                                      "waits_for":   what keeps it from being started, or why it rests, or "",
                                      "health", "stall_count", "replacement_count", "heartbeat_age_s",
                                      "task_update_age_s", "rings": of "namespace", "hook", "wrappers",
                                      "usage": {"calls", "input_tokens", "output_tokens", "cache_creation_tokens",
                                                "cache_read_tokens", "subagents": {the same five}, "models": {NAME:
                                                {the same five}}, "incarnation": {the same five, of it alone}},
                                      "errors": {TYPE: how often},
                                      "subagents": {TYPE: {"started", "ended", "lost", "overdue", "seconds"}},
                                      "overdue": [{"type", "id", "age_s", "limit_s", "mails", "called"}], the open ones,
                                      "instructions": {"version", "newest", "state": told, behind, asked, owes,
                                                       read or expired, "changes", "age_s", "held", "lapses"} or null,
                                      "denied": {"critical", "warning", "rules": {RULE: how often}},
                                      "diagnosis": {"kind", "age_s", "confidence", "source", "evidence", "quiet_s",
                                                    "tier", "action", "advice", "screen", "waits_for", "rss_bytes",
                                                    "context"} or null}],
                     "tasks":       [{"task", "phase", "state", "agent", "attempt", "attempts_max", "risk",
                                      "age_s", "expect_s", "rescued", "note", "sender": the agent that has given it,
                                      "claimed_at": a moment or null, "claim_expiry_seconds", "progress_percent"}],
                     "checkpoints": [{"checkpoint", "phase", "state", "round", "verdicts"}],
                     "gates":       [{"gate", "phase", "state", "attempt", "exit_code", "reason"}],
                     "crew":        [the same as dispatcher]}]}

Keys are only ever added. An age is null where its beginning is unknown. Documents are read as they are, because
decoding some thousand of them into records would be most of the time that `dogwatch status` takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dogwatch.coordination.ledgers import working_host
from dogwatch.guard.severity import CRITICAL, WARNING, severity
from dogwatch.ledger.api import Lease, Reader
from dogwatch.model import keys
from dogwatch.model.codec import decode
from dogwatch.model.folders import Folder
from dogwatch.model.lifecycle import RUN
from dogwatch.model.moment import Moment
from dogwatch.model.plan import Limits
from dogwatch.model.process import ProcessId
from dogwatch.model.records import agent_state, rings
from dogwatch.model.tally import Tally, TallyRecord, figures, total, usage
from dogwatch.policy.thresholds import claim_s
from dogwatch.world.processes import life

ENDED_SHOWN_MAX = 20

Body = Mapping[str, Any]
Leases = Mapping[str, Lease]
_LIFE = {"alive": True, "dead": False, "unknown": None}


def take(reader: Reader, runs: Sequence[str] | None, now: Moment, ended_max: int = ENDED_SHOWN_MAX) -> dict[str, Any]:
    """The named runs, in that order; for None, the unfinished ones and the `ended_max` that ended last.

    A name without a run is left out. Unfinished runs come first, and of each kind the newest.
    """
    leases = {held.name: held for member in ("captain", "dispatcher", "watchdog") for held in reader.leases(member)}
    found, more = _choose(reader, ended_max) if runs is None else ([reader.get(keys.run(run)) for run in runs], 0)
    dispatcher = reader.get(keys.dispatcher(working_host(reader)))
    reasons = reasons_to_wait(reader)
    return {
        "at": _plain(now),
        "dispatcher": _member(dispatcher.body, leases, now) if dispatcher else None,
        "more": more,
        "runs": [_run(reader, document.body, leases, reasons, now) for document in found if document is not None],
    }


def reasons_to_wait(reader: Reader) -> dict[str, str]:
    """Why each queued run is not let in yet, in the order of the queue. Runs of a group that has no place under its own
    ceiling are in nobody's way."""
    queue = sorted((document.body for document in reader.scan(keys.QUEUED)), key=lambda body: int(body["number"]))
    if not queue:
        return {}
    host = working_host(reader)
    told = {d.body["launch"]["run"]: d.body["answer"]["reason"] for d in reader.scan(keys.waits(host, "run"))}
    going = Counter(document.body["launch"].get("group", "") for document in reader.scan(keys.permits(host, "run")))
    found, before = {}, ""
    for body in queue:
        name, ceiling = str(body["run"]), int(body.get("ceiling", 0))
        if ceiling and going[body.get("group", "")] >= ceiling:
            found[name] = f"no more than {ceiling} of its group may run at once"
            continue
        reason = str(told.get(name, "")).removeprefix(f"{name} waits: ")
        found[name] = reason or (f"{before} is before it" if before else "it is the next one")
        before = name
    return found


def shown_state(run: Mapping[str, Any]) -> str:
    """The state for people: a run of the snapshot that was not let in yet is QUEUED."""
    return "QUEUED" if run["queued"] else str(run["state"])


def _choose(reader: Reader, ended_max: int) -> tuple[list[Any], int]:
    """The runs to show and how many are left out. Only these are read, however many have ended over the years."""
    names = [document.key.removeprefix(keys.ACTIVE) for document in reader.scan(keys.ACTIVE)]
    unfinished = [reader.get(keys.run(name)) for name in names]
    unfinished.sort(key=lambda document: document.body["created"]["wall"] if document else 0.0, reverse=True)
    total = sum(int(document.body["last"]) for document in reader.scan(keys.COUNTERS))
    ended = max(0, total - len(names))
    latest = reader.recent(min(total, ended_max + len(names)), kinds=["run_ended"])
    shown = [event.run for event in reversed(latest) if event.run not in names][:ended_max]
    return [*unfinished, *(reader.get(keys.run(name)) for name in shown)], max(0, ended - len(shown))


def _run(reader: Reader, body: Body, leases: Leases, reasons: Mapping[str, str], now: Moment) -> dict[str, Any]:
    run = str(body["run"])
    is_queued = run in reasons and body["state"] not in RUN.ends
    document = reader.get(keys.plan(run))
    plan: Body = document.body if document else {"phases": [], "roles": []}
    phases, number = plan["phases"], int(body["phase"])
    until = _moment(body.get("ended")) or now
    order = {dispatch["name"]: n for n, dispatch in enumerate(d for p in phases for d in p.get("dispatches", ()))}
    tasks = sorted((d.body for d in reader.scan(keys.tasks(run))), key=lambda t: order.get(t["dispatch"], len(order)))
    checkpoints = [d.body for d in reader.scan(keys.checkpoints(run))]
    watched = None if body.get("cleared") else reader.get(keys.watch(run))
    watch: Body = watched.body if watched else {}
    crew = () if body.get("cleared") else reader.scan(keys.crews(run))
    readings = _readings(reader, run, plan, until)
    agents = [
        {**agent, "instructions": readings.get((agent["agent"], agent["incarnation"]))}
        for agent in _agents(reader, run, plan, tasks, checkpoints, watch.get("agents", {}), until)
    ]
    expiry_s = _claims(plan, {agent["agent"]: agent["role"] for agent in agents})
    claimed = {task["agent"]: task["task"] for task in tasks if task["state"] == "claimed"}
    done = {claimed[a["agent"]]: a["progress_percent"] for a in agents if a["agent"] in claimed}
    return {
        "run": run,
        "spec": body["spec"],
        "project": decode(Folder, body["project_folder"]).absolute,
        "output": decode(Folder, body["output_folder"]).absolute,
        "rehearsal": bool(body.get("stage")),
        "state": body["state"],
        "over": body["state"] in RUN.ends,
        "cleared": bool(body.get("cleared")),
        "cause": body.get("cause", ""),
        "sha256": body.get("sha256", ""),
        "phase": phases[number]["name"] if number < len(phases) else "",
        "phase_number": min(number + 1, len(phases)),
        "phases": len(phases),
        "age_s": _age(until, body.get("admitted") or body["created"]),
        "ended_age_s": _age(now, body.get("ended")),
        "queued": is_queued,
        "waits_for": reasons[run] if is_queued else "",
        "progress": _progress(reader, run, plan, tasks),
        "refresh": _refresh(agents),
        "held": watch.get("held", ""),
        "watch_age_s": _age(now, watch.get("at")),
        "waits": [dict(wait) for wait in watch.get("waits", ())],
        "agents": agents,
        "tasks": [
            {**_task(task, until), "claim_expiry_seconds": expiry_s(task), "progress_percent": done.get(task["task"])}
            for task in tasks
        ],
        "checkpoints": [_checkpoint(checkpoint) for checkpoint in checkpoints],
        "gates": [_gate(d.body) for d in reader.scan(keys.gates(run))],
        "crew": [_member(d.body, leases, now) for d in crew],
    }


def _readings(reader: Reader, run: str, plan: Body, until: Moment) -> dict[tuple[str, int], dict[str, Any]]:
    """Which version of its instructions each incarnation has."""
    if not any(role.get("instructions") for role in plan["roles"]):
        return {}
    newest = {d.body["role"]: d.body for d in reader.scan(keys.all_instructions(run))}
    found = {}
    for document in reader.scan(keys.readings(run)):
        body = document.body
        found[body["agent"], body["incarnation"]] = {
            "version": body["version"],
            "newest": newest[body["role"]]["version"],
            "changes": newest[body["role"]]["changes"],
            "state": body["state"] if body["digest"] == newest[body["role"]]["digest"] else "behind",
            "age_s": _age(until, body["since"]),
            "held": body["held"] is not None,
            "lapses": body["lapses"],
        }
    return found


def _refresh(agents: Sequence[Body]) -> dict[str, int] | None:
    """How far a change of instructions has come."""
    found = [agent["instructions"] for agent in agents if agent["instructions"] and agent["state"] != "ERROR"]
    asked = [one for one in found if one["changes"]]
    done = sum(one["state"] not in ("behind", "asked", "owes") for one in asked)
    return {"done": done, "agents": len(asked)} if asked else None


def _progress(reader: Reader, run: str, plan: Body, tasks: list[Body]) -> dict[str, Any]:
    counts = {role["name"]: int(role.get("count", 1)) for role in plan["roles"]}
    expected = 0
    for phase in plan["phases"]:
        for dispatch in phase.get("dispatches", ()):
            expected += counts.get(dispatch["to"], 1) if dispatch.get("address") == "all" else 1
    milestones = plan.get("milestones", ())
    reached = reader.recent(len(milestones), run, ["milestone_reached"]) if milestones else ()
    return {
        "accepted": sum(task["state"] == "accepted" for task in tasks),
        "tasks": expected + sum(bool(task.get("sender")) for task in tasks),
        "milestones": [event.body["milestone"] for event in reached],
        "milestones_total": len(milestones),
    }


def _agents(
    reader: Reader, run: str, plan: Body, tasks: list[Body], checkpoints: list[Body], watch: Body, until: Moment
) -> list[dict[str, Any]]:
    """The agents in the order of the pipeline file, each with what it owes now."""
    found = {d.body["agent"]: d.body for d in reader.scan(keys.agents(run))}
    owed = {task["agent"]: task["task"] for task in tasks if task["state"] == "claimed"}
    changes: dict[str, list[Body | None]] = {agent: [] for agent in found}
    for task in tasks:
        changes.setdefault(task["agent"], []).extend((task.get("dispatched"), task.get("finished")))
    for reviewer, (checkpoint, at) in _asked(reader, run, checkpoints).items():
        owed.setdefault(reviewer, checkpoint)
        changes.setdefault(reviewer, []).append(at)
    tallies = {d.body["agent"]: d.body for d in reader.scan(keys.tallies(run))}
    late = [d.body for d in reader.scan(keys.overdue_subagents(run))]
    order = {role["name"]: number for number, role in enumerate(plan["roles"])}
    agents = sorted(found.values(), key=lambda a: (order.get(a["role"], len(order)), len(a["agent"]), a["agent"]))
    return [
        {
            **_agent(one, owed.get(one["agent"], ""), changes[one["agent"]], watch.get(one["agent"]), until),
            **_counts(tallies.get(one["agent"]), str(one["incarnation"])),
            **_subagents(tallies.get(one["agent"]), [body for body in late if body["agent"] == one["agent"]], until),
        }
        for one in agents
    ]


def _agent(body: Body, task: str, changes: list[Body | None], seen: Body | None, until: Moment) -> dict[str, Any]:
    """`age_s` counts from the latest thing that changed what the agent is doing."""
    name = body["agent"]
    life = body["life"]
    last = life.get("last") or life
    process = None if life.get("dismissed") else last.get("process")
    ages = (_age(until, change) for change in (last.get("since"), *changes))
    return {
        "agent": name,
        "agent_id": f"{name}@{body['run']}",
        "role": body["role"],
        "state": agent_state(life["kind"], busy=body.get("busy", False)),
        "incarnation": body["incarnation"],
        "name": body["name"],
        "session": f"{body['run']}-{name}",
        "pid": process["pid"] if process else None,
        "task": task,
        "progress_percent": last.get("progress_percent"),
        "age_s": min((age for age in ages if age is not None), default=None),
        "restarts": len(body.get("restarts", ())),
        "nudges": last.get("nudges", 0),
        "cause": life.get("cause", ""),
        "waits_for": _waits_for(life),
        "health": body.get("health", "healthy"),
        "stall_count": body.get("stall_count", 0),
        "replacement_count": body.get("replacement_count", 0),
        "heartbeat_age_s": _heard(body, seen, until),
        "task_update_age_s": _age(until, body.get("last_task_update")),
        "rings": list(rings(sandboxed=last.get("sandboxed", False), guarded=last.get("guarded", False)))
        if process
        else [],
        "diagnosis": _diagnosis(seen, until) if seen else None,
    }


def _waits_for(life: Body) -> str:
    if life.get("gate_reason"):
        return f"waits: {life['gate_reason']}"
    return f"rests until it is needed: {life['reason']}" if life["kind"] == "resting" else ""


def _counts(body: Body | None, incarnation: str) -> dict[str, Any]:
    """What was counted of the agent, over all its incarnations."""
    record = decode(TallyRecord, body) if body else TallyRecord(run="", agent="")
    tally = record.sum
    now = figures(total(record.incarnations.get(incarnation, Tally()).models))
    levels = Counter({CRITICAL: 0, WARNING: 0})
    for rule, count in tally.denied.items():
        levels[severity(rule)] += count
    return {
        "usage": {**usage(tally), "incarnation": now},
        "errors": dict(tally.errors),
        "denied": {**levels, "rules": dict(tally.denied)},
    }


def _subagents(tally: Body | None, late: list[Body], until: Moment) -> dict[str, Any]:
    """The agent's sub-agents by type, over all its incarnations, and those that are overdue and not settled."""
    kinds: dict[str, dict[str, Any]] = {}
    for incarnation in tally["incarnations"].values() if tally else ():
        for kind, lives in incarnation.get("lives", {}).items():
            known = kinds.setdefault(kind, {"started": 0, "ended": 0, "lost": 0, "overdue": 0, "seconds": 0.0})
            for name, count in lives.items():
                known[name] = round(known[name] + count, 3)
    for body in late:
        if body["type"] in kinds:
            kinds[body["type"]]["overdue"] += 1
    still_open = [
        {
            **{name: body.get(name) for name in ("type", "id", "limit_s", "mails", "called")},
            "age_s": round((_age(until, body["opened"]) or 0.0) + body["ran_s"], 3),
        }
        for body in late
        if not body.get("settled")
    ]
    return {"subagents": kinds, "overdue": still_open}


def _heard(body: Body, seen: Body | None, until: Moment) -> float | None:
    """How long ago there was the last sign of life: of the agent's own, or a hook of its client."""
    ages = [_age(until, body.get("last_heartbeat"))]
    if seen and seen.get("heard") and seen["since"]["boot"] == until.boot:
        ages.append(round(max(0.0, until.mono - seen["heard"]), 3))
    return min((age for age in ages if age is not None), default=None)


def _diagnosis(seen: Body, until: Moment) -> dict[str, Any]:
    """What the watchdog makes of the agent."""
    names = "kind confidence source quiet_s tier action advice screen waits_for rss_bytes context"
    told = {name: seen.get(name) for name in names.split()}
    return {**told, "age_s": _age(until, seen.get("since")), "evidence": list(seen.get("evidence", ()))}


def _asked(reader: Reader, run: str, checkpoints: list[Body]) -> dict[str, tuple[str, Body]]:
    """The reviewers that owe a verdict: of which checkpoint, and since when."""
    open_ones = {c["checkpoint"]: c for c in checkpoints if c["state"] == "asked"}
    if not open_ones:
        return {}
    found: dict[str, tuple[str, Body]] = {}
    for event in reader.recent(len(checkpoints), run, ["checkpoint_asked"]):
        checkpoint = open_ones.get(event.body["checkpoint"])
        if checkpoint is None or checkpoint["round"] != event.body["round"]:
            continue
        for reviewer in event.body["reviewers"]:
            verdict = checkpoint["verdicts"].get(reviewer)
            if verdict is None or verdict["round"] != checkpoint["round"]:
                found[reviewer] = (checkpoint["checkpoint"], _plain(event.at))
    return found


def _task(body: Body, until: Moment) -> dict[str, Any]:
    """`age_s` is how long it has been worked on, or took."""
    end = _moment(body.get("finished")) if body["state"] in ("accepted", "failed") else until
    is_claimed = body["agent"] and body["state"] not in ("pending", "returned")
    return {
        "task": body["task"],
        "phase": body["phase"] + 1,
        "state": body["state"],
        "agent": body["agent"],
        "attempt": body["attempt"],
        "attempts_max": body["attempts_max"],
        "risk": body["risk"],
        "age_s": _age(end, body.get("dispatched")) if end else None,
        "expect_s": body["expect_s"],
        "rescued": body.get("rescued", False),
        "note": body.get("note", ""),
        "sender": body.get("sender", ""),
        "claimed_at": body.get("dispatched") if is_claimed else None,
    }


def _claims(plan: Body, role_of: Mapping[str, str]) -> Callable[[Body], float]:
    """How long the claim of a task stands without a sign of life: by the limits of its dispatch, of its holder's role,
    or of the pipeline."""
    general = decode(Limits, plan.get("limits", {}))
    by_role = {role["name"]: role.get("limits") or {} for role in plan["roles"]}
    by_dispatch = {d["name"]: d.get("limits") or {} for phase in plan["phases"] for d in phase.get("dispatches", ())}

    def expiry_s(task: Body) -> float:
        role = role_of.get(task["agent"] or task["holders"][0], "")
        own = {**by_role.get(role, {}), **by_dispatch.get(task["dispatch"], {})}
        return claim_s(task["risk"], replace(general, **own) if own else general)

    return expiry_s


def _checkpoint(body: Body) -> dict[str, Any]:
    return {
        "checkpoint": body["checkpoint"],
        "phase": body["phase"] + 1,
        "state": body["state"],
        "round": body["round"],
        "verdicts": {agent: dict(verdict) for agent, verdict in body["verdicts"].items()},
    }


def _gate(body: Body) -> dict[str, Any]:
    kept = {name: body.get(name) for name in ("gate", "state", "attempt", "exit_code", "reason")}
    return {**kept, "phase": body["phase"] + 1}


def _member(body: Body, leases: Leases, now: Moment) -> dict[str, Any]:
    """A crew member; no heartbeat where it holds no lease."""
    held = leases.get(keys.place(body["member"], body["run"] or body["host"]))
    return {
        "member": body["member"],
        "pid": body["process"]["pid"],
        "alive": _LIFE[life(ProcessId(**body["process"]), now.boot)],
        "heartbeat_age_s": round(now.since(held.renewed), 3) if held else None,
        "starts": body.get("starts", 1),
    }


def _moment(value: Body | None) -> Moment | None:
    return Moment(value["boot"], value["mono"], value["wall"]) if value else None


def _age(now: Moment, value: Body | None) -> float | None:
    earlier = _moment(value)
    return round(now.since(earlier), 3) if earlier else None


def _plain(moment: Moment) -> dict[str, Any]:
    return {"boot": moment.boot, "mono": moment.mono, "wall": moment.wall}
