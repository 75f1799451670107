"""The rules: what each program does with its arguments, and whether an agent may do that."""
