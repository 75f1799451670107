"""What runs inside an agent's turn: the fast hook."""
