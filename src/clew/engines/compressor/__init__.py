"""The compressor: head and tail stay, what lies between becomes one handoff. `engine` is where to start reading."""

from clew.engines.compressor.assemble import kept_items, repair_warnings
from clew.engines.compressor.engine import ContextCompressor
from clew.engines.compressor.plan import Budgets, budgets_for, budgets_for_target

__all__ = ["Budgets", "ContextCompressor", "budgets_for", "budgets_for_target", "kept_items", "repair_warnings"]
