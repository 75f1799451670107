"""What a scripted agent does with a message unless its scenario says otherwise: it works, writes and reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dogwatch.model import brief
from dogwatch.testing.body import Body, Order
from dogwatch.testing.loop import Answer, Steps, Wait

TOOL_INTERVAL_S = 5.0
HEARTBEAT_S = 60.0


class TurnOver(Exception):  # noqa: N818 (it is the way out of a turn, not an error)
    """The turn ends here; `stop` says whether the client's Stop hook is run."""

    def __init__(self, *, stop: bool) -> None:
        super().__init__()
        self.stop = stop


@dataclass(frozen=True, slots=True)
class Message:
    """What a turn, or a part of it, is about."""

    kind: str
    id: str = ""
    subject: str = ""
    text: str = ""


class Program(Protocol):
    """What steps need of the program around them."""

    body: Body

    def default(self, message: Message) -> Steps[None]:
        """What the agent does without a rule."""

    def draw(self) -> None:
        """Brings the screen up to date."""

    def ask(self, lines: tuple[str, ...], keys: tuple[str, ...]) -> Answer:
        """Opens a dialog that only these keys answer."""

    def notify(self, agent_type: str) -> None:
        """A sub-agent has ended: the client tells the model so with a prompt of its own."""

    def leave(self, code: int, reason: str) -> None:
        """Ends the program in good order."""


def work(body: Body, seconds: float) -> Steps[None]:
    """Busy for `seconds` in all, with a tool call now and then, and a heartbeat for each minute."""
    left = seconds
    beaten = seconds
    while left > 0:
        if beaten - left >= HEARTBEAT_S:
            beaten = left
            yield from body.dogwatch("heartbeat", "--progress", f"{100 * (1 - left / seconds):.0f}")
        portion = min(left, max(0.2, min(TOOL_INTERVAL_S, seconds / 4)))
        left -= portion
        yield from body.tool("Read", {"file_path": f"notes-{round(left, 3)}.md"}, pause(portion))


def pause(seconds: float) -> Steps[None]:
    """Nothing but the passing of time."""
    yield Wait(seconds)


def write_outputs(body: Body, order: Order, wrong_path: str = "") -> Steps[None]:
    """The files that the order asks for, below `wrong_path` where that is given."""
    for path in order.files:
        done = yield from body.write(wrong_path + path, body.default_content(order.subject, path))
        if done and not wrong_path:
            order.written.add(path)


def dispatch(body: Body, order: Order) -> Steps[None]:
    """Works, writes the outputs, reports."""
    yield from work(body, body.scenario.work_s)
    yield from write_outputs(body, order)
    yield from body.report(order.subject, "done")
    body.say(f"{order.subject} is done.")


def checkpoint(body: Body, message: Message, note: str = "") -> Steps[None]:
    """Approves, or asks for a change where there is a note."""
    verdict = "revise" if note else "approve"
    more = ("--note", note) if note else ()
    result = yield from body.dogwatch("checkpoint", verdict, message.subject, *more)
    body.truth.did("checkpoint", name=message.subject, verdict=verdict, code=result.code if result else None)


def mail(body: Body, message: Message) -> Steps[None]:
    """Reads the mail and acknowledges all that it has read."""
    result = yield from body.dogwatch("mail", "read")
    text = result.out if result else ""
    body.truth.did("mail_read", id=message.id, code=result.code if result else None, out=text[:2000])
    for letter in brief.read_letters(text):
        result = yield from body.dogwatch("mail", "ack", letter)
        body.truth.did("mail_ack", id=letter, code=result.code if result else None)


def refresh(body: Body, message: Message) -> Steps[None]:
    """Reads the instructions that have changed, with its own tool."""
    path = brief.refreshed_file(message.text)
    yield from body.tool("Read", {"file_path": path}, pause(0.1))
    body.truth.did("read", path=path)


def resume(body: Body, subject: str) -> Steps[None]:
    """Goes on with the order named, or without a name with the oldest one that is unfinished."""
    if subject:
        order = body.orders.get(subject)
    else:
        order = next((order for order in body.orders.values() if not order.reported), None)
    if order is None:
        body.say("There is nothing left to do.")
    elif order.reported or (order.written and order.written.issuperset(order.files)):
        yield from body.report(order.subject, "done")
    else:
        yield from dispatch(body, order)
