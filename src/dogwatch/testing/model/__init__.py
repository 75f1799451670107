"""The scripted model: plays a language model for real agent CLIs, by a scenario (docs/reference/model.md)."""

from dogwatch.testing.model.record import Request
from dogwatch.testing.model.scenario import Scenario, load, parse
from dogwatch.testing.model.scripted import ScriptedModel

__all__ = ["Request", "Scenario", "ScriptedModel", "load", "parse"]
