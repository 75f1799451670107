"""The captain: one for each run. It routes the work, recovers agents, serves the door and ends the run."""
