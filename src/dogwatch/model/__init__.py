"""What things are: frozen values and the lifecycle tables. No input or output."""
