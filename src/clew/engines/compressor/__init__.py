"""The compressor: head and tail stay, what lies between becomes one handoff. Four phases, each a module."""

from clew.engines.compressor.budgets import Budgets, budgets_for, budgets_for_target
from clew.engines.compressor.engine import ContextCompressor
from clew.engines.compressor.telling import repairs_told

__all__ = ["Budgets", "ContextCompressor", "budgets_for", "budgets_for_target", "repairs_told"]
