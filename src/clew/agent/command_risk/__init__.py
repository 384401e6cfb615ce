"""The risk of a shell command before it runs, with reasons.

`risk.toml` holds the tables (`tables` reads them); `rules` and `reads` apply them to one command.
`assess` goes through a command line as `clew.shell` reads it. Nothing is run and no question is asked.
"""

from clew.agent.command_risk.assess import (
    CommandAssessment,
    assess_command,
    outside_risk,
    risk_kinds_of_command,
    risk_of_command,
)

__all__ = ["CommandAssessment", "assess_command", "outside_risk", "risk_kinds_of_command", "risk_of_command"]
