"""Instruments for tests, ours and users' own: the scripted agent and a clock that is moved by hand."""
