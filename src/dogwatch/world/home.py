"""Where everything lies: one folder for all state, DOGWATCH_HOME."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dogwatch.errors import UsageError
from dogwatch.values import dataclass

LEDGER_VARIABLE = "DOGWATCH_LEDGER"
"""Never passed on to agents and gates: it may hold a password."""
SOCKET_BYTES_MAX = 107
"""The kernel's limit for the path of a Unix socket, less its final zero."""
_LONGEST_NAME = "/runs/" + "r" * 40 + "/door"


@dataclass(frozen=True, slots=True)
class Home:
    """The paths below DOGWATCH_HOME."""

    path: str
    ledger_url: str = ""
    """The database server that keeps the ledger; empty where it is a file below this home."""

    @property
    def ledger(self) -> str:
        """What the ledger is opened by."""
        return self.ledger_url or self.ledger_file

    @property
    def ledger_file(self) -> str:
        return f"{self.path}/ledger.db"

    @property
    def has_ledger(self) -> bool:
        """Whether there is one to read; a server makes it when it is first asked."""
        return bool(self.ledger_url) or os.path.exists(self.ledger_file)

    @property
    def bells(self) -> str:
        return f"{self.path}/ledger.bells"

    @property
    def host(self) -> str:
        """The operator's settings of this host."""
        return f"{self.path}/host.yaml"

    @property
    def bin(self) -> str:
        return f"{self.path}/bin"

    def run(self, run: str) -> str:
        return f"{self.path}/runs/{run}"

    def door(self, run: str) -> str:
        return f"{self.run(run)}/door"

    @property
    def sockets(self) -> str:
        """The folder of all tmux servers' sockets, apart from the rest: agents must not see it."""
        return f"{self.path}/tmux"

    def tmux(self, run: str) -> str:
        return f"{self.sockets}/{run}"

    def registry(self, run: str) -> str:
        return f"{self.run(run)}/registry.jsonl"

    def hold(self, run: str) -> str:
        """There while the agents of the run may start no sub-agents; it says why."""
        return f"{self.run(run)}/hold"

    def spool(self, run: str, agent: str) -> str:
        return f"{self.run(run)}/spool/{agent}.spool"

    def agent(self, run: str, agent: str) -> str:
        """What the agent's client needs."""
        return f"{self.run(run)}/agents/{agent}"

    def post(self, run: str, agent: str) -> str:
        """Where messages wait for the agent's next hook."""
        return f"{self.agent(run, agent)}/post"

    def gate(self, run: str, phase: int, gate: str, attempt: int) -> str:
        return f"{self.run(run)}/gates/{phase}-{gate}-{attempt}"

    def check_in(self, run: str, item: str, attempt: int) -> str:
        return f"{self.run(run)}/checkins/{item}-{attempt}"

    @property
    def rehearsals(self) -> str:
        """Where rehearsals play: beside this home, because agents must not write in it."""
        return f"{self.path}-rehearsals"

    def model(self, run: str) -> str:
        """What is noted of a rehearsal's scripted model."""
        return f"{self.run(run)}/model"

    def beat(self, member: str, run: str = "") -> str:
        """The member's sign of life."""
        return f"{self.run(run)}/{member}.beat" if run else f"{self.path}/{member}.beat"

    def log(self, member: str, run: str = "") -> str:
        return f"{self.run(run)}/{member}.log" if run else f"{self.path}/{member}.log"


def find_home(environment: Mapping[str, str]) -> Home:
    """The home that the environment names, else the XDG state folder; it is not made here."""
    path = environment.get("DOGWATCH_HOME", "")
    if not path:
        state = environment.get("XDG_STATE_HOME", "")
        if not os.path.isabs(state):
            state = os.path.join(os.path.expanduser("~"), ".local", "state")
        path = os.path.join(state, "dogwatch")
    path = os.path.realpath(path)
    if len(os.fsencode(path + _LONGEST_NAME)) > SOCKET_BYTES_MAX:
        raise UsageError(
            f"DOGWATCH_HOME is too long for the sockets below it: {path}",
            hint=f"set DOGWATCH_HOME to a path of at most {SOCKET_BYTES_MAX - len(_LONGEST_NAME)} bytes",
        )
    url = environment.get(LEDGER_VARIABLE, "")
    if url and not url.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            f"{LEDGER_VARIABLE} names no database server",
            hint="postgresql://USER@HOST/DATABASE; without it the ledger is a file in DOGWATCH_HOME",
        )
    return Home(path, url)
