"""The way in for agents: the run's Unix socket, its serving and its calling side."""
