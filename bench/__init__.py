"""Benchmarks: how fast dogwatch is, as ratios to the bare operation on the same machine in the same run."""
