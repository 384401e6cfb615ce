"""What the tools for commands are made of: process groups, what they print, and the environment they run in.

Whether a command may run is judged in `clew.agent.dangers`.
"""

from clew.agent.commands.printed import Printed
from clew.agent.commands.running import Running
from clew.agent.commands.surroundings import environment_for_commands

__all__ = ["Printed", "Running", "environment_for_commands"]
