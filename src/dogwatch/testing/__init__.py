"""Instruments for tests, ours and users' own: a scripted agent, a scripted model, a clock that is moved by hand."""
