"""A run is recorded and rehearsed with the real client: the same bytes, without the model that it first had."""

from __future__ import annotations

import hashlib
from pathlib import Path

from realcli.lab import LIMITS, Lab, model, on
from support.fleet import Fleet
from support.helpers import wait_for

TEXT = "# Tides\n\nThey come twice a day; it's the moon's doing.\n"
LOOK = {"prompt": "Count the words.", "type": "general-purpose"}


def test_a_recorded_run_is_rehearsed_to_the_same_bytes(fleet: Fleet) -> None:
    lab = Lab(fleet, "claude")
    draft = f"{fleet.project}/out/t-1/draft.md"
    rules = (
        on("Count the words", {"shell": f'wc -w < {draft} > "$DOGWATCH_OUTPUT/words"'}, {"text": "I have counted."}),
        on(
            "dispatch draft",
            {"tool": {"name": "Write", "input": {"file_path": draft, "content": TEXT}}},
            {"shell": "tmux -L nobody kill-server"},
            {"agent": LOOK},
            {"shell": "dogwatch report done --task draft"},
            {"text": "It is written."},
        ),
        on("checkpoint review", {"shell": f"grep -q moon {draft} && dogwatch checkpoint approve review"}),
    )
    with model(*rules) as scripted:
        role = lab.role(scripted, permissions=["Bash", "Write"])
        phase = {
            "name": "draft",
            "dispatches": [{"name": "draft", "to": "writer", "task": "Write.", "outputs": ["draft.md", "words"]}],
            "checkpoints": [{"name": "review", "artifact": "draft.md", "reviewers": ["judge"]}],
        }
        text = {"roles": {"writer": role, "judge": role}, "phases": [phase], "deliverable": {"path": "draft.md"}}
        spec = fleet.spec({**text, "limits": LIMITS}, {})
        run = fleet.launch(spec)
        lab.deliver(run)
        asked = len(scripted.requests)
        beside = Path(str(spec).removesuffix(".yaml") + ".rehearsal.yaml")
        fleet.cli("record", run, "-o", str(beside))
        assert "DOGWATCH_OUTPUT" in beside.read_text()
        assert draft not in beside.read_text()
        again = fleet.launch(spec, "--rehearse")
        view = fleet.wait_over(again, 200)
        assert view.run.state == "COMPLETED", f"{view.run.cause}\n{fleet.tail()}"
        assert len(scripted.requests) == asked, "the rehearsal has asked the first model"
    assert view.run.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()
    assert (Path(view.run.output) / "words").read_text().split() == [str(len(TEXT.split()))]
    assert view.checkpoints["review"].state == "approved"
    denied = [event.run for event in fleet.events("guard_denied")]
    assert denied == [run], "what was denied is not played again"
    wait_for(lambda: not fleet.leftovers([run, again]), 60, lambda: str(fleet.leftovers([run, again])))
