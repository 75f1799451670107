"""Dogwatch's own processes: dispatcher, captain and watchdog, each the same loop around one step."""
