"""The dispatcher: one for each host. It watches the memory, admits runs and keeps their captains alive."""
