"""What agents share with each other and with the captain."""
