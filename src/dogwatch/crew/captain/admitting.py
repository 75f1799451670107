"""A captain at the gate: whatever it starts asks first. Who must wait is looked at again in every step."""

from __future__ import annotations

from dogwatch.coordination.admission import look
from dogwatch.coordination.agents import note_gate_reason
from dogwatch.coordination.launches import agent_launch
from dogwatch.crew.captain.helm import Helm
from dogwatch.ledger.api import Reader
from dogwatch.ledger.records import load
from dogwatch.model import keys
from dogwatch.model.admission import Launch, WaitRecord
from dogwatch.model.records import AgentRecord
from dogwatch.model.view import RunView
from dogwatch.policy.admission import gist


def must_wait(helm: Helm, launch: Launch) -> bool:
    """Whether the gate would let it wait on, as the ledger says already: then there is nothing to write."""

    def fn(reader: Reader) -> bool:
        waits = load(reader, WaitRecord, keys.wait(reader.host, launch.holder))
        if waits is None or waits.launch.needed != launch.needed:
            return False
        answer = look(reader, launch, helm.world.eyes.life, helm.now)
        return answer.verdict == "hold" and gist(answer) == gist(waits.answer)

    return helm.ledger.read(fn)


def waits_still(helm: Helm, view: RunView, agent: AgentRecord) -> bool:
    """The same as `must_wait` for an agent."""
    if not agent.gate_reason:
        return False
    return must_wait(helm, helm.ledger.read(lambda reader: agent_launch(reader, view, agent)))


def stop_waiting(helm: Helm, agent: AgentRecord) -> None:
    """The agent does not ask for now: it must keep nobody from the place that it waited for."""
    if agent.gate_reason:
        helm.record(lambda tx: note_gate_reason(tx, agent, ""))
