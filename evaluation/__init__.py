"""The two experiments of docs/evaluation.md and docs/evaluation-real.md. They are no part of the package."""
