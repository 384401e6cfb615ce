"""The terminal door."""


def main() -> int:
    return 0
