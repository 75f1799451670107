"""Bash: how a command is read, what its words become, and the walk through it as the shell would run it."""
