"""Brings queued messages to the agents, one at a time each: paste, Enter, and the client's own receipt.

How far the typing has come is on the ledger, so that a captain that takes over in between neither types twice nor
forgets to press Enter. A composer that holds somebody else's text is left alone. To an agent at work, mail goes with
its client's hooks, by the post box; so does, with only its header typed, what a composer would not take as it is.

A client whose hooks can guard it gets no work before its guard was seen to fire: the first message of each incarnation
is a canary, which the hook refuses, as it refuses a tool. The client then puts it back into its composer, from where it
is taken away: it never reaches a model.
"""

from __future__ import annotations

import errno
from functools import partial

from dogwatch.coordination.delivery import CANARY, deliver, give_up, note_step, retry, take_back
from dogwatch.coordination.mail import expire, send, text_of, typed_text
from dogwatch.crew.captain.helm import Helm
from dogwatch.harness import Harness, harness
from dogwatch.model.delivery import Step
from dogwatch.model.moment import Moment
from dogwatch.model.records import AgentRecord, MessageRecord
from dogwatch.model.sight import Sight
from dogwatch.model.view import RunView
from dogwatch.policy.diagnosis import Case, has_client
from dogwatch.policy.versions import is_in_checkpoint

ENTER = ("Enter",)
ENTER_AGAIN_S = 2.0
AT_THE_PROMPT = ("idle", "error")
"""An error that has ended the turn stands above a prompt that is free."""
REFUSED_S = 0.5
"""How long a client must do nothing after the canary."""
PROMPT_S = 10.0
"""How long a prompt must stand there to be believed against the hooks."""

FIRST_PROMPT_S = 1.0
"""The same for a client whose hooks are silent until its first prompt."""

MID_TURN = ("mail", "health_check")
"""What an agent may be told while it works on something else."""


def post(helm: Helm, view: RunView) -> bool:
    """Moves every agent's oldest waiting message on; True while any is being typed."""
    waiting = {}
    for agent in view.agents.values():
        message = _next(helm, view, agent) if agent.running else None
        if message is not None:
            waiting[agent.agent] = message
    if not waiting:
        return False
    sights = helm.world.eyes.look(view, list(waiting), screens=True)
    moving = [_advance(helm, view, message, sights[agent]) for agent, message in waiting.items()]
    for name, message in waiting.items():
        if message.step == "posted":
            _post_more(helm, view, name, sights[name])
    return any(moving)


def _next(helm: Helm, view: RunView, agent: AgentRecord) -> MessageRecord | None:
    """The message that is to be moved on: nothing goes before the canary."""
    queue = view.waiting_messages(agent.agent)
    if any(message.kind == "refresh" and not message.step for message in queue) and is_in_checkpoint(view, agent.agent):
        # It was queued before the checkpoint began: it waits for its end.
        queue = tuple(message for message in queue if message.kind != "refresh" or message.step)
    role = view.role_of(agent.agent)
    is_guarded = agent.running is not None and agent.running.guarded
    if role is None or not harness(role.harness).guards or is_guarded:
        return queue[0] if queue else None
    known = next((message for message in queue if message.kind == CANARY), None)
    return known or helm.record(lambda tx: send(tx, agent, CANARY, "guard", "", key="canary"))


def _advance(helm: Helm, view: RunView, message: MessageRecord, sight: Sight) -> bool:
    role = view.role_of(message.to)
    if role is None or sight.process != "alive":
        return False
    client = harness(role.harness)
    if message.id in sight.turn.receipts:
        if message.kind == CANARY and not _is_refused(client, message, sight, helm.now):
            if helm.now.mono - sight.turn.receipts[message.id] > view.plan.limits.receipt_s:
                helm.record(lambda tx: give_up(tx, view, message, "the canary was refused, and is still there"))
            elif _is_ours(client, message, sight) and _is_at_the_prompt(sight):
                helm.world.hands.press(view.agents[message.to], client.clear_keys)
            return True
        helm.record(lambda tx: deliver(tx, message))
        return True
    if not has_client(Case(view.agents[message.to], None, sight, view.limits_of(message.to), helm.now)):
        return False  # its screen is still there, and whatever reads the terminal now would take the text for its own
    if not message.step and _is_obsolete(view, message):
        helm.record(lambda tx: expire(tx, message))
        return True
    if not message.step and _may_type(client, sight, helm.now):
        return _paste(helm, view, message, client)
    if not message.step:
        if client.guards and message.kind in MID_TURN and sight.turn.state == "working":
            _put_in_box(helm, view, message)
        return False
    age = _age(helm.now, message)
    if message.step == "posted":
        return _wait_for_hook(helm, view, message, _may_type(client, sight, helm.now))
    if not client.hooks and message.step != "pasted":
        # A captain was killed in the middle, and nothing tells how far it came: at least once, for plain commands.
        helm.record(lambda tx: take_back(tx, message))
        return True
    if message.step in ("pasting", "pasted"):
        if _is_ours(client, message, sight):
            return age < client.enter_delay_s or _press_enter(helm, view, message, client)
        if age > view.plan.limits.receipt_s and _may_type(client, sight, helm.now):
            # As long as a client may need to draw a paste, none is repeated. One that never draws it does not read.
            if message.step == "pasted":
                helm.record(lambda tx: retry(tx, view, message))
            else:
                helm.record(lambda tx: take_back(tx, message))  # a captain was killed before it pasted
        return True
    if _is_ours(client, message, sight) and _is_at_the_prompt(sight) and age > ENTER_AGAIN_S:
        return _press_enter(helm, view, message, client)
    if age > view.plan.limits.receipt_s and _may_type(client, sight, helm.now):
        helm.record(lambda tx: retry(tx, view, message))
    return True


