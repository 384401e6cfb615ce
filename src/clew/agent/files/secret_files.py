"""Which files look like secrets, by their names alone. One line a fact.

For whoever reads files, and for whoever judges commands that do. Opens nothing.
"""

# ruff: noqa: E501 (one line a fact)
from __future__ import annotations

import re

# fmt: off
_HARMLESS = re.compile(
    r"(?:^|/)(?:\.env\.(?:example|sample|template|dist|test|defaults)|[^/]+\.pub|known_hosts(?:\.old)?|authorized_keys|\.ssh/config|"
    r"(?:credentials|secrets?)\.(?:pyi?|[jt]sx?|mjs|go|rs|rb|java|kt|cs|php|c|h|cpp|swift|ex|md|rst|html|css))$", re.IGNORECASE
)
"""What people keep beside their secrets for others to see, and code that has to do with them."""
_SECRET_FILES: tuple[tuple[str, str], ...] = (
    (r"(?:^|/)[^/]*\.env$|(?:^|/)\.env(?:\.[\w.-]+)?$", "a file of secret settings, with keys in it"),
    (r"(?:^|/)\.ssh(?:/.*)?$", "keys of the person, a private file of .ssh"),
    (r"(?:^|/)id_(?:rsa|dsa|ecdsa|ed25519)(?:_\w+)?$", "a private key"),
    (r"\.(?:pem|p12|pfx|keystore|jks|kdbx|ppk|key)$", "a private key or a store of keys"),
    (r"(?:^|/)\.aws(?:/.*)?$", "keys to a cloud, a private file of .aws"),
    (r"(?:^|/)(?:\.config/)?gcloud(?:/.*)?$|application_default_credentials|service[-_]account[\w-]*\.json$", "keys to a cloud, of a service account"),
    (r"(?:^|/)\.azure(?:/.*)?$", "keys to a cloud"),
    (r"(?:^|/)\.kube(?:/.*)?$", "keys to a cluster"),
    (r"(?:^|/)\.docker/.+$", "keys to registries"),
    (r"(?:^|/)[._]netrc$", "passwords of hosts"),
    (r"(?:^|/)\.(?:pgpass|my\.cnf|git-credentials|pypirc|npmrc|vault-token|boto|s3cfg|htpasswd)$", "passwords or a token"),
    (r"(?:^|/)\.gnupg(?:/.*)?$|(?:^|/)\.password-store(?:/.*)?$", "keys of the person"),
    (r"(?:^|/)\.config/(?:gh|hub|op|rclone)(?:/.*)?$", "tokens"),
    (r"(?:^|/)\.(?:bash|zsh|python|psql|mysql|node_repl)_history$", "what the person typed"),
    (r"^/etc/(?:shadow|gshadow|sudoers)", "passwords of the machine"),
    (r"^/proc/[^/]+/environ$", "the environment of a process"),
    (r"(?:^|/)(?:credentials|secrets?)(?:\.[\w.-]+)?$", "secrets and credentials, by its name"),
    (r"(?:^|/)\.clew/config\.ya?ml$", "Clew's own keys"),
    (r"(?:Login Data|cookies\.sqlite|Cookies|key4\.db|logins\.json)$", "passwords of a browser"),
)
# fmt: on
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), what) for pattern, what in _SECRET_FILES)


def secret_in(text: str) -> str | None:
    """What secret a file holds, by its path; None where its name says nothing of secrets. A pattern at the end goes."""
    names = {text, text.rstrip("*?").rstrip("/"), text.rstrip("*?").rstrip(".")}
    if _HARMLESS.search(text):
        return None
    return next((what for pattern, what in _COMPILED if any(pattern.search(name) for name in names)), None)
