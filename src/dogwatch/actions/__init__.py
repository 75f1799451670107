"""How the machine is changed, one file for each thing."""
