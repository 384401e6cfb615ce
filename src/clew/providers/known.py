"""The providers that Clew knows by name: address, wire, the variable of the key. One row a provider.

Facts only; `choose` reads them. A provider that is not here needs a base_url.
"""

# ruff: noqa: E501 (one line a provider)
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

WireName: TypeAlias = Literal["openai_chat", "responses", "anthropic"]

_DETAILS = ("reasoning_details",)
_CONTENT = ("reasoning_content",)
_TEXT = ("reasoning",)
ALL_REASONING = ("reasoning_content", "reasoning_details", "reasoning")
"""Every field under which a server of the chat wire gives reasoning."""


@dataclass(frozen=True, slots=True)
class Known:
    """How to reach a provider."""

    name: str
    base_url: str
    wire: WireName
    key_env: str
    other_names: tuple[str, ...] = ()
    other_key_envs: tuple[str, ...] = ()
    takes_back: tuple[str, ...] = ()
    """The fields under which it gives reasoning and wants it back; some refuse what they do not know."""
    key_header: str = "Authorization"


# fmt: off
KNOWN: tuple[Known, ...] = (
    Known("openai", "https://api.openai.com/v1", "openai_chat", "OPENAI_API_KEY"),
    Known("openai-responses", "https://api.openai.com/v1", "responses", "OPENAI_API_KEY", ("responses",)),
    Known("anthropic", "https://api.anthropic.com", "anthropic", "ANTHROPIC_API_KEY", ("claude",)),
    Known("openrouter", "https://openrouter.ai/api/v1", "openai_chat", "OPENROUTER_API_KEY", takes_back=_DETAILS),
    Known("deepseek", "https://api.deepseek.com/v1", "openai_chat", "DEEPSEEK_API_KEY", takes_back=_CONTENT),
    Known("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "openai_chat", "GEMINI_API_KEY", ("google",), ("GOOGLE_API_KEY",)),
    Known("xai", "https://api.x.ai/v1", "openai_chat", "XAI_API_KEY", ("grok",)),
    Known("groq", "https://api.groq.com/openai/v1", "openai_chat", "GROQ_API_KEY", takes_back=_TEXT),
    Known("mistral", "https://api.mistral.ai/v1", "openai_chat", "MISTRAL_API_KEY"),
    Known("moonshot", "https://api.moonshot.ai/v1", "openai_chat", "MOONSHOT_API_KEY", ("kimi",), takes_back=_CONTENT),
    Known("zai", "https://api.z.ai/api/paas/v4", "openai_chat", "ZAI_API_KEY", ("z.ai", "glm", "zhipu"), ("ZHIPUAI_API_KEY",), _CONTENT),
    Known("minimax", "https://api.minimax.io/v1", "openai_chat", "MINIMAX_API_KEY", takes_back=_DETAILS),
    Known("qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "openai_chat", "DASHSCOPE_API_KEY", ("dashscope", "alibaba"), takes_back=_CONTENT),
    Known("together", "https://api.together.xyz/v1", "openai_chat", "TOGETHER_API_KEY", ("togetherai",)),
    Known("fireworks", "https://api.fireworks.ai/inference/v1", "openai_chat", "FIREWORKS_API_KEY", takes_back=_CONTENT),
    Known("cerebras", "https://api.cerebras.ai/v1", "openai_chat", "CEREBRAS_API_KEY", takes_back=_TEXT),
    Known("nvidia", "https://integrate.api.nvidia.com/v1", "openai_chat", "NVIDIA_API_KEY"),
    Known("vercel", "https://ai-gateway.vercel.sh/v1", "openai_chat", "AI_GATEWAY_API_KEY", ("ai-gateway",)),
    Known("huggingface", "https://router.huggingface.co/v1", "openai_chat", "HF_TOKEN", ("hf",)),
    Known("ollama", "http://127.0.0.1:11434/v1", "openai_chat", "OLLAMA_API_KEY", takes_back=_TEXT),
    Known("lmstudio", "http://127.0.0.1:1234/v1", "openai_chat", "LMSTUDIO_API_KEY", ("lm-studio",)),
    Known("vllm", "http://127.0.0.1:8000/v1", "openai_chat", "VLLM_API_KEY", takes_back=_CONTENT),
    Known("llamacpp", "http://127.0.0.1:8080/v1", "openai_chat", "LLAMA_API_KEY", ("llama.cpp", "llama-cpp"), takes_back=_CONTENT),
)
# fmt: on

# The provider whose name a config may leave out, by how the model's name begins.
MODEL_PREFIXES: tuple[tuple[str, str], ...] = (
    ("claude", "anthropic"),
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini-", "gemini"),
    ("grok-", "xai"),
    ("deepseek-", "deepseek"),
    ("kimi-", "moonshot"),
    ("glm-", "zai"),
    ("qwen", "qwen"),
    ("mistral-", "mistral"),
    ("codestral-", "mistral"),
)
