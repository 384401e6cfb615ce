"""Adapters for agents and frameworks that people already use: each one file over `clew.Projection`.

A framework is imported only by its own file, and only when that file is used; none is a dependency. An adapter
translates calls and objects of its framework, and knows no policy: when and how to fold is the engine's.
"""
