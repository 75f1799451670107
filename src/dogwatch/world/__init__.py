"""How the machine is seen. Reading only."""
