"""What runs inside an agent's turn: the fast hook, and the full guard behind it."""
