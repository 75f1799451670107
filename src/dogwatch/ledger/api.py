"""The ledger's interface: what any engine must offer. Its meaning is the contract suite in `tests/contract/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from dogwatch.model.moment import Moment
from dogwatch.model.redact import Redactor
from dogwatch.values import dataclass

T = TypeVar("T")
R = TypeVar("R", bound="Record")
Json = Mapping[str, Any]

START = ""
"""The cursor before the first event."""


class Clock(Protocol):
    """Whatever tells the time; `dogwatch.world.clock` has the real one."""

    def now(self) -> Moment:
        """The present moment."""


class Appendable(Protocol):
    """What can be recorded: an event of `dogwatch.model.events`, or anything else that has its parts."""

    @property
    def kind(self) -> str:
        """What happened, in the past tense."""

    @property
    def body(self) -> Json:
        """The facts."""

    @property
    def run(self) -> str:
        """The run that it is about; empty for none."""

    @property
    def agent(self) -> str:
        """The agent that it is about; empty for none."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One thing that happened. `cursor` is opaque: pass it to `since` to go on behind this event."""

    cursor: str
    kind: str
    body: Json
    at: Moment
    run: str
    agent: str
    op_id: str


@dataclass(frozen=True, slots=True)
class Document:
    """The current value under a key; `revision` grows by one with each change, beginning with 1."""

    key: str
    body: Json
    revision: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A slot of `name` held by `holder` until `expires`; `fence` grows with every grant of the name, for ever."""

    name: str
    holder: str
    slot: int
    fence: int
    renewed: Moment
    expires: Moment


@dataclass(frozen=True, slots=True)
class Item:
    """A thing in a queue. `state` is ready, claimed, acked or expired; `fence` is that of its latest claim.

    `expires` is when the present state ends by itself: a claimed item's claim, a ready item's own time (None: never).
    """

    queue: str
    id: str
    body: Json
    state: str
    holder: str
    fence: int
    deliveries: int
    pushed: Moment
    expires: Moment | None


class Record(Protocol):
    """A document as a value: a frozen dataclass that knows its key."""

    @property
    def key(self) -> str: ...


class Reader(Protocol):
    """What can be read, all of it as of one instant."""

    @property
    def host(self) -> str:
        """The host that this program runs on, among all that share the ledger."""

    def get(self, key: str) -> Document | None:
        """The document under `key`, or None."""

    def scan(self, prefix: str) -> Sequence[Document]:
        """All documents whose key begins with `prefix`, ordered by key."""

    def keys(self, prefix: str) -> Sequence[str]:
        """The keys of these documents, without reading what is in them."""

    def record(self, kind: type[T], key: str) -> T | None:
        """What the document under `key` says, as a value of `kind`, or None. Nobody may change it: another reader may
        be given the very same."""

    def records(self, kind: type[T], prefix: str) -> list[T]:
        """The same for all documents whose key begins with `prefix`, ordered by key."""

    def view(self, run: str, make: Callable[[], T]) -> T:
        """What `make` reads of a run. An engine may answer with what was made last while nothing of the run has
        changed since."""

    def leases(self, prefix: str) -> Sequence[Lease]:
        """All leases now held whose name begins with `prefix`, ordered by name and slot."""

    def items(self, queue: str) -> Sequence[Item]:
        """What stands in `queue`, ready or claimed, in the order of pushing. Claims past their time show as ready."""

    def queues(self, prefix: str) -> Sequence[str]:
        """The queues whose name begins with `prefix` and that something stands in, ordered by name; its time may be
        over since."""

    def recent(self, n: int, run: str = "", kinds: Sequence[str] = ()) -> Sequence[StoredEvent]:
        """The newest `n` events, oldest of them first; of `run` and of `kinds` only where these are given."""


class Tx(Reader, Protocol):
    """A transaction: all of it or nothing."""

    now: Moment

    def append(self, event: Appendable, op_id: str = "") -> bool:
        """Records an event. With an `op_id` that was used before, nothing happens and the answer is False."""

    def put(self, key: str, body: Json, revision: int | None = None) -> int:
        """Writes a document and returns its new revision. `revision` is the one it must have now (0: it must not
        exist; None: whatever it is); otherwise ConflictError."""

    def put_record(self, record: Record) -> None:
        """Writes a record as the document under its key."""

    def change_record(self, kind: type[R], key: str, fn: Callable[[R], R]) -> R | None:
        """Writes what `fn` makes of the record under `key`, and returns it; None where there is none. ConflictError
        where `fn` has written that document itself."""

    def delete(self, key: str, revision: int | None = None) -> None:
        """Removes a document, with the same condition. Removing what is not there is no error."""

    def acquire(self, name: str, holder: str, ttl_s: float, slots: int = 1) -> Lease | None:
        """A free slot of `name`, or None. Who holds one already gets it again, renewed, with the same fence."""

    def renew(self, lease: Lease, ttl_s: float) -> Lease:
        """The lease with a later end. StaleError where it has expired or somebody else has been granted its slot."""

    def check(self, lease: Lease) -> None:
        """StaleError unless this very grant still stands: the fence for whatever else the transaction writes."""

    def release(self, lease: Lease) -> None:
        """Gives the slot back; without effect where the grant no longer stands."""

    def push(self, queue: str, body: Json, item_id: str = "", *, ttl_s: float | None = None) -> str | None:
        """Puts an item into a queue and returns its id. With an `item_id` that the queue has seen before (acked ones
        too), nothing happens and the answer is None. After `ttl_s` unclaimed, the item is expired."""

    def claim(self, queue: str, holder: str, ttl_s: float, item_id: str = "") -> Item | None:
        """The first ready item (or the one named), now claimed by `holder` with a new fence, or None. A claim that is
        not acked within `ttl_s` makes the item ready again."""

    def extend(self, item: Item, ttl_s: float) -> Item:
        """The claim with a later end. StaleError where it no longer stands."""

    def ack(self, item: Item) -> None:
        """The item is done, for good. StaleError where the claim no longer stands."""

    def give_back(self, item: Item) -> None:
        """The claimed item is ready again at once. StaleError where the claim no longer stands."""


class Store(Protocol):
    """A ledger that is open."""

    @property
    def host(self) -> str:
        """The host that this program runs on, among all that share the ledger."""

    redactor: Redactor
    """What is taken out of events, items and most documents before they are kept: tokens by their shape, and values
    that whoever opened it knows to be secret."""

    def run(self, fn: Callable[[Tx], T]) -> T:
        """`fn` in one durable transaction, again from the start where another writer was in the way."""

    def read(self, fn: Callable[[Reader], T]) -> T:
        """`fn` on one snapshot; never waits for writers."""

    def since(self, cursor: str, n: int, run: str = "") -> Sequence[StoredEvent]:
        """Up to `n` events after `cursor`, in one order that never changes: that of the commits, or on a server that in
        which their transactions began to write. None is ever passed over."""

    def settled(self, run: str = "") -> bool:
        """Whether `since` tells everything that was committed (of the run) by now. On a server, an event is held back
        while an older transaction is open; `recent` shows it already."""

    def wait(self, timeout_s: float) -> bool:
        """Waits until somebody else has committed, or the time is over; True for a ring. A ring may be a false one,
        and the first one always is: what was committed before the bell was hung cannot have rung it."""

    def fileno(self) -> int:
        """The doorbell as a file descriptor for `selectors`: readable after a commit of any process, though not
        after the store's own, lest a loop that writes wakes itself for ever, nor after mere renewals.
        `wait(0)` empties it."""

    def integrity(self) -> Sequence[str]:
        """What the engine finds wrong with its own files, one line each."""

    def measures(self) -> Mapping[str, str | int]:
        """What the engine says of itself: `engine`, `bytes`, and more of its own."""

    def shrink(self) -> None:
        """Gives back the space of what was removed."""

    def close(self) -> None:
        """Lets go of everything. Closing twice is no error."""
