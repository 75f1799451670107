"""The world of the overnight experiment in numbers, each with the public figure that it was taken from, or `assumed`.

They were fixed on what is known of the two earlier nights, before dogwatch's own admission was ever simulated with
them; docs/evaluation.md tells what was calibrated on what, and how much the result depends on each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of the world: `source` is a public figure, or begins with `assumed` or `calibrated`."""

    name: str
    value: float
    unit: str
    source: str


PARAMETERS = (
    Parameter("machine_gb", 223, "GB", "figure: a 223 GB machine"),
    Parameter("base_gb", 57, "GB", "figure: 57 GB in use before the start (74 % available)"),
    Parameter("foreign_processes", 10, "processes", "figure: 10 agent processes before the start"),
    Parameter("agent_gb", 2.1, "GB", "figure: about 2.1 GB a process"),
    Parameter("agent_spread", 0.15, "share of the mean", "assumed: how much agents differ (standard deviation)"),
    Parameter("agent_growth", 0.10, "share", "assumed: how much an agent grows over its first hour at work"),
    Parameter("subagent_gb", 2.1, "GB", "figure: about 2.1 GB a process, sub-agents being processes like any other"),
    Parameter("run_min_minutes", 117, "min", "figure: runs of 117 to 214 min"),
    Parameter("run_max_minutes", 214, "min", "figure: runs of 117 to 214 min"),
    Parameter("run_mean_minutes", 147, "min", "figure: 147 min on average"),
    Parameter(
        "run_width", 1.8, "", "assumed: how close to the mean most runs are (the sum of a beta distribution's two)"
    ),
    Parameter("share_research", 0.20, "of a run", "assumed"),
    Parameter("share_analysis", 0.15, "of a run", "assumed"),
    Parameter("share_drafting", 0.20, "of a run", "assumed"),
    Parameter("share_review", 0.30, "of a run", "calibrated on (b): 37 % YELLOW, 2 % RED"),
    Parameter("share_revision", 0.10, "of a run", "assumed"),
    Parameter("share_delivery", 0.05, "of a run", "assumed"),
    Parameter("share_varies", 0.20, "share", "assumed: how much each phase's share varies from run to run"),
    Parameter("early", 0.60, "of a phase", "assumed: when the first of a role's agents may be done with its task"),
    Parameter("helpers_min", 3, "sub-agents", "calibrated on (b): 37 % YELLOW; of all writers of a run, in drafting"),
    Parameter("helpers_max", 5, "sub-agents", "calibrated on (b): 37 % YELLOW; of all writers of a run, in drafting"),
    Parameter(
        "checkers_min", 6, "sub-agents", "calibrated on (b): 2 % RED, 11 kills; of all reviewers of a run, in review"
    ),
    Parameter(
        "checkers_max", 10, "sub-agents", "calibrated on (b): 2 % RED, 11 kills; of all reviewers of a run, in review"
    ),
    Parameter("subagent_early", 0.60, "of its task", "assumed: when the first sub-agent may have ended"),
    Parameter("spike_gb", 17, "GB", "figure: one spike of 17 GB in 2 min"),
    Parameter("spike_rise_s", 120, "s", "figure: one spike of 17 GB in 2 min"),
    Parameter("spike_lasts_s", 600, "s", "assumed"),
    Parameter("spike_processes", 8, "processes", "assumed: none of them is large enough to be noticed by itself"),
    Parameter("return_s", 120, "s", "assumed: what an agent that was reclaimed needs to read itself in again"),
    Parameter("stagger_s", 60, "s", "figure: 74 to 36 % within 4 min; (a) starts its pipelines one by one"),
    Parameter("parallel_a", 4, "runs", "figure: (a) 4 at once"),
    Parameter("parallel_b", 2, "runs", "figure: (b) 2 at once"),
    Parameter("rounds", 3, "", "assumed: the 12 runs are 4 pipelines, three times each"),
)

TEAMS: Mapping[str, Mapping[str, int]] = {
    "t8": {"lead": 1, "researcher": 2, "analyst": 1, "writer": 2, "reviewer": 1, "editor": 1},
    "t10": {"lead": 1, "researcher": 3, "analyst": 1, "writer": 2, "reviewer": 2, "editor": 1},
    "t11": {"lead": 1, "researcher": 3, "analyst": 2, "writer": 2, "reviewer": 2, "editor": 1},
    "t12": {"lead": 1, "researcher": 3, "analyst": 2, "writer": 3, "reviewer": 2, "editor": 1},
}
"""The four pipelines and who is in them. Figures: 8 to 12 agents in each, and 41 in all: 223 GB x (74 - 36 %) / 2.1 GB,
which with the 10 that were there makes the 50 processes of (a). The roles are assumed."""

PHASES: Mapping[str, tuple[str, ...]] = {
    "research": ("lead", "researcher"),
    "analysis": ("analyst",),
    "drafting": ("lead", "writer"),
    "review": ("reviewer",),
    "revision": ("analyst", "writer"),
    "delivery": ("lead", "editor"),
}
"""Which roles have work in which phase: assumed. It is what dogwatch's admission lives on."""

NEEDS = ("phases", "to the end", "all")
"""Who has work when: as in PHASES; the same, and everybody once more at delivery; everybody in every phase."""


@dataclass(frozen=True, slots=True)
class World:
    """The parameters' values, some of them changed to see what depends on them."""

    values: Mapping[str, float]
    needs: str = NEEDS[0]

    def __getitem__(self, name: str) -> float:
        return self.values[name]


def world(needs: str = NEEDS[0], **changed: float) -> World:
    """The world as it was fixed, with these changes."""
    values = {one.name: one.value for one in PARAMETERS}
    if unknown := changed.keys() - values.keys():
        raise KeyError(", ".join(sorted(unknown)))
    return World({**values, **changed}, needs)
