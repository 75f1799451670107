"""Agents and messages of ledger version 2, which kept a life and a delivery as many optional fields, made into those of
version 3, where each is one value."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]

_OF_LIFE = frozenset(
    (
        *("state", "intended", "process", "pane", "confirmed", "not_before", "held", "resting", "cause", "successor"),
        *("nudges", "probed", "interrupts", "interrupted", "progress_percent", "guarded", "sandboxed"),
        *("stall", "stall_again"),
    )
)
_OF_DELIVERY = frozenset(("state", "step", "step_at", "delivered", "read", "acknowledged"))


def upgrade_agent(key: str, body: Body, host: str) -> tuple[str, Body] | None:
    """An agent's record with its life as one value."""
    if "life" in body:
        return None
    kept = {name: value for name, value in body.items() if name not in _OF_LIFE}
    has_started = any(body.get(name) for name in ("intended", "process", "server"))
    stall, again = body.get("stall"), body.get("stall_again")
    return key, {
        **kept,
        "life": _life(body),
        "busy": body["state"] == "BUSY",
        "host": host if has_started else "",
        "settled": {"stall": stall, "again": again} if stall and again else None,
    }


def _life(body: Body) -> Body:
    last = _running(body) if body.get("process") else None
    if body["state"] == "ERROR":
        cause, successor = body.get("cause", ""), body.get("successor", "")
        return {"kind": "given_up", "cause": cause, "successor": successor, "last": last, "dismissed": False}
    if body["state"] in ("HANDED_OFF", "SUCCEEDED"):
        return {"kind": "finished", "last": last}
    if last is not None:
        return last
    if body.get("intended"):
        return {"kind": "starting", "since": body["intended"]}
    held = body.get("held", "")
    if body.get("resting"):
        return {"kind": "resting", "reason": body["resting"], "gate_reason": held}
    return {"kind": "not_started", "not_before": body.get("not_before"), "gate_reason": held}


def _running(body: Body) -> Body:
    presses = body.get("interrupts")
    return {
        "kind": "running",
        "since": body.get("confirmed") or body["intended"],
        "process": body["process"],
        "pane": body.get("pane", ""),
        "sandboxed": body.get("sandboxed", False),
        "guarded": body.get("guarded", 0) == body["incarnation"],
        "nudges": body.get("nudges", 0),
        "probed": body.get("probed"),
        "interrupt": {"diagnosis": body.get("interrupted", ""), "presses": presses} if presses else None,
        "progress_percent": body.get("progress_percent"),
    }


def upgrade_message(key: str, body: Body, host: str) -> tuple[str, Body] | None:
    """A message's record with its delivery as one value."""
    if "delivery" in body:
        return None
    kept = {name: value for name, value in body.items() if name not in _OF_DELIVERY}
    step, at = body.get("step"), body.get("step_at") or body["queued"]
    return key, {**kept, "delivery": _delivery(body), "typing": {"step": step, "at": at} if step else None}


def _delivery(body: Body) -> Body:
    match body["state"]:
        case "delivered":
            return {"kind": "delivered", "at": body.get("delivered") or body["queued"]}
        case "read":
            return {"kind": "read", "at": body.get("read") or body["queued"], "delivered": body.get("delivered")}
        case "acknowledged":
            return {"kind": "acknowledged", "at": body.get("acknowledged") or body["queued"]}
        case "queued" | "expired":
            return {"kind": body["state"]}
        case other:
            raise ValueError(f"a message is in a state that does not exist: {other!r}")
