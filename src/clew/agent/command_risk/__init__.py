"""The risk of a shell command before it runs, with reasons.

`facts` and `programs` are tables, `rules` and `nested` apply them to one command; `secret_reads`, `foreign_code` and
`written_scripts` are further rules, with `listed_files`, `searches` and `destinations` below them. `assess` goes
through a command line as `clew.shell` reads it. Nothing is run, and nobody is asked.
"""

from clew.agent.command_risk.assess import (
    CommandAssessment,
    assess_command,
    outside_risk,
    risk_kinds_of_command,
    risk_of_command,
)

__all__ = ["CommandAssessment", "assess_command", "outside_risk", "risk_kinds_of_command", "risk_of_command"]
