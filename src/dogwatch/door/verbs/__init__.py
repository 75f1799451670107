"""The verbs: one file for each thing that an agent may ask for."""
