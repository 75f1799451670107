"""The whole labelled corpus: the kinds that are developed on, and those that are held back."""

from __future__ import annotations

from bench import accuracy_development, accuracy_final
from bench.accuracy_form import Case

HEALTHY: tuple[Case, ...] = accuracy_development.HEALTHY + accuracy_final.HEALTHY
FAULTS: tuple[Case, ...] = accuracy_development.FAULTS + accuracy_final.FAULTS
CASES: tuple[Case, ...] = HEALTHY + FAULTS
