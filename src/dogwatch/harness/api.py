"""What dogwatch asks of every agent CLI: the adapter (`Harness`), and the values that go in and out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from dogwatch.model.plan import Role
from dogwatch.model.process import ProcessId
from dogwatch.model.tally import Failure, ModelCall, Refusal
from dogwatch.values import dataclass

State = Literal["idle", "busy", "permission", "error", "retry", "shell", "starting", "dialog", "unknown"]
"""`permission` asks whether a tool may run; `dialog` is any other question that stands where the prompt should be."""


@dataclass(frozen=True, slots=True)
class Screen:
    """What the live region of a pane shows. `composer` is its text, "" when empty, None where none is seen."""

    state: State
    composer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What an agent is started with. `python` is the interpreter that dogwatch runs on and `hook` the fast hook;
    `folder` is the agent's own, for the files that its client needs; `conversation` names what was said between the
    client and its model: the same as before, where an incarnation is to go on with it. `spool` is what the hooks of all
    its incarnations have told; `sandboxed` is whether it lives in a namespace of its own."""

    role: Role
    python: str
    hook: str
    folder: str
    conversation: str
    marks: Mapping[str, str] = field(default_factory=dict)
    spool: str = ""
    sandboxed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a client is started: the program with its arguments, more variables, and files to be written before. In a
    sandbox it finds the folders in `hidden` empty, and leaves nothing in them. `kept` are folders of the agent's own in
    which it may write there, but for the files above; `links` lead from there to what is the user's."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What makes a client talk to nobody but a scripted model: variables, and the files of a home of its own.
    `permissions` are the rules of a role with which it runs commands without asking, in its own notation."""

    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    permissions: tuple[str, ...] = ()


class Harness(Protocol):
    """The adapter for one agent CLI."""

    @property
    def name(self) -> str:
        """What a role's `harness` calls it."""

    @property
    def version(self) -> str:
        """The client's version that this was tested with; empty where there is none."""

    @property
    def package(self) -> str:
        """The client's package on npm; empty where it is none of npm's."""

    @property
    def enter_delay_s(self) -> float:
        """The pause that the client needs between a paste and Enter."""

    @property
    def pasted(self) -> str:
        """How the client's abbreviation of a long paste begins; empty where it never abbreviates."""

    @property
    def spoilt(self) -> str:
        """The characters that its composer would change or act upon: what has one of them goes with a hook."""

    @property
    def clear_keys(self) -> tuple[str, ...]:
        """The keys, by tmux's names, that take away the one line in the composer, wherever its cursor is."""

    @property
    def interrupt_keys(self) -> tuple[str, ...]:
        """The keys that end the turn that is open."""

    @property
    def hooks(self) -> bool:
        """Whether the client writes a spool."""

    @property
    def guards(self) -> bool:
        """Whether its hooks can keep it from running a tool: then this is proven before it gets work, and messages can
        go with its hooks."""

    @property
    def speaks_first(self) -> bool:
        """Whether its hooks tell of its start; those of some clients are silent until the first prompt."""

    @property
    def sandbox(self) -> str:
        """What stands for a role's `sandbox` that is not given: auto or off."""

    @property
    def variables(self) -> tuple[str, ...]:
        """What its client needs of the operator's environment: names, `PREFIX_*`, or either with ` if NAME` for what it
        needs only where NAME is set."""

    def start(self, launch: Launch) -> Start:
        """How an agent is started."""

    def rehearsal(self, home: str, project: str, url: str) -> Rehearsal:
        """How the client is made to talk to the scripted model at `url` alone, with a dummy key. All files lie below
        `home`, a new folder that is its HOME; in it the first questions are answered and the project is trusted."""

    def check_in(self, launch: Launch, question: str) -> Start | None:
        """How a second client is started that has the agent's conversation so far, may only read, prints its answer to
        the question and ends, without a trace in the agent's own conversation and spool. No files are written for it.
        None where the client has no conversation that could be asked."""

    def context(self, tail: bytes) -> float | None:
        """The used share of the context, from the end of the client's transcript; None where it does not say."""

    def ending(self, tail: bytes) -> tuple[float, Failure] | None:
        """The error that has ended the latest turn, with its wall time, from the end of the client's transcript; None
        where the turn goes on or has ended otherwise, and for clients whose hooks tell of it."""

    def read(self, lines: Sequence[str], title: str = "") -> Screen:
        """What the screen means; a screen that is not understood is `unknown`."""

    def failure(self, event: str, payload: Mapping[str, Any]) -> Failure | None:
        """The error that a hook event tells of; None where it tells of none."""

    def transcripts(self, path: str) -> Sequence[str]:
        """The files that tell of model calls, where `path` is the client's own file of its conversation."""

    def entry(self, line: bytes) -> ModelCall | Refusal | None:
        """What a line of such a file tells of."""

    def told_state(self, role: Role, processes: Sequence[ProcessId]) -> State:
        """What the client itself says that it is doing, in a file of its own; `processes` are those of the agent."""
