"""What is dangerous about a shell command, with reasons, before it runs: tables of facts, and rules that read them.

Knows command lines (`clew.agent.shell`) and where the project is; asks nobody and runs nothing.
"""

from clew.agent.dangers.judging import kinds_of_command, outside_risk, risk_of_command

__all__ = ["kinds_of_command", "outside_risk", "risk_of_command"]
