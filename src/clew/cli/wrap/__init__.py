"""Running one program through a private gateway: what it is given, and how it is run."""

from clew.cli.wrap.child import run_child
from clew.cli.wrap.overlays import OverlayFolders, WrappedProgram, WrapTarget, find_upstreams, wrap_program

__all__ = ["OverlayFolders", "WrapTarget", "WrappedProgram", "find_upstreams", "run_child", "wrap_program"]
