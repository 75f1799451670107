"""Instruments for tests: the scripted agent, which plays a client, and the scripted model, which plays its provider."""
