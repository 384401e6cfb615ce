"""What a file is: text and its encoding, a kind of binary file by its first bytes, or a secret by its name.

Text is encoded again as it was: encoding, byte order mark and line ends stay. What is neither UTF-8 nor marked as
UTF-16, and holds no NUL, is taken for Latin-1, which gives the same bytes back whatever it was.
"""

# ruff: noqa: E501 (one line per fact)
from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from clew.errors import InvalidArgument
from clew.tokens import image_size_in_header

SNIFFED_BYTES = 8_192
BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
LATIN1_FALLBACK = "clew-latin-1"
"""An error handler for decoding: bytes that are no UTF-8 are read as Latin-1, and a lone surrogate as its escape."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text and its encoding."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Another text in this file's encoding. Raises InvalidArgument for a character that it does not have."""
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as problem:
            char = text[problem.start]
            raise InvalidArgument(f"{char!r} cannot be written as {self.encoding}; leave it out") from problem


def decode_file(content: bytes) -> TextFile | None:
    """The text of a file; None where it is binary."""
    bom, encoding = bom_of(content)
    body = content[len(bom) :]
    try:
        return TextFile(body.decode(encoding), encoding, bom)
    except UnicodeDecodeError:
        if bom or is_binary(content):
            return None
        return TextFile(content.decode("latin-1"), "latin-1")


def bom_of(start: bytes) -> tuple[bytes, str]:
    """The byte order mark and its encoding; UTF-8 where there is none."""
    return next(((bom, encoding) for bom, encoding in BOMS if start.startswith(bom)), (b"", "utf-8"))


def is_binary(start: bytes) -> bool:
    """Whether a file is binary, by its first bytes."""
    return b"\0" in start[:SNIFFED_BYTES] and not bom_of(start)[1].startswith("utf-16")


def dominant_line_ending(text: str) -> str:
    """The line ending that most lines have."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def count_lines(text: str) -> int:
    """Lines as an editor counts them: a line end at the very end starts no further line."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def _latin1_fallback(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeDecodeError):
        raise problem
    three = problem.object[problem.start : problem.start + 3]
    try:
        return f"\\u{ord(three.decode('utf-8', 'surrogatepass')):04x}", problem.start + 3
    except (UnicodeDecodeError, TypeError):
        return problem.object[problem.start : problem.end].decode("latin-1"), problem.end


codecs.register_error(LATIN1_FALLBACK, _latin1_fallback)


# -- binary files ------------------------------------------------------------------------------------------------------

HEAD_BYTES = 65_536

# Offset, signature, kind.
_SIGNATURES = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF8", "GIF image"),
    (8, b"WEBP", "WebP image"),
    (0, b"BM", "BMP image"),
    (0, b"%PDF-", "PDF document"),
    (0, b"PK\x03\x04", "ZIP archive (or a document in one)"),
    (0, b"\x1f\x8b", "gzip archive"),
    (0, b"BZh", "bzip2 archive"),
    (0, b"\xfd7zXZ\x00", "xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "zstd archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (257, b"ustar", "tar archive"),
    (0, b"SQLite format 3\x00", "SQLite database"),
    (0, b"\x7fELF", "ELF program or library"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (0, b"MZ", "Windows program"),
    (0, b"\x00asm", "WebAssembly module"),
    (0, b"\xca\xfe\xba\xbe", "Java class"),
    (0, b"PAR1", "Parquet table"),
    (0, b"GGUF", "GGUF model"),
    (4, b"ftyp", "MP4 video"),
    (0, b"OggS", "Ogg audio or video"),
    (0, b"ID3", "MP3 audio"),
    (0, b"wOF2", "font"),
)


def binary_kind(head: bytes) -> str:
    """The kind of a binary file, by its first bytes; with the size in pixels, where it is an image."""
    kind = next((kind for offset, signature, kind in _SIGNATURES if head.startswith(signature, offset)), "binary file")
    size = image_size_in_header(head) if kind.endswith("image") else None
    return f"{kind}, {size[0]} x {size[1]} pixels" if size else kind


# -- secret files ------------------------------------------------------------------------------------------------------

# fmt: off
_NOT_SECRET = re.compile(
    r"(?:^|/)(?:\.env\.(?:example|sample|template|dist|test|defaults)|[^/]+\.pub|known_hosts(?:\.old)?|authorized_keys|\.ssh/config|"
    r"(?:credentials|secrets?)\.(?:pyi?|[jt]sx?|mjs|go|rs|rb|java|kt|cs|php|c|h|cpp|swift|ex|md|rst|html|css))$", re.IGNORECASE
)
"""Examples and public parts that lie beside secrets, and code that handles them."""
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
    (r"^(?:/var)?/run/secrets/", "secrets of a container"),
    (r"^/etc/(?:shadow|gshadow|sudoers)", "passwords of the machine"),
    (r"^/proc/[^/]+/(?:task/[^/]+/)?(?:environ|auxv|mem)$", "the environment or the memory of a process"),
    (r"^/proc/(?!self/|thread-self/)[^/]+/(?:fd|root|cwd)/", "what a process has open"),
    (r"(?:^|/)(?:credentials|secrets?)(?:\.[\w.-]+)?$", "secrets and credentials, by its name"),
    (r"(?:^|/)\.clew/config\.ya?ml$", "Clew's own keys"),
    (r"(?:Login Data|cookies\.sqlite|Cookies|key4\.db|logins\.json)$", "passwords of a browser"),
)
# fmt: on
_SECRET_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _SECRET_FILES)


def secret_kind(text: str) -> str | None:
    """The kind of secret that a file holds, by its path; None where it looks harmless. Wildcards at the end are ignored."""
    names = {text, text.rstrip("*?").rstrip("/"), text.rstrip("*?").rstrip(".")}
    if _NOT_SECRET.search(text):
        return None
    return next((kind for pattern, kind in _SECRET_PATTERNS if any(pattern.search(name) for name in names)), None)


