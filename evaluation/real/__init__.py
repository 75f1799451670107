"""The known experiment for real, scaled down: more pipelines than the machine can hold, with and without admission."""
