"""Languages other than bash: what a program or script in one of them would do."""