# -- files that everybody may read -------------------------------------------------------------------------------------

_PUBLIC_FILES = re.compile(
    r"/(?:usr|bin|sbin|lib|lib32|lib64|opt|nix/store|System/Library|Library/Developer)(?:/.*)?|/sys/.+|"
    r"/proc/(?:cpuinfo|meminfo|version|loadavg|uptime|stat|mounts|filesystems|net/.+|sys/.+|self/(?:status|stat|statm|cgroup|limits|maps|mounts|mountinfo))|"
    r"/etc/(?:os-release|lsb-release|debian_version|alpine-release|redhat-release|issue|hosts|hostname|resolv\.conf|passwd|group|services|protocols|shells|mime\.types|"
    r"timezone|localtime|nsswitch\.conf|ld\.so\.conf(?:\.d/.*)?|apt/sources\.list(?:\.d/.*)?|nginx/.*|ssl/(?:certs/.*|openssl\.cnf))|/dev/(?:null|zero|urandom|random|stdin|tty|fd/\d+)|/var/(?:lib/dpkg/.*|www/.*)"
)


def is_public_file(path: str) -> bool:
    """Whether a resolved path outside the project is one of the system, which may be read without a question.

    Commands and the tools for files ask for every other, wherever it is: no list of credentials is complete.
    """
    return _PUBLIC_FILES.fullmatch(path) is not None and secret_kind(path) is None


# -- files with an effect later on -------------------------------------------------------------------------------------

# fmt: off
_LASTING_FILES: tuple[tuple[str, str], ...] = (
    (r"(?:^|/)(?:AGENTS|CLAUDE|GEMINI|CONVENTIONS|QWEN)(?:\.local|\.override)?\.md$|(?:^|/)\.(?:cursorrules|windsurfrules|clinerules|goosehints|roorules|aider\.conf\.yml)$|(?:^|/)\.(?:cursor|roo|clinerules|windsurf)/rules?(?:/|$)|(?:^|/)copilot-instructions\.md$|\.(?:instructions|prompt)\.md$|\.mdc$", "instructions that later sessions read"),
    (r"(?:^|/)SKILL\.md$|(?:^|/)\.(?:clew|claude|codex|agents|gemini|opencode)/", "skills, memory or settings of agents"),
    (r"(?:^|/)\.mcp\.json$|(?:^|/)\.?mcp\.json$", "programs that agents start"),
    (r"(?:^|/)\.envrc$|(?:^|/)\.?mise\.toml$|(?:^|/)\.tool-versions$", "what runs when a shell enters the folder"),
    (r"(?:^|/)(?:\.git/hooks|\.githooks|\.husky|\.lefthook)(?:/|$)|(?:^|/)\.?lefthook(?:-local)?\.ya?ml$|(?:^|/)\.pre-commit-config\.yaml$|(?:^|/)\.gitmodules$|(?:^|/)\.gitconfig$", "what git runs by itself"),
    (r"(?:^|/)\.(?:github/(?:workflows|actions)|gitea/workflows|forgejo/workflows|circleci|buildkite|woodpecker|teamcity)(?:/|$)|(?:^|/)\.(?:gitlab-ci|travis|drone|woodpecker|appveyor|cirrus)\.ya?ml$|(?:^|/)(?:Jenkinsfile|azure-pipelines\.ya?ml|bitbucket-pipelines\.ya?ml|appveyor\.yml|cloudbuild\.ya?ml|buildspec\.ya?ml|\.ci/.+)$", "what runs in CI"),
    (r"(?:^|/)\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|kshrc|inputrc|xprofile|xinitrc|vimrc|exrc|gdbinit|pythonrc|Rprofile|irbrc|screenrc|tmux\.conf|login_conf)$|(?:^|/)\.config/(?:fish|nvim|autostart|systemd|environment\.d)(?:/|$)|(?:^|/)config\.fish$", "a profile that runs at every start"),
    (r"(?:^|/)\.ssh/", "who may log in, or how"),
    (r"(?:^|/)\.(?:vscode|idea|zed|fleet)/(?:tasks|launch|settings|runConfigurations|workspace)|\.code-workspace$|(?:^|/)\.devcontainer(?:/|\.json$)", "what an editor runs"),
    (r"(?:^|/)(?:site|user)customize\.py$|\.pth$|(?:^|/)\.?(?:pip\.conf|pip\.ini|npmrc|yarnrc(?:\.yml)?|pypirc|condarc|bunfig\.toml|pnpmfile\.c?js)$|(?:^|/)\.cargo/config(?:\.toml)?$", "what every run of an interpreter or a package manager loads"),
    (r"(?:^|/)(?:crontab|cron\.(?:d|daily|hourly|weekly|monthly))(?:/|$)|\.(?:service|timer|desktop|plist)$", "what the system starts by itself"),
)
# fmt: on
_LASTING_PATTERNS = tuple((re.compile(pattern), effect) for pattern, effect in _LASTING_FILES)
_PACKAGE_SCRIPT = re.compile(
    r"\"(?:(?:pre|post)?(?:install|pack|publish|version)|prepare|prepublishOnly|dependencies)\"\s*:\s*\""
)


def lasting_effect(path: str, text: str = "") -> str | None:
    """What a file does later on, without being asked: it speaks to later sessions, or it runs by itself.

    `text` is what is to be written there: a package.json counts by the scripts in it that run by themselves.
    """
    if path.rpartition("/")[2] == "package.json" and _PACKAGE_SCRIPT.search(text):
        return "a script that runs at every install"
    return next((effect for pattern, effect in _LASTING_PATTERNS if pattern.search(path)), None)
