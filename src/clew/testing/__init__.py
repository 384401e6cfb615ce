"""What tests are made of, shipped: builders of messages and histories, fakes, contract suites.

Nothing here is used by Clew at work. Strategies for Hypothesis are in `clew.testing.strategies`, which is not
imported by this door because Hypothesis is needed for tests only.
"""

from clew.testing.engine_contract import EngineContract
from clew.testing.messages import assistant, call, system, tool, user
from clew.testing.plain_engine import PlainEngine
from clew.testing.synthetic import synthetic_history

__all__ = ["EngineContract", "PlainEngine", "assistant", "call", "synthetic_history", "system", "tool", "user"]
