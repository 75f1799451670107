"""What a verb is: something that an agent may ask for, whichever way in it takes.

A file of `door/verbs/` is one verb. It has a request, an answer, a handler and a help text, and ends with `VERB`. The
door, the agents' commands and the pages of the reference are made from that. An agent's command loads this file and its
verb's own: whatever a handler needs is imported by the handler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dogwatch.values import dataclass

if TYPE_CHECKING:
    from dogwatch.door.caller import Caller, Sight
    from dogwatch.ledger.api import Tx

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Seen = TypeVar("Seen")


class Argument:
    """What a field of a request means, where it stands in the command line, and how it is read at the door; the field's
    annotation carries it."""

    def __init__(
        self,
        help: str,  # noqa: A002
        *,
        flag: str = "",
        metavar: str = "",
        called: str = "",
        bytes_max: int = 0,
        between: tuple[float, float] | None = None,
        redacted: bool = False,
        from_stdin: bool = False,
        required: bool = False,
        convert: Callable[[str], Any] | None = None,
        read: Callable[[Mapping[str, Any]], Any] | None = None,
    ) -> None:
        self.help = help
        self.flag = flag
        """The option's name; without one the field is a word of its own, in the order of the fields."""
        self.metavar = metavar
        self.called = called
        """How an error names it, where the field's own name would not do."""
        self.bytes_max = bytes_max
        self.between = between
        """The least and the largest number."""
        self.redacted = redacted
        """Whether tokens are taken out: of whatever is for the ledger and for people."""
        self.from_stdin = from_stdin
        """Whether the command reads it from standard input where it is - or missing."""
        self.required = required
        """Whether the command insists on the option; the verb does so itself."""
        self.convert = convert
        """From the command's word to the field's value; raises UsageError."""
        self.read = read
        """Reads the value from the whole request, where its type does not say enough; raises what it is refused
        with."""


class CallId:
    """Marks the field that names the call: whatever is recorded of it is recorded once. The calling side makes it;
    the door puts `door:` before it, and so no call has the id of anything else that is recorded once."""


NOTE_BYTES_MAX = 16 * 1024


def note(help: str, *, required: bool = False) -> Argument:  # noqa: A002
    """What an agent adds in words. Unlike mail it is for the ledger and for people: tokens are taken out."""
    return Argument(help, flag="--note", called="a note", bytes_max=NOTE_BYTES_MAX, redacted=True, required=required)


def wire_name(field: str) -> str:
    """The field's name in JSON. One that would be a word of Python has an underscore behind it."""
    return field.removesuffix("_")


@dataclass(frozen=True, kw_only=True)
class Verb(Generic[Request, Answer, Seen]):
    """One verb. `look` runs before the transaction and sees the world; `handle` runs in it and sees what `look` saw."""

    line: str
    """What it does, in a few words, for lists."""
    words: str | None
    """The whole help text: the file's own docstring."""
    example: str
    request: type[Request]
    answer: type[Answer]
    handle: Callable[[Tx, Caller, Request, Seen], Answer]
    tell: Callable[[Request, Answer], str]
    """The answer in words, for a terminal; empty: nothing is printed."""
    look: Callable[[Sight, Request], Seen] | None = None
    printed: str = ""
    """The answer's field that `--json` prints; empty: the whole answer."""
    printed_help: str = ""
    """What `--json` prints, where the names of the answer's fields do not say it."""


class Registry(Protocol):
    """All verbs, for whoever lets agents in."""

    def names(self) -> Sequence[str]:
        """The name of each verb, in the order in which people read them."""

    def find(self, name: str) -> Verb[Any, Any, Any] | None:
        """The verb of that name, where there is one."""

    def load(self, name: str) -> Verb[Any, Any, Any]:
        """The verb of one of the names; no other is loaded."""
