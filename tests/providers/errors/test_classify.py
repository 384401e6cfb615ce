"""What a refusal means, over the shapes that providers use, with numbers of our own."""

# ruff: noqa: E501 (a case is a line)
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clew.providers import ErrorClass, ErrorKind, classify_error
from clew.providers.errors.table import ERROR_PATTERNS, NUMBER_PATTERNS, OUTPUT_NUMBER_PATTERNS
from tests.support.cases import every_case


@dataclass(frozen=True, slots=True)
class Case:
    status: int | None
    body: object
    kind: ErrorKind
    limit: int | None = None
    input: int | None = None
    output: int | None = None
    cap: int | None = None
    available: int | None = None
    provider: str | None = None


# fmt: off
OVERFLOWS = (
    # A size and a smaller limit, in other languages and as fields.
    Case(400, "Ihre Anfrage hat 50000 Tokens. Maximal zulässig: 32768", "prompt_too_long", 32_768, 50_000),
    Case(400, "プロンプトは 9000 トークンで、最大 8192 トークンです", "prompt_too_long", 8_192, 9_000),
    Case(413, {"input_tokens": 70_000, "limit": 65_536, "error": "too_large"}, "prompt_too_long", 65_536, 70_000),
    # Anthropic, Bedrock, Vertex
    Case(400, "prompt is too long: 212345 tokens > 200000 maximum", "prompt_too_long", 200_000, 212_345),
    Case(400, '{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length or `max_tokens` and try again"}}', "output_cap_too_large", 200_000, 190_000, 32_000, available=10_000),
    Case(400, "input length and `max_tokens` exceed context limit: 204000 + 8000 > 200000", "prompt_too_long", 200_000, 204_000, 8_000),
    Case(400, "ValidationException: Input is too long for requested model.", "prompt_too_long"),
    Case(400, {"message": "The model returned the following errors: prompt is too long: 201500 tokens > 200000 maximum"}, "prompt_too_long", 200_000, 201_500),
    Case(400, "The input token count (1200300) exceeds the maximum number of tokens allowed (1048576).", "prompt_too_long", 1_048_576, 1_200_300),
    Case(400, "The input token count exceeds the maximum number of tokens allowed 1048576.", "prompt_too_long", 1_048_576),
    Case(400, "Input token count 1,150,000 exceeds the maximum number of tokens allowed 1,048,576", "prompt_too_long", 1_048_576, 1_150_000),
    Case(400, "Unable to submit request because the input token count is 40000 but the model only supports up to 32768. Reduce the input token count and try again.", "prompt_too_long", 32_768, 40_000),
    # OpenAI and those who speak like it
    Case(400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 140512 tokens. Please reduce the length of the messages.", "prompt_too_long", 128_000, 140_512),
    Case(400, "This model's maximum context length is 128000 tokens. However, your messages resulted in 131000 tokens (129500 in the messages, 1500 in the functions). Please reduce the length of the messages or functions.", "prompt_too_long", 128_000, 131_000),
    Case(400, "This model's maximum context length is 16385 tokens. However, you requested 17000 tokens (12000 in the messages, 1000 in the functions, and 4000 in the completion). Please reduce the length of the messages, functions, or completion.", "output_cap_too_large", 16_385, 13_000, 4_000, available=3_385),
    Case(400, "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion).", "prompt_too_long", 65_536, 66_000, 4_000),
    Case(400, "This model's maximum context length is 8192 tokens. However, you requested 15250 tokens in the messages, Please reduce the length of the messages.", "prompt_too_long", 8_192, 15_250),
    Case(None, '{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model. Please adjust your input and try again."}}}', "prompt_too_long"),
    Case(200, 'data: {"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded"}}', "prompt_too_long"),
    Case(400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens. Please reduce the length of the messages.", "prompt_too_long", 272_000, 300_123),
    # In any words: a size and a smaller limit
    Case(400, "Your prompt weighs in at 52,310 tokens while the model handles at most 40,960.", "prompt_too_long", 40_960, 52_310),
    Case(400, "This model only supports 4096 tokens, but your prompt contained 5012.", "prompt_too_long", 4_096, 5_012),
    Case(400, "Model context exhausted: need 34021, have 32768", "prompt_too_long", 32_768, 34_021),
    Case(400, "Requested 9000 tokens (8000 in prompt; 1000 for the completion) but the context window is 8192", "output_cap_too_large", 8_192, 8_000, 1_000, available=192),
    Case(400, "ContextLengthError: 70000 > 65536", "prompt_too_long", 65_536, 70_000),
    # vLLM, SGLang, TGI, TensorRT-LLM, NIM
    Case(400, "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768 tokens and your request has 5000 input tokens (32000 > 32768 - 5000).", "output_cap_too_large", 32_768, 5_000, 32_000, available=27_768),
    Case(400, "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens. Please reduce the length of the input messages.", "prompt_too_long", 4_096, 5_000),
    Case(400, "This model's maximum context length is 128000 tokens. However, you requested 65000 output tokens and your prompt contains at least 63001 input tokens, for a total of at least 128001 tokens.", "output_cap_too_large", 128_000, 63_001, 65_000, available=64_999),
    Case(400, "The decoder prompt (length 9001) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens.", "prompt_too_long", 8_192, 9_001),
    Case(400, "The prompt (total length 40960) is too long to fit into the model (context length 32768).", "prompt_too_long", 32_768, 40_960),
    Case(400, "Input prompt (2750 tokens) is too long and exceeds limit of 2048", "prompt_too_long", 2_048, 2_750),
    Case(400, "max_tokens must be at least 1, got -2048.", "prompt_too_long"),
    Case(400, "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 140000 tokens: 120000 tokens from the input messages and 20000 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.", "output_cap_too_large", 131_072, 120_000, 20_000, available=11_072),
    Case(400, "The input (140000 tokens) is longer than the model's context length (131072 tokens).", "prompt_too_long", 131_072, 140_000),
    Case(422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 6500 `inputs` tokens and 2000 `max_new_tokens`", "output_cap_too_large", 8_192, 6_500, 2_000, available=1_692),
    Case(422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5120", "prompt_too_long", 4_095, 5_120),
    Case(500, "Cannot process new request: Prompt length (5060) exceeds maximum sequence length (2048)", "prompt_too_long", 2_048, 5_060),
    Case(500, "Encountered an error when fetching new request: Prompt length (9000) exceeds maximum input length (8192). Set log level to info", "prompt_too_long", 8_192, 9_000),
    Case(400, "The sum of prompt length (8000.0), query length (0) should not exceed max_num_tokens (4096)", "prompt_too_long", 4_096, 8_000),
    # Local
    Case(400, {"error": {"code": 400, "message": "request (40123 tokens) exceeds the available context size (16384 tokens), try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 40123, "n_ctx": 16384}}, "prompt_too_long", 16_384, 40_123),
    Case(500, "the request exceeds the available context size, try increasing it", "prompt_too_long"),
    Case(400, "Requested tokens (5000) exceed context window of 4096", "prompt_too_long", 4_096, 5_000),
    Case(400, "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input", "prompt_too_long"),
    Case(400, "The number of tokens to keep from the initial prompt (9800) is greater than the context length (8192).", "prompt_too_long", 8_192, 9_800),
    Case(400, "Trying to keep the first 14000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.", "prompt_too_long", 4_096, 14_000),
    Case(400, "Reached context length of 4096 tokens with model (arch:llama) that does not currently support mid-generation context overflow. Try reloading with a larger context length or shortening the prompt/chat.", "prompt_too_long", 4_096),
    Case(400, "prompt too long; exceeded max context length by 4096 tokens", "prompt_too_long"),
    Case(400, "input length exceeds maximum context length", "prompt_too_long"),
    Case(None, "This model maximum context length is 2048 tokens. However, your messages resulted in over 2900 tokens and max_tokens is 512.", "prompt_too_long", 2_048, 2_900, 512),
    Case(400, "This model maximum context length is 8192 tokens. However, your messages resulted in over 800 tokens and max_tokens is 8000.", "output_cap_too_large", 8_192, 800, 8_000, available=7_392),
    Case(400, "Prompt has 300,000 tokens, but the configured context size is 131,072 tokens", "prompt_too_long", 131_072, 300_000),
    Case(400, "model max length exceeded, max length: 32768", "prompt_too_long", 32_768),
    Case(400, "[original: x] Cannot truncate to 90000, required 120220: text:120000, control:9", "prompt_too_long", 90_000, 120_220),
    Case(400, "You passed 98500 input tokens and requested 33000 output tokens. However, the model's context length is only 131072 tokens, resulting in a maximum input length of 98072 tokens.", "output_cap_too_large", 131_072, 98_500, 33_000, available=32_572),
    Case(400, "The sum of input tokens (130000) and max_tokens (8192) must not exceed 131072", "output_cap_too_large", 131_072, 130_000, 8_192, available=1_072),
    Case(400, "prompt length 30000 plus max_tokens 4096 exceeds the maximum of 32768", "output_cap_too_large", 32_768, 30_000, 4_096, available=2_768),
    Case(413, "The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (7968).", "prompt_too_long", 7_968),
    Case(400, "length of prompt_tokens (5000) must be less than max_seq_len (4096).", "prompt_too_long", 4_096, 5_000),
    Case(400, "the model's max_prompt_length 4096 exceeded by prompt of 5000 tokens", "prompt_too_long", 4_096, 5_000),
    Case(400, "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model", "prompt_too_long", 4_096, 5_000),
    Case(403, "Context window exceeded: 300100 tokens exceeds the limit of 272000 tokens", "prompt_too_long", 272_000, 300_100),
    Case(400, "context too long: have 70000 tokens, model supports 65536", "prompt_too_long", 65_536, 70_000),
    Case(None, "The agent ran out of room in the model's context window.", "prompt_too_long"),
    Case(200, "token数量超过上限,需要精简", "prompt_too_long"),
    Case(400, "Too many input tokens. Max input tokens: 8192, request input token count: 10000", "prompt_too_long", 8_192),
    # Others
    Case(400, "This endpoint's maximum context length is 200000 tokens. However, you requested about 214000 tokens (150000 of text input, 14000 of tool input, 50000 in the output). Please reduce the length of either one", "output_cap_too_large", 200_000, 164_000, 50_000, available=36_000),
    Case(400, '{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\\"message\\":\\"input length and `max_tokens` exceed context limit: 149000 + 64000 > 204650, decrease input length or `max_tokens` and try again\\"}","provider_name":"Amazon Bedrock"}}}', "output_cap_too_large", 204_650, 149_000, 64_000, available=55_650),
    Case(400, "prompt token count of 145000 exceeds the limit of 128000", "prompt_too_long", 128_000, 145_000),
    Case(400, "This model's maximum prompt length is 256000 but the request contains 270001 tokens.", "prompt_too_long", 256_000, 270_001),
    Case(400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 270500)", "prompt_too_long", 262_144),
    Case(400, "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length", "prompt_too_long", 131_072, 140_000),
    Case(400, "Please reduce the length of the messages or completion. Current length is 43210 while limit is 40000", "prompt_too_long", 40_000, 43_210),
    Case(400, "SambanovaException - The maximum context length of Some-Model-V3 is 32768. However, answering your request will take 39999 tokens. Please reduce the length of the messages or the specified max_completion_tokens value.", "prompt_too_long", 32_768),
    Case(400, "The prompt is too long: 140000, model maximum context length: 131071", "prompt_too_long", 131_071, 140_000),
    Case(400, '{"code":20015,"message":"number of input tokens (204900) has exceeded max_prompt_tokens (202752) limit.","data":null}', "prompt_too_long", 202_752, 204_900),
    Case(400, "Input length 265000 exceeds the maximum allowed input length of 262144 tokens.", "prompt_too_long", 262_144, 265_000),
    Case(400, "too many tokens: size limit exceeded by 1200 tokens. Try using shorter or fewer inputs. The limit for this model is 128000 tokens.", "prompt_too_long", 128_000),
    Case(400, "AI21 error: Request too many tokens: 1999 + 50 > 2048", "output_cap_too_large", 2_048, 1_999, 50, available=49),
    Case(400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", "prompt_too_long", 129_024),
    Case(400, '{"error":{"code":"1261","message":"Prompt \\u8d85\\u957f"}}', "prompt_too_long"),
    Case(400, "输入内容长度 140000 超过模型最大上下文长度 131072", "prompt_too_long", 131_072, 140_000),
    Case(400, "您的输入过长，请缩短后重试", "prompt_too_long"),
    Case(400, "prompt tokens too long", "prompt_too_long"),
    Case(400, "invalid params, context window exceeds limit (2013)", "prompt_too_long"),
    Case(400, "Model context window is 128k tokens, you requested 256k tokens", "prompt_too_long", 128_000),
    Case(400, "litellm.ContextWindowExceededError: litellm.BadRequestError: Conversation does not fit", "prompt_too_long"),
    Case(400, "Total tokens of image and text exceed max message tokens. Request id: abc", "prompt_too_long"),
    Case(400, "Prompt has 2.000.000 tokens: the conversation is too long for this model", "prompt_too_long"),
    Case(400, "Input tokens (30000) + max_tokens (5000) exceed the limit of 32768", "output_cap_too_large", 32_768, 30_000, 5_000, available=2_768),
    Case(400, "max_tokens (40000) exceeds the model's context length of 32768", "output_cap_too_large", 32_768, None, 40_000),
    Case(400, "Cannot truncate prompt with n_keep (16000) >= n_ctx (8192)", "prompt_too_long", 8_192, 16_000),
    Case(400, "too many tokens: total number of tokens (prompt and prediction) cannot exceed 4096 - received 7000. Try a shorter prompt.", "prompt_too_long", 4_096),
    Case(400, "输入 token 数不能超过 32768", "prompt_too_long", 32_768),
    Case(400, {"error": {"code": "1261", "message": "失败"}}, "prompt_too_long", provider="zhipu"),
    Case(200, {"base_resp": {"status_code": 1039, "status_msg": "failed"}}, "prompt_too_long", provider="minimax"),
    Case(200, {"error_code": 336103, "error_msg": "failed"}, "prompt_too_long", provider="baidu-qianfan"),
    Case(413, "Request body too large for small model. Max size: 16000 tokens.", "prompt_too_long", 16_000),
    Case(400, "tokens in request more than max tokens allowed", "prompt_too_long"),
    Case(400, "model 'some' has 2048 tokens maximum, 2600 tokens context requested", "prompt_too_long", 2_048),
    Case(400, "max context length exceeded: 150000 tokens (limit 131072)", "prompt_too_long", 131_072, 150_000),
)

OUTPUT_CAPS = (
    Case(400, "The requested maximum output (64000) is above this model's output limit of 32000 tokens", "output_cap_too_large", None, None, 64_000, 32_000, 32_000),
    Case(422, {"detail": [{"loc": ["body", "max_tokens"], "msg": "Input should be less than or equal to 8192", "input": 16000}]}, "output_cap_too_large", cap=8_192, available=8_192),
    Case(400, "max_new_tokens has to be smaller than 2049", "output_cap_too_large", cap=2_048, available=2_048),
    Case(400, "You asked for 9000; this model writes up to 8192 output tokens", "output_cap_too_large", None, None, 9_000, 8_192, 8_192),
    Case(400, "Too much asked: the maximum number of output tokens for this model: 8192", "output_cap_too_large", cap=8_192, available=8_192),
    Case(402, "This request requires more credits, or fewer max_tokens. You requested up to 30000 tokens, but can only afford 12345.", "output_cap_too_large", None, None, 30_000, 12_345, 12_345),
    Case(None, "ValueError: Requested tokens exceed context window of 1024", "output_cap_too_large", 1_024),
    Case(400, "max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens for some-model", "output_cap_too_large", None, None, 70_000, 64_000, 64_000),
    Case(400, "max_tokens is too large: 21500. This model supports at most 16384 completion tokens, whereas you provided 21500.", "output_cap_too_large", None, None, 21_500, 16_384, 16_384),
    Case(400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", "output_cap_too_large", cap=8_192, available=8_192),
    Case(400, "Range of max_tokens should be [1, 8192]", "output_cap_too_large", cap=8_192, available=8_192),
    Case(400, "Unable to submit request because it has a maxOutputTokens value of 70000 but the supported range is from 1 (inclusive) to 65537 (exclusive). Update the value and try again.", "output_cap_too_large", None, None, 70_000, 65_536, 65_536),
    Case(400, "An error occurred (ValidationException) when calling the ConverseStream operation: The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.", "output_cap_too_large", cap=4_096, available=4_096),
    Case(422, "Input validation error: `max_new_tokens` must be <= 1024. Given: 4096", "output_cap_too_large", None, None, 4_096, 1_024, 1_024),
    Case(400, "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 128000, but got 200000 instead.", "output_cap_too_large", None, None, 200_000, 128_000, 128_000),
    Case(400, "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model", "output_cap_too_large", cap=8_192, available=8_192),
    Case(400, "{'code': 70000, 'msg': 'Exceeding the limiting length: [max_tokens should be less or equal to 131072]'}", "output_cap_too_large", cap=131_072, available=131_072),
    Case(400, "max_tokens参数非法。请检查文档。", "output_cap_too_large"),
    Case(400, "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 8000.", "output_cap_too_large", None, None, 8_000, 4_096, 4_096),
    Case(400, "The parameter `max_tokens` specified in the request is not valid: integer above maximum value, expected a value <= 12288, but got 16384 instead.", "output_cap_too_large", None, None, 16_384, 12_288, 12_288),
    Case(400, "Model parameter max_tokens should be less than or equal to 12288.0.", "output_cap_too_large", cap=12_288, available=12_288),
)

# What the prompt leaves room for is stated: the prompt fits, whatever else the sentence speaks of.
OUTPUT_ROOM = (
    Case(400, "max_tokens: 32768 > context_window: 200000 - input_tokens: 190000 = available_tokens: 10000", "output_cap_too_large", 200_000, 190_000, 32_768, available=10_000),
    Case(400, "max_tokens=46380 exceeds available_tokens=46293", "output_cap_too_large", None, None, 46_380, available=46_293),
    Case(400, "tokens_available: 2768, max_tokens: 4096", "output_cap_too_large", None, None, 4_096, available=2_768),
    Case(400, "max_tokens too high. Available: 1500", "output_cap_too_large", available=1_500),
    Case(400, "Requested 5000 output tokens but only 3000 are available for the completion.", "output_cap_too_large", None, None, 5_000, available=3_000),
    Case(400, "The model's context length is 8192 tokens and your prompt has 6000 tokens, so only 2192 tokens are available for output, but 4000 were requested", "output_cap_too_large", 8_192, 6_000, 4_000, available=2_192),
    Case(400, "Model has 8192 tokens; prompt uses 6000; 2192 tokens remain for completion, 4000 requested", "output_cap_too_large", 8_192, 6_000, 4_000, available=2_192),
    Case(400, "512 output tokens left, 900 were requested", "output_cap_too_large", None, None, 900, available=512),
    Case(400, "available output tokens: 812, requested: 4096", "output_cap_too_large", None, None, 4_096, available=812),
    Case(400, "The prompt uses 30000 tokens, leaving 2768 tokens for generation. Requested max_new_tokens: 4096", "output_cap_too_large", None, 30_000, 4_096, available=2_768),
    Case(400, "This request asks for 16000 tokens. The model can only produce 9000 more tokens given the prompt.", "output_cap_too_large", None, None, 16_000, available=9_000),
    Case(400, "Requested completion of 8000 tokens exceeds the 1200 tokens available", "output_cap_too_large", available=1_200),
    Case(400, {"error": {"message": "output budget too large", "requested": 32000, "available": 27768}}, "output_cap_too_large", available=27_768),
    Case(400, "Please lower max_tokens to 2768 or less.", "output_cap_too_large", available=2_768),
    # No room at all is a prompt that has to shrink.
    Case(400, "max_tokens=4096, available_tokens=0", "prompt_too_long", None, None, 4_096),
    Case(400, "available_tokens: -512, input_tokens: 33280", "prompt_too_long", None, 33_280),
    # What is available is not room for output.
    Case(400, "context: 8192 tokens available, prompt has 9000 tokens, output of 500 tokens requested", "prompt_too_long", 8_192, 9_000),
    Case(400, "The request exceeds the available context size (4096 tokens). n_prompt_tokens=5000.", "prompt_too_long", 4_096, 5_000),
    Case(402, "Insufficient credits for this completion: 200 tokens left", "quota"),
    Case(429, "output tokens per minute: 0 tokens remaining", "rate_limit"),
)

MEDIA = (
    Case(400, "messages.3.content: too many images and documents: 101 > 100", "payload_too_large"),
    Case(400, "At most 0 image(s) may be provided in one prompt.", "payload_too_large"),
    Case(400, "This model supports up to 5 images per request, got 7", "payload_too_large"),
    Case(400, "Request contains 4 documents but at most 3 are allowed", "payload_too_large"),
    Case(400, "The number of images (21) exceeds the limit (20)", "payload_too_large"),
    Case(400, "The document contains 1204 pages which exceeds the supported page limit of 1000.", "payload_too_large"),
    Case(400, "Number of pages exceeds maximum of 100", "payload_too_large"),
    Case(400, "max_images=8 but 9 images were provided", "payload_too_large"),
    Case(400, "请求中的图像过多: 提供了 11 个图像，但模型最多支持 10 个图像。", "payload_too_large"),
    Case(400, "Document size (34381195) exceeds the limit: 20971520.", "payload_too_large"),
    Case(400, "Your request has 3 images and 150000 tokens, which exceeds the maximum context length of 131072 tokens", "prompt_too_long", 131_072),
    Case(429, "Too many images per minute: limit 5 images per minute", "rate_limit"),
)

OTHER_PARTS = (
    Case(400, "The prompt contains an image item with length 6042, which exceeds the pre-allocated encoder cache size 4800.", "bad_request"),
    Case(400, "The image encoder accepts at most 1024 tokens, the image has 2304 tokens", "bad_request"),
    Case(400, "Input text for the embedding model is too long: 900 tokens > 512 maximum", "bad_request"),
    Case(400, "This model's maximum context length is 8192 tokens (text-embedding-3-small), however you requested 9000 tokens", "bad_request"),
    Case(400, "query for reranker exceeds 512 tokens (730)", "bad_request"),
    Case(400, "The encoder prompt (length 3001) is longer than the maximum model length of 1500.", "bad_request"),
    Case(400, "CLIP text encoder: 120 tokens exceed the maximum sequence length of 77", "bad_request"),
    # A name in the config of the language model itself.
    Case(400, "sequence length 3000 is greater than max_position_embeddings 2048", "prompt_too_long", 2_048, 3_000),
)

DEADLINES = (
    Case(500, "rpc error: code = DeadlineExceeded desc = context deadline exceeded", "network"),
    Case(499, {"error": "context canceled"}, "network"),
    Case(400, "context cancelled while waiting for the model; prompt is 120000 tokens, context length 8192", "network"),
    Case(504, {"error": {"message": "Deadline expired before operation could complete.", "status": "DEADLINE_EXCEEDED"}}, "network"),
)

NOT_OVERFLOW = (
    Case(429, "Rate limit reached for some-model in organization org-x on tokens per min (TPM): Limit 30000, Used 28000, Requested 5000. Please try again in 6s.", "rate_limit"),
    Case(429, "Request too large for some-model in organization org-x on tokens per min (TPM): Limit 30000, Requested 43000. The input or output tokens must be reduced in order to run successfully.", "rate_limit"),
    Case(413, "Request too large for model `m` in organization `o` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 9400, please reduce your message size and try again.", "rate_limit"),
    Case(429, "This request would exceed your organization's rate limit of 40,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later.", "rate_limit"),
    Case(429, "Number of request tokens has exceeded your per-minute rate limit", "rate_limit"),
    Case(429, "ThrottlingException: Too many tokens, please wait before trying again.", "rate_limit"),
    Case(400, "Too many tokens per day, please wait before trying again.", "rate_limit"),
    Case(429, "request reached organization TPD rate limit, current: 1600000, limit: 1500000", "rate_limit"),
    Case(429, "Requests rate limit exceeded", "rate_limit"),
    Case(429, '{"error":{"code":429,"message":"You exceeded your current quota. Quota exceeded for metric: x/input_token_count, limit: 250000","status":"RESOURCE_EXHAUSTED"}}', "rate_limit"),
    Case(429, "该模型当前访问量过大，请您稍后再试", "rate_limit"),
    Case(429, "", "rate_limit"),
    Case(429, "Too many tokens in your request", "rate_limit"),
    Case(429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota, please check your plan and billing details."}}, "quota"),
    Case(402, "This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 0.", "quota"),
    Case(402, "Prompt tokens limit exceeded: 230100 > 91000. To increase, visit https://example.invalid/settings/keys and create a key with a higher monthly limit", "quota"),
    Case(400, "Your credit balance is too low to access the API.", "quota"),
    Case(400, "Too many tokens in batch. Max is 16384 got 20555", "bad_request"),
    Case(422, "batch size 200 > maximum allowed batch size 32", "bad_request"),
    Case(400, "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 140 instead.", "bad_request"),
    Case(400, "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but got a string with length 2000 instead.", "bad_request"),
    Case(400, "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 6316852 bytes > 5242880 bytes", "payload_too_large"),
    Case(400, "At least one of the image dimensions exceed max allowed size: 8000 pixels", "bad_request"),
    Case(400, "`max_tokens` must be greater than `thinking.budget_tokens`.", "bad_request"),
    Case(400, "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 4 instead.", "bad_request"),
    Case(400, "max_tokens must be at least 1, got -1.", "bad_request"),
    Case(400, "Model context window too small (minimum is 128k tokens)", "bad_request"),
    Case(400, "prompt token count of 900 exceeds the limit of 0", "bad_request"),
    Case(None, "The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (40960).", "other"),
    Case(413, "Request Entity Too Large", "payload_too_large"),
    Case(413, "", "payload_too_large"),
    Case(400, "Request payload size exceeds the limit: 20971520 bytes.", "payload_too_large"),
    Case(413, "Maximum request body size 4194304 exceeded, actual body size 5060562", "payload_too_large"),
    Case(400, "Invalid 'input[2].content[0].text': string too long. Expected a string with maximum length 10485760, but got a string with length 12000000 instead.", "payload_too_large"),
    Case(413, '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum allowed number of bytes."}}', "payload_too_large"),
    Case(400, "String value length (20104016) exceeds the maximum allowed (20000000, from `StreamReadConstraints.getMaxStringLength()`)", "payload_too_large"),
    Case(400, "Invalid 'input': maximum request size is 300000 tokens per request.", "bad_request"),
    Case(400, "The max allowed tokens per submitted batch is 120000. Your batch has 130000 tokens.", "bad_request"),
    Case(400, "The long context beta is not yet available for this subscription.", "bad_request"),
    Case(400, "The response was filtered due to the prompt triggering a content management policy. Please modify your prompt.", "bad_request"),
    Case(500, "RESOURCE_EXHAUSTED: Received message larger than max (6000000 vs. 4194304)", "payload_too_large"),
    Case(400, "Value at 'body' failed to satisfy constraint: Member must have length less than or equal to 25000000", "payload_too_large"),
    Case(400, "A request can not be more than 20971520 bytes", "payload_too_large"),
    Case(400, "total message size 10100000 exceeds limit 2097152", "payload_too_large"),
    Case(429, "You have hit your usage limit. Try again later.", "rate_limit"),
    Case(429, "账号今日 token 使用量已超过上限 500000", "rate_limit"),
    Case(429, "token quota exceeded for today, limit 500000 tokens", "rate_limit"),
    Case(429, "Extra usage is required for long context requests.", "rate_limit"),
    Case(None, "Token indices sequence length is longer than the specified maximum sequence length for this model (20000 > 16384)", "other"),
    Case(None, "File content (14200 tokens) exceeds maximum allowed tokens (10000). Use offset and limit to read a part.", "other"),
    Case(None, "The response exceeded the 32000 output token maximum.", "other"),
    Case(400, {"error": {"message": "invalid params, context window exceeds limit (2013)", "http_code": "400"}}, "prompt_too_long"),
    Case(529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "overloaded"),
    Case(503, "The model is overloaded. Please try again later.", "overloaded"),
    Case(500, "Internal server error", "overloaded"),
    Case(401, "Incorrect API key provided", "auth"),
    Case(400, "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted'}]", "bad_request"),
    Case(403, "", "auth"),
    Case(404, "The model `x` does not exist", "bad_request"),
    Case(400, "Unsupported value: 'temperature' does not support 0.2 with this model.", "bad_request"),
    Case(None, TimeoutError("timed out"), "network"),
    Case(None, ConnectionResetError(104, "Connection reset by peer"), "network"),
    Case(None, "APIConnectionError: Connection error.", "network"),
    Case(None, "getaddrinfo ENOTFOUND api.example.invalid", "network"),
    Case(None, None, "other"),
    Case(None, "something odd", "other"),
)
# fmt: on

ALL_CASES = OVERFLOWS + OUTPUT_CAPS + OUTPUT_ROOM + MEDIA + OTHER_PARTS + DEADLINES + NOT_OVERFLOW
BODY = "This model's maximum context length is 131,072 tokens. However, your messages resulted in 140,000 tokens."


def read(case: Case, provider: str | None) -> Case:
    answer = classify_error(case.status, case.body, provider)
    return Case(
        case.status,
        case.body,
        answer.kind,
        answer.limit,
        answer.input_tokens,
        answer.requested_output,
        answer.output_cap,
        answer.available_output,
        case.provider,
    )


@every_case("case", ALL_CASES)
def test_a_refusal_is_read_with_its_numbers(case: Case) -> None:
    assert read(case, case.provider) == case


@every_case("case", [case for case in ALL_CASES if not case.provider])
def test_a_provider_that_does_not_fit_changes_nothing(case: Case) -> None:
    assert read(case, "somebody-else") == case


@every_case(
    "wrapped",
    [
        BODY.encode(),
        {"error": {"message": BODY}},
        [{"error": {"message": BODY}}],
        json.dumps({"error": {"message": BODY}}),
        json.dumps({"error": {"message": json.dumps({"error": {"message": BODY}})}}),
        json.dumps({"raw": json.dumps({"raw": json.dumps({"message": BODY})})}),
        repr({"error": {"message": BODY, "code": None}}),
        f"<html><body><h1>400</h1><p>{BODY.replace(chr(39), '&#39;')}</p></body></html>",
        f"event: error\ndata: {json.dumps({'error': BODY})}\n\n",
        ValueError(BODY),
        BODY.upper(),
        BODY.replace(" ", "\n"),
        f"see https://example.invalid/docs/rate-limits?n=4096 for help: {BODY}",
    ],
)
def test_the_wrapping_does_not_matter(wrapped: object) -> None:
    answer = classify_error(400, wrapped)
    assert (answer.kind, answer.limit, answer.input_tokens) == ("prompt_too_long", 131_072, 140_000)


def test_an_exception_speaks_through_its_cause() -> None:
    outer = RuntimeError("request failed")
    outer.__cause__ = ConnectionRefusedError(111, "Connection refused")
    assert classify_error(None, outer).kind == "network"


def test_the_end_of_a_long_trace_is_read() -> None:
    assert classify_error(None, "frame\n" * 2_000_000 + BODY).limit == 131_072


def test_the_beginning_of_a_long_body_is_read() -> None:
    assert classify_error(400, BODY + " x" * 5_000_000).limit == 131_072


def test_a_wrong_status_does_not_hide_an_overflow() -> None:
    assert {classify_error(status, BODY).kind for status in (200, 400, 413, 429, 500, None)} == {"prompt_too_long"}


def test_a_bare_code_counts_only_for_the_provider_it_belongs_to() -> None:
    body = {"error": {"code": "1261", "message": "失败"}}
    assert classify_error(400, body, "zhipu").kind == "prompt_too_long"
    assert classify_error(400, body).kind == "bad_request"


def test_a_prompt_that_fills_the_window_leaves_no_output_to_lower() -> None:
    answer = classify_error(400, "input length and `max_tokens` exceed context limit: 200000 + 100 > 200000")
    assert answer == ErrorClass(
        "prompt_too_long", 200_000, input_tokens=200_000, requested_output=100, matched="sum_over_window"
    )


def test_a_prompt_counted_only_so_far_says_so() -> None:
    body = "maximum context length is 9000 tokens. You requested 4000 output tokens and your prompt contains at least 5001 input tokens"
    assert classify_error(400, body).input_is_at_least


@every_case(
    ("body", "most"),
    [
        ("At most 5 image(s) may be provided in one request.", 5),
        ("too many images and documents: 120 + 0 > 100", 100),
        ("request contains 54 images, exceeding the maximum of 50 allowed per request", 50),
        ("Exceeded maximum number of images (50) allowed in the request.", 50),
        ("Too many images in request. Max is 10.", 10),
        # A number of pages says nothing of how many documents fit.
        ("A maximum of 100 PDF pages may be provided.", None),
        ("too many images", None),
    ],
)
def test_how_many_pictures_and_documents_are_taken_is_read(body: str, most: int | None) -> None:
    answer = classify_error(400, body)
    assert (answer.is_about_media, answer.media_limit) == (True, most)


def test_the_row_that_fired_is_named() -> None:
    assert classify_error(429, "5 RPM").matched == "per_time"
    assert classify_error(418, "teapot").matched == "status 418"


def test_every_pattern_compiles() -> None:
    assert all(row.regex.pattern for row in ERROR_PATTERNS)
    assert all(pattern.regex.groupindex for pattern in NUMBER_PATTERNS + OUTPUT_NUMBER_PATTERNS)


def test_no_two_rows_share_a_name() -> None:
    assert len({row.name for row in ERROR_PATTERNS}) == len(ERROR_PATTERNS)


def test_every_row_has_a_case_that_it_decides() -> None:
    fired = {classify_error(case.status, case.body, case.provider).matched for case in ALL_CASES}
    assert {row.name for row in ERROR_PATTERNS} - fired == set()


@every_case(
    "body",
    [
        "Die Ausgabe von 10000 Tokens überschreitet das Maximum von 8192",
        "Anfrage 20000 Token, 10000 Token pro Minute erlaubt",
        "Le prompt dépasse: 70000 tokens par minute, maximum 60000",
        "Ungültige Anfrage 20251119: Feld 4096 fehlt, token abgelaufen",
        "La respuesta de 9000 tokens supera el límite de 8192 tokens de salida",
        "入力は正常ですが、出力トークン 9000 が上限 8192 を超えています",
        "输入 5000 token, 每分钟 上限 4000",
        "Длина ответа 9000 токенов больше 8192; запрос принят",
        '{"prompt": "ok", "port": 8080, "id": 4711, "detail": "token expired"}',
        "Kontext 12345 nicht gefunden (Fehler 1001), Token ungültig",
        "prompt_tokens=5000 max=4096 retries, output",
        "entrada inválida en la línea 34567, columna 1200: token inesperado",
        "Anfrage mit 9000 Tokens: Antwort auf maximal 4096 Tokens begrenzt",
        "입력 5000 토큰, 출력 최대 4096",
    ],
)
def test_two_numbers_that_are_no_size_and_window_give_no_limit(body: str) -> None:
    assert classify_error(400, body).limit is None


# -- every recorded error body, where the recordings are present -------------------------------------------------------

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data" / "provider_errors.jsonl"
FINE_KINDS = {"overloaded", "auth", "quota", "bad_request", "network"}


def recorded() -> list[dict[str, Any]]:
    if not RECORDED.exists():
        return []
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines() if line.strip()]


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded errors are not here")
@pytest.mark.parametrize("named", [True, False], ids=["provider named", "provider unknown"])
@pytest.mark.parametrize("sample", recorded(), ids=lambda sample: str(sample.get("id")))
def test_a_recorded_error_is_read_right(sample: dict[str, Any], named: bool) -> None:
    answer = classify_error(sample.get("status"), sample["body"], sample["provider"] if named else None)
    # A label may come from the thread around an error; what its body breaks off before cannot be read.
    limit = sample.get("limit") if str(sample.get("limit")) in sample["body"].replace(",", "") else None
    assert ("other" if answer.kind in FINE_KINDS else answer.kind, answer.limit) == (sample["label"], limit)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "messages: expected at most 2048 items, input has 3000", "bad_request"),
        (400, "messages: the request has 120 of them, at most 100 are allowed", "bad_request"),
        (400, "prompt template 4096 not found, latest is 2048", "bad_request"),
        (429, "Input tokens used 120000 this minute, limit 100000", "rate_limit"),
    ],
)
def test_two_numbers_are_not_always_a_prompt_and_a_window(status: int, message: str, kind: str) -> None:
    found = classify_error(status, {"error": {"message": message}})
    assert (found.kind, found.limit) == (kind, None)
