"""What happened: the durable truth, in one interface for every engine."""
