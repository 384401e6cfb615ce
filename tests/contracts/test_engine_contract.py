"""Every engine that ships with Clew keeps the contract."""

from __future__ import annotations

from clew.app import EngineChoice
from clew.config import load_config
from clew.engines import ContextEngine, EngineSetup
from tests.contracts.engine_contract import WholeEngineContract
from tests.support.engines import PlainEngine


class TestPlainEngine(WholeEngineContract):
    def make_engine(self, setup: EngineSetup) -> ContextEngine:
        return PlainEngine(setup)


class TestContextCompressor(WholeEngineContract):
    """As the config makes it: by its name, through the hook."""

    def make_engine(self, setup: EngineSetup) -> ContextEngine:
        environ = {"CLEW_HOME": "/nowhere"}
        catalog = EngineChoice(load_config(environ), environ).catalog
        return catalog.build(catalog.find_built_in("compressor"), setup)


class TestLosslessEngine(WholeEngineContract):
    def make_engine(self, setup: EngineSetup) -> ContextEngine:
        environ = {"CLEW_HOME": "/nowhere"}
        catalog = EngineChoice(load_config(environ), environ).catalog
        return catalog.build(catalog.find_built_in("lcm"), setup)