def _post_more(helm: Helm, view: RunView, agent: str, sight: Sight) -> None:
    """While one letter lies in the box, others may lie there too."""
    for message in view.waiting_messages(agent)[1:]:
        if message.id in sight.turn.receipts:
            helm.record(partial(deliver, message=message))
        elif not message.step and message.kind in MID_TURN and sight.turn.state == "working":
            _put_in_box(helm, view, message)


def _put_in_box(helm: Helm, view: RunView, message: MessageRecord) -> None:
    _step(helm, message, "posted")
    _box(helm, view.agents[message.to], message)


def _wait_for_hook(helm: Helm, view: RunView, message: MessageRecord, has_stopped: bool) -> bool:
    """The message lies in the post box. An agent that has stopped meanwhile is woken by typing; one that has read the
    message by itself need not be told."""
    if not has_stopped and message.state == "queued":
        return False
    if helm.world.hands.take_from_box(view.agents[message.to], message):
        helm.record(lambda tx: take_back(tx, message))
    elif _age(helm.now, message) > view.plan.limits.receipt_s:
        helm.record(lambda tx: retry(tx, view, message))
    return True


def _is_refused(client: Harness, message: MessageRecord, sight: Sight, now: Moment) -> bool:
    """Whether the client has obeyed the refusal: its composer is empty, and it does nothing."""
    quiet_s = now.mono - sight.turn.receipts[message.id]
    return _may_type(client, sight, now) and quiet_s >= REFUSED_S


def _is_obsolete(view: RunView, message: MessageRecord) -> bool:
    """A nudge that was overtaken: what it is about is finished, or was given out anew since."""
    if message.kind != "nudge":
        return False
    duty = view.duty_of(message.to)
    return (
        duty is None
        or duty.subject != message.subject
        or duty.delivered is None
        or message.queued.is_before(duty.delivered)
    )


def _may_type(client: Harness, sight: Sight, now: Moment) -> bool:
    """Only an idle, empty composer of a client that has said it is there. Where the hooks have not told of the turn's
    end, the prompt must have stood there for a while, and nothing else been heard."""
    if not client.hooks:
        return True
    if not _is_at_the_prompt(sight) or sight.composer != "":
        return False
    if sight.turn.state == "none":
        return not client.speaks_first and now.mono - sight.screen_since >= FIRST_PROMPT_S
    quiet_since = max(sight.turn.newest, sight.screen_since)
    return sight.turn.state == "idle" or now.mono - quiet_since >= PROMPT_S


def _is_at_the_prompt(sight: Sight) -> bool:
    """Whether the composer is free for a prompt; also while only sub-agents in the background are at work."""
    if sight.screen == "busy":
        return sight.turn.state == "idle" and bool(sight.turn.subagents)
    return sight.screen in AT_THE_PROMPT


def _is_ours(client: Harness, message: MessageRecord, sight: Sight) -> bool:
    """Whether the composer holds what was pasted: its header, or the client's abbreviation of a long paste."""
    if not client.hooks:
        return message.step == "pasted"
    if sight.composer is None:
        return False
    return message.id in sight.composer or (bool(client.pasted) and sight.composer.startswith(client.pasted))


def _paste(helm: Helm, view: RunView, message: MessageRecord, client: Harness) -> bool:
    _step(helm, message, "pasting")
    text, agent = typed_text(message), view.agents[message.to]
    changes = any(one in text for one in client.spoilt) or text != text_of(message).rstrip("\n")
    if client.guards and changes and _box(helm, agent, message):
        text = text.partition("\n")[0]
    if helm.world.hands.paste(agent, message, text):
        _step(helm, message, "pasted")
    return True


def _box(helm: Helm, agent: AgentRecord, message: MessageRecord) -> bool:
    """Whether the message lies in the post box now. The agent can write in there too: what it has spoiled is typed."""
    try:
        helm.world.hands.put_in_box(agent, message, text_of(message))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        helm.log.error("post_box_spoiled", agent=agent.agent, error=str(error))
        return False
    return True


def _press_enter(helm: Helm, view: RunView, message: MessageRecord, client: Harness) -> bool:
    _step(helm, message, "entering")
    if helm.world.hands.press(view.agents[message.to], ENTER):
        if client.hooks:
            _step(helm, message, "entered")
        else:
            helm.record(lambda tx: deliver(tx, message))
    return True


def _step(helm: Helm, message: MessageRecord, step: Step) -> None:
    helm.record(lambda tx: note_step(tx, message, step))


def _age(now: Moment, message: MessageRecord) -> float:
    return now.since(message.typing.at) if message.typing is not None else 0.0
