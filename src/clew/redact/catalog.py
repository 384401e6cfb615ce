"""The kinds of secrets that are known by their first characters: name, those characters, what follows.

To add a kind, add a row. Lengths are those that the providers issue, with a generous upper bound where a provider says
that they may grow. A start has to be rare enough to be searched for without a name before it; secrets known only by
their name (`PASSWORD=`) are in `by_context`. Every secret here has a run of at least `redaction.RUN` letters, digits,
`_`, `-`, `~` or `+`, because candidates are found by that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from clew.lazy import lazy_pattern

SecretCheck: TypeAlias = Callable[[bytes], bool]

# A run that may be this long has no upper limit: a limit would be tried again from every later start within the same
# run, which hostile text can make slow.
_UNLIMITED = 200


@dataclass(frozen=True, slots=True)
class CharRun:
    """`low` to `high` characters of one class; `chars` is the inside of a regex character class."""

    chars: str
    low: int
    high: int

    @property
    def is_unlimited(self) -> bool:
        return self.high >= _UNLIMITED

    @property
    def pattern(self) -> str:
        """Possessive, because what follows a run is never one of its characters."""
        return f"[{self.chars}]{{{self.low},{'' if self.is_unlimited else self.high}}}+"


@dataclass(frozen=True, slots=True)
class OptionalParts:
    """Parts that some secrets of the kind have and others do not."""

    parts: tuple[SecretPart, ...]


SecretPart: TypeAlias = str | CharRun | OptionalParts


def alnum(low: int, high: int = 0) -> CharRun:
    return CharRun("A-Za-z0-9", low, high or low)


def word(low: int, high: int = 0) -> CharRun:
    return CharRun("A-Za-z0-9_-", low, high or low)


def hex_digits(low: int, high: int = 0) -> CharRun:
    return CharRun("0-9a-f", low, high or low)


def upper(low: int, high: int = 0) -> CharRun:
    return CharRun("A-Z0-9", low, high or low)


def lower(low: int, high: int = 0) -> CharRun:
    return CharRun("a-z0-9", low, high or low)


def base64(low: int, high: int = 0) -> CharRun:
    return CharRun("A-Za-z0-9+/_-", low, high or low)


def digits(low: int, high: int = 0) -> CharRun:
    return CharRun("0-9", low, high or low)


PADDING = CharRun("=", 0, 2)
_FOUR: tuple[SecretPart, ...] = (hex_digits(4), "-")
UUID: tuple[SecretPart, ...] = (hex_digits(8), "-", *_FOUR, *_FOUR, *_FOUR, hex_digits(12))


def is_no_placeholder(secret: bytes) -> bool:
    """False for `ghp_xxxxxxxx` and `sk-ant-your-key-here`, which people write instead of a secret."""
    return not _PLACEHOLDER_SHAPE.search(secret)


def is_mixed(secret: bytes) -> bool:
    """True when capitals, small letters and digits all occur: for kinds that an identifier could look like."""
    return bool(
        is_no_placeholder(secret) and _CAPITAL.search(secret) and _SMALL.search(secret) and _DIGIT.search(secret)
    )


def has_digit(secret: bytes) -> bool:
    return bool(is_no_placeholder(secret) and _DIGIT.search(secret))


def is_no_word(secret: bytes) -> bool:
    return bool(is_no_placeholder(secret) and (_DIGIT.search(secret) or _CAPITAL.search(secret)))


_PLACEHOLDER_SHAPE = lazy_pattern(rb"(?i)x{8}|your[-_]?(?:api|key|token|secret|own|access|real|actual|[-_])")
_CAPITAL = lazy_pattern(rb"[A-Z]")
_SMALL = lazy_pattern(rb"[a-z]")
_DIGIT = lazy_pattern(rb"[0-9]")


@dataclass(frozen=True, slots=True)
class SecretKind:
    """One kind of secret. A secret is `before`, then one of `starts`, then `body`.

    `before` is for the few whose known literal is in the middle; `preceded_by` is text that must come before the
    secret and is not a part of it.
    """

    name: str
    starts: tuple[str, ...]
    body: tuple[SecretPart, ...]
    check: SecretCheck = is_no_placeholder
    before: CharRun | None = None
    preceded_by: str = ""
    whole_word: bool = False
    """There must be no `-` or `_` before the secret either, as for all secrets that may contain them."""

    def pattern_after(self, start: str) -> str:
        """The regex for what follows the literal `start`."""
        preceded_by = f"(?<={self.preceded_by}{re.escape(start)})" if self.preceded_by else ""
        alone = f"(?<![_-]{re.escape(start)})" if self.whole_word or _may_contain_dash(self.body[-1]) else ""
        return preceded_by + alone + "".join(map(pattern_of, self.body)) + _right_boundary(self.body)


def _may_contain_dash(last: SecretPart) -> bool:
    # Otherwise only the last of `figd_figd_figd_...` would match, and after its removal the one before it.
    return isinstance(last, CharRun) and not last.is_unlimited and ("_" in last.chars or "-" in last.chars[-1:])


def pattern_of(part: SecretPart) -> str:
    if isinstance(part, str):
        return re.escape(part)
    if isinstance(part, CharRun):
        return part.pattern
    return "(?:" + "".join(map(pattern_of, part.parts)) + ")?"


def _right_boundary(body: tuple[SecretPart, ...]) -> str:
    last = body[-1]
    if isinstance(last, CharRun) and last.is_unlimited:
        return ""
    # A full stop after a secret ends a sentence.
    return f"(?![A-Za-z0-9{last.chars.replace('.', '')}])" if isinstance(last, CharRun) else "(?![A-Za-z0-9])"


CLOUDS = (
    SecretKind("aws-key", ("AKIA", "ASIA", "ABIA", "ACCA"), (upper(16),)),
    SecretKind("aws-bedrock-key", ("ABSK", "bedrock-api-key-"), (base64(80, 400), PADDING), whole_word=True),
    SecretKind("aws-mws-token", ("amzn.mws.",), UUID),
    SecretKind("google-api-key", ("AIza",), (word(35),)),
    SecretKind("google-auth-key", ("AQ.Ab",), (word(40, 120),)),
    SecretKind("google-client-secret", ("GOCSPX-",), (word(28),)),
    SecretKind("google-access-token", ("ya29.",), (word(20, 1024),), whole_word=True),
    SecretKind("google-refresh-token", ("1//0",), (word(40, 250),)),
    SecretKind("firebase-key", ("APA91b",), (word(120, 180),), preceded_by=r"[A-Za-z0-9_-]:"),
    SecretKind(
        "azure-client-secret", ("Q~",), (CharRun("A-Za-z0-9_~.-", 31, 34),), before=CharRun("A-Za-z0-9_~.-", 4, 4)
    ),
    SecretKind("azure-devops-token", ("AZDO",), (alnum(4),), before=alnum(76)),
    SecretKind("azure-key", ("JQQJ99",), (alnum(26),), before=alnum(52)),
    SecretKind("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), (hex_digits(64),)),
    SecretKind("cloudflare-token", ("cfk_", "cfut_", "cfat_"), (word(40, 60),)),
    SecretKind("cloudflare-origin-key", ("v1.0-",), (hex_digits(24), "-", hex_digits(146))),
    SecretKind("alibaba-key", ("LTAI",), (alnum(16, 26),), check=has_digit),
    SecretKind("tencent-key", ("AKID",), (alnum(32, 36),), check=is_mixed),
    SecretKind("yandex-key", ("AQVN",), (word(35, 38),), check=is_mixed),
    SecretKind("openshift-token", ("sha256~",), (word(43),), check=is_mixed),
)

CODE_HOSTS = (
    SecretKind("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), (alnum(36, 255),)),
    SecretKind("github-token", ("github_pat_",), (CharRun("A-Za-z0-9_", 40, 255),)),
    SecretKind(
        "gitlab-token",
        ("glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-", "glagent-", "gloas-"),
        (word(20, 300), OptionalParts((".", lower(2), ".", lower(7, 9)))),
    ),
    SecretKind("gitlab-token", ("GR1348941",), (word(20),)),
    SecretKind("bitbucket-token", ("ATBB",), (alnum(24, 36),), check=has_digit),
    SecretKind("atlassian-token", ("ATATT3", "ATCTT3"), (word(60, 300), OptionalParts(("=", upper(8))))),
    SecretKind("trello-token", ("ATTA",), (hex_digits(64, 80),)),
    SecretKind("sourcegraph-token", ("sgp_",), (CharRun("A-Za-z0-9_", 40, 70),), check=has_digit),
)

CHAT = (
    SecretKind(
        "slack-token",
        ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxc-", "xoxe-", "xoxe.xoxb-", "xoxe.xoxp-"),
        (word(16, 400),),
    ),
    SecretKind("slack-token", ("xoxd-",), (CharRun("A-Za-z0-9%_-", 20, 400),)),
    SecretKind("slack-token", ("xapp-",), (digits(1), "-", word(16, 400))),
    SecretKind(
        "discord-token", ("M", "N", "O"), (word(22, 27), ".", word(6), ".", word(27, 40)), is_mixed, whole_word=True
    ),
    SecretKind("telegram-token", ("AA",), (word(32, 34),), preceded_by=r"[0-9]{8}:"),
    SecretKind(
        "facebook-token", tuple(f"EAA{c}" for c in "BCDFGHIJKLMNOPQRSTUVWXYZ"), (alnum(80, 400),), check=is_mixed
    ),
)

MODEL_PROVIDERS = (
    SecretKind("anthropic-key", ("sk-ant-",), (word(20, 250),)),
    SecretKind("openai-key", ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"), (word(20, 250),)),
    SecretKind("openrouter-key", ("sk-or-",), (word(32, 100),)),
    SecretKind("langfuse-key", ("sk-lf-",), UUID),
    SecretKind("openai-key", ("sk-",), (alnum(32, 128),)),
    SecretKind("openai-key", ("sk-",), (alnum(20, 31),), check=is_no_word),
    SecretKind("groq-key", ("gsk_",), (alnum(40, 64),)),
    SecretKind("xai-key", ("xai-",), (alnum(60, 100),)),
    SecretKind("huggingface-token", ("hf_", "api_org_"), (alnum(30, 40),)),
    SecretKind("replicate-token", ("r8_",), (alnum(37, 40),)),
    SecretKind("perplexity-key", ("pplx-",), (alnum(40, 64),)),
    SecretKind("cerebras-key", ("csk-",), (alnum(40, 64),)),
    SecretKind("fireworks-key", ("fw_",), (alnum(20, 40),), check=is_mixed),
    SecretKind("together-key", ("tgp_v1_",), (word(40, 50),)),
    SecretKind("nvidia-key", ("nvapi-",), (word(60, 70),)),
    SecretKind("pinecone-key", ("pcsk_",), (word(40, 100),)),
    SecretKind("tavily-key", ("tvly-",), (word(20, 60),), check=has_digit),
    SecretKind("firecrawl-key", ("fc-",), (hex_digits(32),)),
    SecretKind("elevenlabs-key", ("sk_",), (hex_digits(48),)),
    SecretKind("langsmith-key", ("lsv2_pt_", "lsv2_sk_"), (hex_digits(32), "_", hex_digits(10))),
    SecretKind("jina-key", ("jina_",), (alnum(50, 70),)),
    SecretKind("voyage-key", ("pa-",), (word(43),), check=is_mixed),
    SecretKind("e2b-key", ("e2b_",), (hex_digits(40),)),
    SecretKind("wandb-key", ("wandb_v1_",), (word(40, 120),)),
    SecretKind("clew-key", ("clew_sk_",), (alnum(43, 64),)),
)

PAYMENT_AND_MAIL = (
    SecretKind("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), (alnum(12, 250),)),
    SecretKind("stripe-webhook-secret", ("whsec_",), (CharRun("A-Za-z0-9+/", 24, 100), PADDING)),
    SecretKind("square-token", ("sq0atp-",), (word(22),)),
    SecretKind("square-token", ("sq0csp-",), (word(43),)),
    SecretKind("square-token", ("EAAA",), (word(56, 64),), check=is_mixed),
    SecretKind("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_", "shptka_"), (CharRun("0-9a-fA-F", 32, 32),)),
    SecretKind(
        "braintree-token", ("access_token$production$", "access_token$sandbox$"), (lower(16), "$", hex_digits(32))
    ),
    SecretKind("plaid-token", ("access-sandbox-", "access-development-", "access-production-"), UUID),
    SecretKind("flutterwave-key", ("FLWSECK-", "FLWSECK_TEST-"), (word(16, 60),)),
    SecretKind("easypost-key", ("EZAK", "EZTK"), (alnum(54),)),
    SecretKind("shippo-token", ("shippo_live_", "shippo_test_"), (hex_digits(40),)),
    SecretKind("sendgrid-key", ("SG.",), (word(20, 24), ".", word(39, 50))),
    SecretKind("mailgun-key", ("key-",), (hex_digits(32),)),
    SecretKind("mailchimp-key", ("-us",), (digits(1, 2),), before=hex_digits(32)),
    SecretKind("brevo-key", ("xkeysib-", "xsmtpsib-"), (hex_digits(64), "-", alnum(16))),
    SecretKind("resend-key", ("re_",), (alnum(8), "_", alnum(22, 28)), check=is_mixed),
)

PACKAGE_REGISTRIES = (
    SecretKind("npm-token", ("npm_",), (alnum(36),)),
    SecretKind("pypi-token", ("pypi-",), (word(50, 500),)),
    SecretKind("rubygems-key", ("rubygems_",), (hex_digits(48),)),
    SecretKind("crates-token", ("cio",), (alnum(32),), check=is_mixed, whole_word=True),
    SecretKind("nuget-key", ("oy2",), (lower(43),), check=has_digit, whole_word=True),
    SecretKind("clojars-token", ("CLOJARS_",), (hex_digits(60),)),
    SecretKind("docker-token", ("dckr_pat_", "dckr_oat_"), (word(27, 40),)),
    SecretKind("artifactory-key", ("AKCp",), (alnum(60, 80),), check=is_mixed),
)

HOSTING_AND_CI = (
    SecretKind("vercel-token", ("vcp_", "vci_", "vca_", "vcr_", "vck_"), (alnum(24, 80),), check=has_digit),
    SecretKind("vercel-token", ("vercel_blob_rw_",), (alnum(12, 24), "_", alnum(24, 48))),
    SecretKind("netlify-token", ("nfp_",), (alnum(36, 48),)),
    SecretKind("heroku-key", ("HRKU-",), (word(36, 70),)),
    SecretKind("fly-token", ("fo1_",), (word(40, 50),)),
    SecretKind("fly-token", ("fm2_", "fm1r_", "fm1a_"), (base64(80, 2048), PADDING), whole_word=True),
    SecretKind("render-key", ("rnd_",), (alnum(28, 40),), check=is_mixed),
    SecretKind("terraform-token", (".atlasv1.",), (word(60, 70),), before=alnum(14)),
    SecretKind("doppler-token", ("dp.pt.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."), (alnum(40, 44),)),
    SecretKind("doppler-token", ("dp.st.",), (OptionalParts((CharRun("a-z0-9_-", 2, 35), ".")), alnum(40, 44))),
    SecretKind("vault-token", ("hvs.", "hvb.", "hvr."), (word(24, 300),)),
    SecretKind("databricks-token", ("dapi",), (hex_digits(32), OptionalParts(("-", digits(1))))),
    SecretKind("sentry-token", ("sntrys_",), (base64(60, 500), PADDING), whole_word=True),
    SecretKind("sentry-token", ("sntryu_",), (hex_digits(64),)),
    SecretKind("newrelic-key", ("NRAK-",), (upper(27),)),
    SecretKind("newrelic-key", ("NRII-",), (word(32),)),
    SecretKind("newrelic-key", ("NRRA-",), (hex_digits(42),)),
    SecretKind("newrelic-key", ("FFFFNRAL",), ("",), before=hex_digits(32)),
    SecretKind("grafana-token", ("glc_",), (base64(32, 400), PADDING), whole_word=True),
    SecretKind("grafana-token", ("glsa_",), (alnum(32), "_", CharRun("0-9A-Fa-f", 8, 8))),
    SecretKind("grafana-token", ("eyJrIjoi",), (base64(60, 400), PADDING), whole_word=True),
    SecretKind("linear-key", ("lin_api_",), (alnum(40),)),
    SecretKind("linear-key", ("lin_oauth_",), (hex_digits(64),)),
    SecretKind("notion-token", ("ntn_",), (alnum(40, 60),)),
    SecretKind("notion-token", ("secret_",), (alnum(43),)),
    SecretKind("airtable-token", ("pat",), (alnum(14), ".", hex_digits(64)), whole_word=True),
    SecretKind("figma-token", ("figd_", "figu_", "figo_"), (word(36, 60),)),
    SecretKind("postman-key", ("PMAK-",), (hex_digits(24), "-", hex_digits(34))),
    SecretKind("twilio-key", ("SK",), (hex_digits(32),)),
    SecretKind("planetscale-token", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), (CharRun("A-Za-z0-9_.-", 32, 64),)),
    SecretKind("supabase-token", ("sbp_",), (OptionalParts(("v0_",)), hex_digits(40))),
    SecretKind("supabase-token", ("sb_secret_",), (word(20, 60),)),
    SecretKind("neon-key", ("napi_",), (lower(60, 70),)),
    SecretKind("mongodb-atlas-secret", ("mdb_sa_sk_",), (word(36, 48),)),
    SecretKind("age-key", ("AGE-SECRET-KEY-1",), (upper(58),)),
    SecretKind("dynatrace-token", ("dt0c01.", "dt0s01.", "dt0s08.", "dt0s16."), (upper(24), ".", upper(64))),
    SecretKind("buildkite-token", ("bkua_",), (hex_digits(40),)),
    SecretKind("circleci-token", ("CCIPAT_", "CCIPRJ_"), (alnum(22), "_", hex_digits(40))),
    SecretKind("pulumi-token", ("pul-",), (hex_digits(40),)),
    SecretKind("prefect-key", ("pnu_",), (alnum(36),)),
    SecretKind("sonar-token", ("squ_", "sqp_", "sqa_"), (hex_digits(40),)),
    SecretKind("snyk-token", ("snyk_uat.", "snyk_sat."), (hex_digits(8), ".", word(40, 600)), whole_word=True),
    SecretKind("tailscale-key", ("tskey-",), (lower(3, 8), "-", alnum(8, 20), "-", alnum(20, 40))),
    SecretKind("typeform-token", ("tfp_",), (CharRun("A-Za-z0-9_.-", 56, 64),)),
    SecretKind("contentful-token", ("CFPAT-",), (word(43),)),
    SecretKind("hubspot-token", ("pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"), UUID),
    SecretKind("launchdarkly-key", ("sdk-", "api-"), UUID),
    SecretKind("axiom-token", ("xaat-", "xapt-"), UUID),
    SecretKind("posthog-key", ("phx_",), (alnum(40, 50),)),
    SecretKind("deno-token", ("ddp_", "ddo_"), (alnum(36, 40),)),
    SecretKind("honeycomb-key", ("hcaik_", "hcbik_"), (lower(58),)),
    SecretKind("mapbox-token", ("sk.eyJ",), (word(20, 300), ".", word(20, 40)), whole_word=True),
    SecretKind("dropbox-token", ("sl.",), (word(130, 1500),), whole_word=True),
    SecretKind("1password-token", ("ops_eyJ",), (base64(200, 2000), PADDING), whole_word=True),
    SecretKind("rapyd-key", ("rsk_",), (hex_digits(56, 100),)),
)

GENERAL = (
    SecretKind(
        "paseto", tuple(f"v{n}.{use}." for n in (1, 2, 3, 4) for use in ("local", "public")), (word(64, 4_096),)
    ),
    # Three parts when signed, two when the signature was cut off, five when encrypted.
    SecretKind(
        "jwt",
        ("eyJ",),
        (word(12, 8_192), ".", "eyJ", word(17, 65_536), OptionalParts((".", word(0, 4_096)))),
        whole_word=True,
    ),
    SecretKind(
        "jwt",
        ("eyJ",),
        (word(17, 8_192), ".", word(0, 2_048), ".", word(10, 64), ".", word(8, 65_536), ".", word(16, 64)),
        whole_word=True,
    ),
)

CATALOG: tuple[SecretKind, ...] = (
    *CLOUDS,
    *CODE_HOSTS,
    *CHAT,
    *MODEL_PROVIDERS,
    *PAYMENT_AND_MAIL,
    *PACKAGE_REGISTRIES,
    *HOSTING_AND_CI,
    *GENERAL,
)
