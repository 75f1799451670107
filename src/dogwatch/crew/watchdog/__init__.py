"""The watchdog: one for each run. It looks at every agent and says what it means."""
