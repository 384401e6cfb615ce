"""The kinds of secrets that announce themselves, one line each: name, first characters, what follows.

Facts only. Lengths are those the providers issue; where a provider says that lengths may grow, the upper bound is
generous. A kind belongs here when its start is rare enough to be searched for without a name beside it; secrets
known only by the name before them (`PASSWORD=`) are the work of `assignments`. Every secret here holds an unbroken
run of at least `prefixed.RUN` letters, digits, `_`, `-`, `~` or `+`: that is how candidates are found.
"""

from __future__ import annotations

from clew.redact.shape import (
    PADDING,
    UUID,
    Kind,
    Maybe,
    Run,
    alnum,
    base64,
    digits,
    has_digit,
    hexa,
    is_mixed,
    is_no_word,
    lower,
    upper,
    word,
)

CLOUDS = (
    Kind("aws-key", ("AKIA", "ASIA", "ABIA", "ACCA"), (upper(16),)),
    Kind("aws-bedrock-key", ("ABSK", "bedrock-api-key-"), (base64(80, 400), PADDING), whole_word=True),
    Kind("aws-mws-token", ("amzn.mws.",), UUID),
    Kind("google-api-key", ("AIza",), (word(35),)),
    Kind("google-auth-key", ("AQ.Ab",), (word(40, 120),)),
    Kind("google-client-secret", ("GOCSPX-",), (word(28),)),
    Kind("google-access-token", ("ya29.",), (word(20, 1024),), whole_word=True),
    Kind("google-refresh-token", ("1//0",), (word(40, 250),)),
    Kind("firebase-key", ("APA91b",), (word(120, 180),), behind=r"[A-Za-z0-9_-]:"),
    Kind("azure-client-secret", ("Q~",), (Run("A-Za-z0-9_~.-", 31, 34),), reach=Run("A-Za-z0-9_~.-", 4, 4)),
    Kind("azure-devops-token", ("AZDO",), (alnum(4),), reach=alnum(76)),
    Kind("azure-key", ("JQQJ99",), (alnum(26),), reach=alnum(52)),
    Kind("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), (hexa(64),)),
    Kind("cloudflare-token", ("cfk_", "cfut_", "cfat_"), (word(40, 60),)),
    Kind("cloudflare-origin-key", ("v1.0-",), (hexa(24), "-", hexa(146))),
    Kind("alibaba-key", ("LTAI",), (alnum(16, 26),), check=has_digit),
    Kind("tencent-key", ("AKID",), (alnum(32, 36),), check=is_mixed),
    Kind("yandex-key", ("AQVN",), (word(35, 38),), check=is_mixed),
    Kind("openshift-token", ("sha256~",), (word(43),), check=is_mixed),
)

CODE_HOSTS = (
    Kind("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), (alnum(36, 255),)),
    Kind("github-token", ("github_pat_",), (Run("A-Za-z0-9_", 40, 255),)),
    Kind(
        "gitlab-token",
        ("glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-", "glagent-", "gloas-"),
        (word(20, 300), Maybe((".", lower(2), ".", lower(7, 9)))),
    ),
    Kind("gitlab-token", ("GR1348941",), (word(20),)),
    Kind("bitbucket-token", ("ATBB",), (alnum(24, 36),), check=has_digit),
    Kind("atlassian-token", ("ATATT3", "ATCTT3"), (word(60, 300), Maybe(("=", upper(8))))),
    Kind("trello-token", ("ATTA",), (hexa(64, 80),)),
    Kind("sourcegraph-token", ("sgp_",), (Run("A-Za-z0-9_", 40, 70),), check=has_digit),
)

CHAT = (
    Kind(
        "slack-token",
        ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxc-", "xoxe-", "xoxe.xoxb-", "xoxe.xoxp-"),
        (word(16, 400),),
    ),
    Kind("slack-token", ("xoxd-",), (Run("A-Za-z0-9%_-", 20, 400),)),
    Kind("slack-token", ("xapp-",), (digits(1), "-", word(16, 400))),
    Kind("discord-token", ("M", "N", "O"), (word(22, 27), ".", word(6), ".", word(27, 40)), is_mixed, whole_word=True),
    Kind("telegram-token", ("AA",), (word(32, 34),), behind=r"[0-9]{8}:"),
    Kind("facebook-token", tuple(f"EAA{c}" for c in "BCDFGHIJKLMNOPQRSTUVWXYZ"), (alnum(80, 400),), check=is_mixed),
)

MODEL_PROVIDERS = (
    Kind("anthropic-key", ("sk-ant-",), (word(20, 250),)),
    Kind("openai-key", ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"), (word(20, 250),)),
    Kind("openrouter-key", ("sk-or-",), (word(32, 100),)),
    Kind("langfuse-key", ("sk-lf-",), UUID),
    Kind("openai-key", ("sk-",), (alnum(32, 128),)),
    Kind("openai-key", ("sk-",), (alnum(20, 31),), check=is_no_word),
    Kind("groq-key", ("gsk_",), (alnum(40, 64),)),
    Kind("xai-key", ("xai-",), (alnum(60, 100),)),
    Kind("huggingface-token", ("hf_", "api_org_"), (alnum(30, 40),)),
    Kind("replicate-token", ("r8_",), (alnum(37, 40),)),
    Kind("perplexity-key", ("pplx-",), (alnum(40, 64),)),
    Kind("cerebras-key", ("csk-",), (alnum(40, 64),)),
    Kind("fireworks-key", ("fw_",), (alnum(20, 40),), check=is_mixed),
    Kind("together-key", ("tgp_v1_",), (word(40, 50),)),
    Kind("nvidia-key", ("nvapi-",), (word(60, 70),)),
    Kind("pinecone-key", ("pcsk_",), (word(40, 100),)),
    Kind("tavily-key", ("tvly-",), (word(20, 60),), check=has_digit),
    Kind("firecrawl-key", ("fc-",), (hexa(32),)),
    Kind("elevenlabs-key", ("sk_",), (hexa(48),)),
    Kind("langsmith-key", ("lsv2_pt_", "lsv2_sk_"), (hexa(32), "_", hexa(10))),
    Kind("jina-key", ("jina_",), (alnum(50, 70),)),
    Kind("voyage-key", ("pa-",), (word(43),), check=is_mixed),
    Kind("e2b-key", ("e2b_",), (hexa(40),)),
    Kind("wandb-key", ("wandb_v1_",), (word(40, 120),)),
)

PAYMENT_AND_MAIL = (
    Kind("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), (alnum(12, 250),)),
    Kind("stripe-webhook-secret", ("whsec_",), (Run("A-Za-z0-9+/", 24, 100), PADDING)),
    Kind("square-token", ("sq0atp-",), (word(22),)),
    Kind("square-token", ("sq0csp-",), (word(43),)),
    Kind("square-token", ("EAAA",), (word(56, 64),), check=is_mixed),
    Kind("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_", "shptka_"), (Run("0-9a-fA-F", 32, 32),)),
    Kind("braintree-token", ("access_token$production$", "access_token$sandbox$"), (lower(16), "$", hexa(32))),
    Kind("plaid-token", ("access-sandbox-", "access-development-", "access-production-"), UUID),
    Kind("flutterwave-key", ("FLWSECK-", "FLWSECK_TEST-"), (word(16, 60),)),
    Kind("easypost-key", ("EZAK", "EZTK"), (alnum(54),)),
    Kind("shippo-token", ("shippo_live_", "shippo_test_"), (hexa(40),)),
    Kind("sendgrid-key", ("SG.",), (word(20, 24), ".", word(39, 50))),
    Kind("mailgun-key", ("key-",), (hexa(32),)),
    Kind("mailchimp-key", ("-us",), (digits(1, 2),), reach=hexa(32)),
    Kind("brevo-key", ("xkeysib-", "xsmtpsib-"), (hexa(64), "-", alnum(16))),
    Kind("resend-key", ("re_",), (alnum(8), "_", alnum(22, 28)), check=is_mixed),
)

PACKAGE_REGISTRIES = (
    Kind("npm-token", ("npm_",), (alnum(36),)),
    Kind("pypi-token", ("pypi-",), (word(50, 500),)),
    Kind("rubygems-key", ("rubygems_",), (hexa(48),)),
    Kind("crates-token", ("cio",), (alnum(32),), check=is_mixed, whole_word=True),
    Kind("nuget-key", ("oy2",), (lower(43),), check=has_digit, whole_word=True),
    Kind("clojars-token", ("CLOJARS_",), (hexa(60),)),
    Kind("docker-token", ("dckr_pat_", "dckr_oat_"), (word(27, 40),)),
    Kind("artifactory-key", ("AKCp",), (alnum(60, 80),), check=is_mixed),
)

HOSTING_AND_CI = (
    Kind("vercel-token", ("vcp_", "vci_", "vca_", "vcr_", "vck_"), (alnum(24, 80),), check=has_digit),
    Kind("netlify-token", ("nfp_",), (alnum(36, 48),)),
    Kind("heroku-key", ("HRKU-",), (word(36, 70),)),
    Kind("fly-token", ("fo1_",), (word(40, 50),)),
    Kind("fly-token", ("fm2_", "fm1r_", "fm1a_"), (base64(80, 2048), PADDING), whole_word=True),
    Kind("render-key", ("rnd_",), (alnum(28, 40),), check=is_mixed),
    Kind("terraform-token", (".atlasv1.",), (word(60, 70),), reach=alnum(14)),
    Kind("doppler-token", ("dp.pt.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."), (alnum(40, 44),)),
    Kind("doppler-token", ("dp.st.",), (Maybe((Run("a-z0-9_-", 2, 35), ".")), alnum(40, 44))),
    Kind("vault-token", ("hvs.", "hvb.", "hvr."), (word(24, 300),)),
    Kind("databricks-token", ("dapi",), (hexa(32), Maybe(("-", digits(1))))),
    Kind("sentry-token", ("sntrys_",), (base64(60, 500), PADDING), whole_word=True),
    Kind("sentry-token", ("sntryu_",), (hexa(64),)),
    Kind("newrelic-key", ("NRAK-",), (upper(27),)),
    Kind("newrelic-key", ("NRII-",), (word(32),)),
    Kind("newrelic-key", ("NRRA-",), (hexa(42),)),
    Kind("newrelic-key", ("FFFFNRAL",), ("",), reach=hexa(32)),
    Kind("grafana-token", ("glc_",), (base64(32, 400), PADDING), whole_word=True),
    Kind("grafana-token", ("glsa_",), (alnum(32), "_", Run("0-9A-Fa-f", 8, 8))),
    Kind("grafana-token", ("eyJrIjoi",), (base64(60, 400), PADDING), whole_word=True),
    Kind("linear-key", ("lin_api_",), (alnum(40),)),
    Kind("linear-key", ("lin_oauth_",), (hexa(64),)),
    Kind("notion-token", ("ntn_",), (alnum(40, 60),)),
    Kind("notion-token", ("secret_",), (alnum(43),)),
    Kind("airtable-token", ("pat",), (alnum(14), ".", hexa(64)), whole_word=True),
    Kind("figma-token", ("figd_", "figu_", "figo_"), (word(36, 60),)),
    Kind("postman-key", ("PMAK-",), (hexa(24), "-", hexa(34))),
    Kind("twilio-key", ("SK",), (hexa(32),)),
    Kind("planetscale-token", ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"), (Run("A-Za-z0-9_.-", 32, 64),)),
    Kind("supabase-token", ("sbp_",), (Maybe(("v0_",)), hexa(40))),
    Kind("supabase-token", ("sb_secret_",), (word(20, 60),)),
    Kind("neon-key", ("napi_",), (lower(60, 70),)),
    Kind("mongodb-atlas-secret", ("mdb_sa_sk_",), (word(36, 48),)),
    Kind("age-key", ("AGE-SECRET-KEY-1",), (upper(58),)),
    Kind("dynatrace-token", ("dt0c01.", "dt0s01.", "dt0s08.", "dt0s16."), (upper(24), ".", upper(64))),
    Kind("buildkite-token", ("bkua_",), (hexa(40),)),
    Kind("circleci-token", ("CCIPAT_", "CCIPRJ_"), (alnum(22), "_", hexa(40))),
    Kind("pulumi-token", ("pul-",), (hexa(40),)),
    Kind("prefect-key", ("pnu_",), (alnum(36),)),
    Kind("sonar-token", ("squ_", "sqp_", "sqa_"), (hexa(40),)),
    Kind("snyk-token", ("snyk_uat.", "snyk_sat."), (hexa(8), ".", word(40, 600)), whole_word=True),
    Kind("tailscale-key", ("tskey-",), (lower(3, 8), "-", alnum(8, 20), "-", alnum(20, 40))),
    Kind("typeform-token", ("tfp_",), (Run("A-Za-z0-9_.-", 56, 64),)),
    Kind("contentful-token", ("CFPAT-",), (word(43),)),
    Kind("hubspot-token", ("pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"), UUID),
    Kind("launchdarkly-key", ("sdk-", "api-"), UUID),
    Kind("axiom-token", ("xaat-", "xapt-"), UUID),
    Kind("posthog-key", ("phx_",), (alnum(40, 50),)),
    Kind("deno-token", ("ddp_", "ddo_"), (alnum(36, 40),)),
    Kind("honeycomb-key", ("hcaik_", "hcbik_"), (lower(58),)),
    Kind("mapbox-token", ("sk.eyJ",), (word(20, 300), ".", word(20, 40)), whole_word=True),
    Kind("dropbox-token", ("sl.",), (word(130, 1500),), whole_word=True),
    Kind("1password-token", ("ops_eyJ",), (base64(200, 2000), PADDING), whole_word=True),
    Kind("rapyd-key", ("rsk_",), (hexa(56, 100),)),
)

GENERAL = (
    # Three parts when signed, two when the signature was cut off, five when encrypted.
    Kind(
        "jwt",
        ("eyJ",),
        (word(12, 8_192), ".", "eyJ", word(17, 65_536), Maybe((".", word(0, 4_096)))),
        whole_word=True,
    ),
    Kind(
        "jwt",
        ("eyJ",),
        (word(17, 8_192), ".", word(0, 2_048), ".", word(10, 64), ".", word(8, 65_536), ".", word(16, 64)),
        whole_word=True,
    ),
)

CATALOG: tuple[Kind, ...] = (
    *CLOUDS,
    *CODE_HOSTS,
    *CHAT,
    *MODEL_PROVIDERS,
    *PAYMENT_AND_MAIL,
    *PACKAGE_REGISTRIES,
    *HOSTING_AND_CI,
    *GENERAL,
)
