"""How the results of commands look on a terminal, and the same as JSON."""
