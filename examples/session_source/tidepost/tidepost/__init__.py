"""Tide-gauge readings from a harbour to the hydrographic office, over a link that is often down."""

__version__ = "0.7.2"
