"""The pipeline file: load it, say what is wrong with it and where, explain it, describe its form."""

from dogwatch.spec.load import check, load
from dogwatch.spec.problem import Problem
from dogwatch.spec.reference import reference
from dogwatch.spec.schema import json_schema

__all__ = ["Problem", "check", "json_schema", "load", "reference"]
