"""What to decide: pure functions from snapshots to decisions. No input or output, no clock."""
