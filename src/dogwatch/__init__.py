"""Dogwatch keeps fleets of coding agents alive."""

__version__ = "0.1.0"
