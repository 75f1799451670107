"""The torture of the ledger: its users are killed at random instants; nothing may be lost, and nothing happen twice."""
