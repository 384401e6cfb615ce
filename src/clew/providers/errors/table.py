"""The sentences with which providers refuse a request, one row each. A new wording is one new row.

A row is a regular expression with placeholders for numbers: `<limit>` the context window, `<input>` the prompt,
`<output>` the requested output, `<total>` prompt and output together, `<cap>` the most output the model gives, `<under>`
a cap that is itself too much, `<room>` the output that this prompt leaves room for, `<count>` how many pictures or
documents are taken, `<over>` how much too long, `<least>` a prompt that was counted only so far, `<n>` any number. `…` matches a short piece of the same sentence, `……` one that may run into the next, `‥` a word or two (a row
with many gaps needs short ones to stay quick). Rows match what `flat_text` returns: lower case, one line, every quote
mark a `'`.

Rows are tried from the top and the first that matches gives the verdict, so what only looks like overflow is first.
What the numbers mean together is computed in `classify`.
"""

# ruff: noqa: E501 (a row is a line, however long its sentence)
from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

ErrorKind: TypeAlias = Literal[
    "prompt_too_long",
    "output_cap_too_large",
    "payload_too_large",
    "rate_limit",
    "overloaded",
    "auth",
    "quota",
    "bad_request",
    "network",
    "other",
]

# `context` is not a kind: whether the prompt or the output is too large is decided by the numbers.
Verdict: TypeAlias = ErrorKind | Literal["context"]

# A count of tokens: "131072", "131,072", "128k", "1m", "12288.0"; not a part of a word, an address or a version, and
# not a number of bytes, characters, pixels, seconds or money.
_NUMBER: Final = (
    r"(?<![a-z0-9_.$€£])(?<!\d,)(?>(?:\d{1,3}(?:[,_]\d{3})+(?!\d)|\d{1,12}(?!\d))(?:\.\d{1,3}(?!\d))?(?: ?[km](?![a-z0-9]))?)"
    r"(?!,\d{3}(?!\d))(?!\.\d)(?!(?!tokens?)[a-z_])(?! ?(?:bytes?|[kmg]i?b|chars?|characters?|pixels?|px|seconds?|secs?|s|ms|%)(?![a-z0-9]))"
)
_GAP: Final = r"(?:(?!\. |',|'\}).){0,80}?"
_WIDE_GAP: Final = r".{0,100}?"
_SHORT_GAP: Final = r"(?:(?!\. |',|'\}).){0,12}?"
_PLACEHOLDER: Final = re.compile(r"<([a-z]+)>")


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression of a row, compiled when first needed: most programs never see an error."""
    for mark, gap in (("……", _WIDE_GAP), ("…", _GAP), ("‥", _SHORT_GAP)):
        pattern = pattern.replace(mark, gap)
    return re.compile(_PLACEHOLDER.sub(_expand_placeholder, pattern))


def _expand_placeholder(found: re.Match[str]) -> str:
    name = found[1]
    return f"'?{_NUMBER}" if name == "n" else f"'?(?P<{name}>{_NUMBER})"


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """One sentence of providers, and the kind of error that it means."""

    name: str
    verdict: Verdict
    pattern: str
    not_status: frozenset[int] = frozenset()
    """Statuses with which the sentence is too vague to mean this."""
    providers: tuple[str, ...] = ()
    """If given, the row is only for these: a bare error code has other meanings elsewhere."""
    least_limit: int = 0
    """A smaller limit is no window: counts of items and ranges of settings have the same form."""

    @property
    def regex(self) -> re.Pattern[str]:
        return compile_pattern(self.pattern)

    @property
    def has_placeholders(self) -> bool:
        return bool(_PLACEHOLDER.search(self.pattern))


@dataclass(frozen=True, slots=True)
class NumberPattern:
    """Where a number is in an overflow error, outside the sentence that gave the verdict."""

    pattern: str

    @property
    def regex(self) -> re.Pattern[str]:
        return compile_pattern(self.pattern)


_THROTTLED: Final = frozenset({429})
# With these an amount that is available is of money or of an account, not of a window.
_OF_AN_ACCOUNT: Final = frozenset({402, 403, 429})
_BUSY: Final = frozenset({502, 503, 504, 529})

_MAX_OUT = (
    r"(?:max[_ ]?(?:imum )?(?:completion[_ ]|output[_ ]|new[_ ]|generated[_ ])?(?:[_ ])?tokens(?:_to_sample)?"
    r"|max_length of the output|maxoutputtokens|maxtokens|num_predict|n_predict|output token limit)"
)
_PER_TIME = (
    r"(?:tokens?|requests?|calls?|queries|images|usage|limit)(?: \w+){0,2}?[ _-]?(?:per|/)[ _-]?(?:model[ _-]?)?(?:per[ _-]?)?"
    r"(?:second|sec|minute|min|hour|day|week|month)\b"
    r"|per(?:model)?per(?:minute|day|hour)|tokensper|requestsper|per[_ -](?:minute|day)(?![a-z])"
    r"|\b\d*[km]?(?:[io]?tpm|[io]?tpd|rpm|rpd|rps|qps|qpm)\b|(?:quota|limit|exceeded)[^.]{0,30}? today\b|daily (?:limit|quota|tokens?)|每分钟|每天|每日|今日|当日"
    r"|\b(?:pro|par|por|al|je) (?:minut[eo]?|stunde|heure|hora|ora|tag|jour|d[ií]a|giorno)\b|в (?:минуту|час|день|сутки)|毎分|毎日|分あたり|1分間|분당|시간당|일일"
)
_WINDOW = r"(?:context[ _-]?(?:window|length|size|limit)|model window|context|n_ctx|max_model_len|window size|sequence length)"
_LONG_WORDS = (
    r"(?:exceed\w*|(?:is |are |be )?(?:longer|greater|larger|more|bigger|higher) than|is over|is above|surpass\w*|>=?)"
)
_SUBJECT = r"\b(?:(?:prompt|input)_tokens?|inputs?|prompts?|requests?|context|messages?|conversation|tokens?|sequence|text)\b(?!')(?:(?!max_|maxo|\. ).){0,60}?"
_MEDIA = r"(?:images?|pictures?|photos?|(?:pdf |document )?pages?|pdfs?|documents?|attachments?|files?|videos?|audios?|media(?: items?| files?)?)(?:\(s\))?"
_NOT_TOKENS = r"(?: (?!tokens?\b)[\w-]+)"
# Parts of a service that have a limit of their own, each with its name before or after the words for too much.
_OTHER_PART = (
    r"(?:\b(?:encoder(?!-decoder)|embedder|re-?ranker|re-?rank(?:ing)? (?:model|request|endpoint)|classifier"
    r"|embeddings? (?:model|endpoint|api|service|request|input|provider|generation|task)|(?:generat|creat|comput)(?:e|ing) embeddings?|moderation (?:model|endpoint|api)|draft model|guard model)\b|\btext-embedding-[\w-]+)"
)
_GAP_TO_PART = r"(?:(?!quota|rate[ _-]?limit).){0,120}?"
_TOO_MUCH = r"(?:exceed\w*|too (?:long|large|big|many)|(?:longer|larger|greater|more|bigger) than|max(?:imum)?\b|at most|up to|token limit|truncate|>)"
_REPLY = r"(?:output|completion|response|generation|generating|generated|reply|answer|new tokens|max_tokens)"
# A prompt with a size, and what a model takes of it. The limits are those of windows: four digits or more.
_SIZED = r"\b(?:prompt|context|conversation|input tokens?|tokens in (?:the )?(?:prompt|input|messages)|(?:your|the) (?:messages|request))\b(?!_)"
_CAPACITY = r"\b(?:accepts?|supports?|takes|allows?|allowed|holds|handles?|fits|only|up to|at most|window|limit|maximum|max|context)\b(?!_)"
# What is sent, what is written and a limit, as gateways name them in other languages. Their grammar differs; that the size
# is behind what is sent, and the smaller limit behind the size, does not.
_SENT = (
    r"(?:\b(?:prompt|eingabe|anfrage|nachricht|kontext|contexte?|contexto|contesto|entr[ée]e|entrada|invite|requête|solicitud|pedido|richiesta|запрос|контекст)"
    r"|入力|プロンプト|コンテキスト|输入|上下文|입력|프롬프트|컨텍스트)"
)
_WRITTEN = (
    r"(?:max_|output|completion|ausgabe|antwort|sortie|réponse|salida|respuesta|saída|resposta|risposta|uscita|вывод|ответ"
    r"|出力|応答|生成|输出|回复|출력|응답|생성)"
)
_LIMITED = r"(?:ma[xk]sim|ma[xk]im|máxim|höchst|zulässig|grenze|überschr|erlaub|l[ií]mit|dépass|excè|exced|supera|autoris|permit|предел|превыш|максим|上限|最大|超|최대|초과|한도)"
_TOKENS = r"(?:tokens?\b|токен|トークン|토큰|jetons?\b|令牌)"
_SENT_ALONE = rf"(?:(?!{_WRITTEN})[^\d;]){{0,60}}?"
_MORE = r"(?: (?:more|further|output|completion|new|generated|response))*"
_NO_OUTPUT = r"(?: (?!output|completion|generat|new|response|image|rate|batch)[\w'-]+)"

# fmt: off
ERROR_PATTERNS: Final[tuple[ErrorPattern, ...]] = (
    # -- Looks like overflow, and is not -----------------------------------------------------------------------------
    # A timeout in Go: its "context" is the one of the call, not of the model.
    ErrorPattern("deadline", "network", r"context (?:deadline|cancel)|deadline[ _]?(?:exceeded|expired|reached)|exceeded the \S+ deadline"),
    ErrorPattern("tokenizer_warning", "other", r"token indices sequence length is longer"),
    ErrorPattern("engine_cannot_start", "other", r"(?:can|could) be stored in (?:the )?kv cache|max_num_batched_tokens…(?:smaller|less) than"),
    ErrorPattern("window_below_a_minimum", "bad_request", rf"{_WINDOW}…too small|minimum (?:{_WINDOW}|is <n>)"),
    # Credits are no window, but a smaller output is within them.
    ErrorPattern("afford_less_output", "output_cap_too_large", r"requested (?:up to )?<output> tokens…can only afford <cap>"),
    ErrorPattern("budget_of_credits", "quota", r"can only afford|requires more credits|tokens limit exceeded……(?:credits|monthly limit|/keys|paid)"),
    ErrorPattern("batch", "bad_request", r"tokens in (?:the |a )?batch|batch size|submitted batch|tokens? per request|(?:too many|number of) (?:texts|inputs|embeddings)\b"),
    ErrorPattern("too_many_tools", "bad_request", r"(?:tools|functions)'?: array too long|array too long|too many (?:tools|functions)|(?:maximum|max) (?:number )?of (?:tools|functions)|at most <n> tools"),
    ErrorPattern("image_bytes", "payload_too_large", r"(?:image|file|pdf|document|attachment)s?\b…(?:exceeds?|larger than|too large|maximum)…\d[\d.,]* ?(?:bytes|[kmg]i?b)\b"),
    ErrorPattern("image_shape", "bad_request", r"image dimensions?|dimensions? exceed|(?:images?|pictures?)\b…\d pixels|could not process image"),
    # A tool or a client of the agent has its own limits.
    ErrorPattern("file_too_long_for_a_tool", "other", r"file content \(|maxfileread|use offset and limit"),
    ErrorPattern("reply_was_cut", "other", r"response exceeded the <n> output token maximum"),
    ErrorPattern("thinking_budget", "bad_request", r"budget_tokens|thinking[_ ]budget|thinkingbudget"),
    # vLLM gives the prompt what it asks for and computes the room left for the reply: negative means no room at all.
    ErrorPattern("no_room_left", "prompt_too_long", rf"{_MAX_OUT}'?…must be (?:at least|greater than)…got -(?!1\b)<over>"),
    ErrorPattern("below_minimum_output", "bad_request", rf"{_MAX_OUT}'?…(?:must be (?:at least|greater than|> ?|>= ?|positive)|below (?:the )?minimum|less than the minimum|>= ?<n>)"),
    ErrorPattern("message_of_a_transport", "payload_too_large", r"(?:sent|received) message larger than max"),
    ErrorPattern("long_context_not_in_plan", "bad_request", r"long context beta is not (?:yet )?available"),
    # -- Per time: a rate limit, whatever else it says about tokens, prompts and lengths -------------------------------
    ErrorPattern("per_time", "rate_limit", _PER_TIME),
    ErrorPattern("google_quota", "rate_limit", r"resource[_ ]?exhausted|quota exceeded for (?:quota )?metric|quotafailure"),
    ErrorPattern("long_context_costs_extra", "rate_limit", r"extra usage is required for long context"),
    ErrorPattern("wait_and_retry", "rate_limit", r"(?:too many (?:tokens|requests)|throttl\w*)…(?:please )?(?:wait|slow down|try again later)"),
    # -- How many pictures, documents or pages ---------------------------------------------------------------------------
    ErrorPattern("too_many_media", "payload_too_large", rf"too (?:many|much) (?:(?:total|input|inline|attached|embedded|user) )*{_MEDIA}\b"),
    ErrorPattern("media_over_count", "payload_too_large", rf"(?<![\w.,])\d{{1,5}} {_MEDIA}(?:(?!token|\. ).){{0,60}}?(?:exceed\w*|(?:more|greater) than|>|max\w*|limit\w*|at most|only|up to)(?:(?!token|\. ).){{0,40}}?\d"),
    ErrorPattern("most_media", "payload_too_large", rf"(?:at most|max(?:imum)?(?: of)?|up to|(?:no )?more than|limit(?:ed)? (?:of|to|is)|only|exceed\w*|supports?|allows?|accepts?){_NOT_TOKENS}{{0,2}}? (?<![\w.,])\d{{1,5}}{_NOT_TOKENS}{{0,2}}? {_MEDIA}(?![a-z])"),
    ErrorPattern("number_of_media", "payload_too_large", rf"(?:max\w*|limit\w*|exceed\w*)(?:(?!token|\. ).){{0,40}}?(?:number|count|amount) of{_NOT_TOKENS}{{0,2}}? {_MEDIA}|(?:number|count|amount) of{_NOT_TOKENS}{{0,2}}? {_MEDIA}(?:(?!token|\. ).){{0,40}}?(?:exceed|max|limit|too)|\b{_MEDIA}[ _](?:count|number|limit)\b(?:(?!token|\. ).){{0,40}}?(?:exceed|max|reach|>|too)|(?:exceed\w*|max\w*)(?:(?!token|\. ).){{0,40}}?\b{_MEDIA}[ _](?:count|number|limit)\b|\bmax_(?:images|pages|documents|files)\b"),
    ErrorPattern("media_in_any_language", "payload_too_large", rf"(?:图片|图像|文档|文件|页)(?:数量?|个数|张数)?[^\d,.;]{{0,8}}?(?:过多|太多|超过|超出|上限|最多)|(?:最多|超过)[^,.;]{{0,12}}?\d+ ?(?:张|个|幅|份|页)(?:图片|图像|文档)?|{_LIMITED}\w*\D{{0,12}}?(?<![\w.,])\d{{1,5}} ?(?:bilder|imágenes|imagens|immagini|枚|изображен|이미지)"),
    # -- The limit of a part that is not the language model ---------------------------------------------------------------
    ErrorPattern("media_encoder", "bad_request", rf"\b(?:image|picture|video|audio|multi-?modal)s?\b{_GAP_TO_PART}{_TOO_MUCH}{_GAP_TO_PART}\bencoder\b|\b(?:image|vision|video|audio|multi-?modal)[ -](?:encoder|tower|processor){_GAP_TO_PART}{_TOO_MUCH}|{_TOO_MUCH}{_GAP_TO_PART}\b(?:image|vision|video|audio|multi-?modal)[ -](?:encoder|tower|processor)", not_status=_THROTTLED),
    ErrorPattern("other_part", "bad_request", rf"{_OTHER_PART}{_GAP_TO_PART}{_TOO_MUCH}|{_TOO_MUCH}{_GAP_TO_PART}{_OTHER_PART}", not_status=_THROTTLED),
    # -- A limit of nothing: the model is not for this account, and no compaction will ever fit ------------------------
    ErrorPattern("limit_of_zero", "bad_request", r"(?:limit|maximum)(?: of|:| is)? 0\b(?![.,]?\d)"),
    # -- Bytes, before the window: their numbers look like token counts -----------------------------------------------
    ErrorPattern("field_length", "payload_too_large", r"member must have length less than or equal to \d{6,}"),
    ErrorPattern("size_in_bytes", "payload_too_large", r"(?:request|body|payload|content|upload)\b…(?:exceed|more than|larger|limit|max|too)…\d[\d,.]* ?(?:bytes|[kmg]i?b)\b"),
    ErrorPattern("message_size", "payload_too_large", r"(?:message|content) size(?! of \S+ tokens)(?!…\d tokens)|content[ -]length exceed"),
    ErrorPattern("json_string_size", "payload_too_large", r"string value length|getmaxstringlength"),
    ErrorPattern("body_size", "payload_too_large", r"(?:body|payload|content|entity)[ _-](?:size|length)…(?:exceed|limit|larger|greater|too)|(?:maximum|max|exceed\w*) (?:\w+ ){0,3}(?:body|payload)[ _-](?:size|length)"),
    ErrorPattern("files_in_bytes", "payload_too_large", r"(?:file|document|image|attachment)s?(?: size| bytes)\b…(?:exceed|too large|limit|max)"),
    # -- How much output this prompt leaves room for: less of it is enough, whatever else the sentence says -----------
    ErrorPattern("output_room_named", "output_cap_too_large", r"\b(?:(?:available|remaining)_(?:output_|completion_)?tokens|tokens_(?:available|remaining))'? ?(?:is |= ?|: ?)-?<room>", not_status=_OF_AN_ACCOUNT),
    ErrorPattern("output_room_after_cap", "output_cap_too_large", rf"{_MAX_OUT}'?……\b(?:available|remaining)(?:[ _](?:output|completion))?(?:[ _]tokens?)?'? ?(?:is |are |of |= ?|: ?|\()?-?<room>", not_status=_OF_AN_ACCOUNT),
    ErrorPattern("output_room_for_reply", "output_cap_too_large", rf"<room>{_MORE}(?: tokens?)?(?: (?:are|is|still|would be))* (?:available|remain(?:s|ing)?|left|free) (?:for|to|in)(?: (?:the|your|any|a|model|model's))* {_REPLY}"),
    ErrorPattern("output_room_of_kind", "output_cap_too_large", r"<room> (?:output|completion|new|generated|response) tokens?(?: (?:are|is|still))* (?:available|remain(?:s|ing)?|left|free)\b", not_status=_OF_AN_ACCOUNT),
    ErrorPattern("output_room_stated", "output_cap_too_large", r"\b(?:available|remaining)(?: for)?(?: the| your)? (?:output|completion|response|generation)(?: tokens?| token budget| budget| length| room| space)?'? ?(?:is |are |of |= ?|: ?|\()?(?:only )?-?<room>", not_status=_OF_AN_ACCOUNT),
    ErrorPattern("output_room_left_over", "output_cap_too_large", rf"(?:leav(?:es|ing)|room for|space for)(?: (?:only|just|at most|about|room|space|for))* <room>{_MORE}(?: tokens?)?(?: (?:available|left|remaining))?(?: (?:for|to|in)(?: (?:the|your|any|a|model|model's))* {_REPLY}| (?:output|completion) tokens?)"),
    ErrorPattern("output_room_to_write", "output_cap_too_large", rf"can only (?:produce|generate|output|write|return)(?: (?:at most|up to|about))? <room>{_MORE} tokens?"),
    ErrorPattern("output_room_beside_reply", "output_cap_too_large", rf"(?:{_MAX_OUT}|\b{_REPLY}\b)……(?<!-)<room>(?: tokens?)?(?: (?:are|is|still))* (?:available|remain(?:s|ing)?|left)\b(?! context)", not_status=_OF_AN_ACCOUNT),
    ErrorPattern("output_room_in_a_field", "output_cap_too_large", rf"(?:{_MAX_OUT}|\b{_REPLY}\b)……\b(?:available|remaining)'? ?[:=] ?-?<room>", not_status=_OF_AN_ACCOUNT),
    ErrorPattern("output_room_as_advice", "output_cap_too_large", rf"(?:reduce|lower|set|decrease|limit)(?: (?:your|the))* {_MAX_OUT}'? (?:to|below)(?: (?:at most|or below))? <room>", not_status=_THROTTLED),
    # -- The window, with its numbers -----------------------------------------------------------------------------------
    ErrorPattern("passed_and_requested", "context", r"passed <input> input tokens and requested <output> output tokens……context length is only <limit>"),
    ErrorPattern("estimated_sum", "context", r"input and (?:maximum )?output tokens ?\(<total>\)…exceed…<limit>"),
    ErrorPattern("sum_over_window", "context", r"<input>(?: tokens)? ?\+ ?<output>(?: tokens)? ?(?:>|is (?:greater|more|larger) than|exceeds?) ?(?:the )?(?:limit of |limit )?<limit>"),
    ErrorPattern("inputs_plus_new_tokens", "context", r"tokens'? ?\+ ?'?max_new_tokens'?…(?:<=|at most|less than)… ?<limit>……given:? <input>…and <output>"),
    ErrorPattern("input_plus_max_tokens", "context", rf"(?:input|prompt)[\w ]{{0,24}}?\(?<input>\)?‥(?:\+|plus|and) ‥{_MAX_OUT}'?‥\(?<output>\)?‥{_LONG_WORDS}…\(?<limit>"),
    ErrorPattern("output_alone_over_window", "context", rf"{_MAX_OUT}'?…<output>…(?:exceeds?|greater than|larger than)…{_WINDOW}…<limit>"),
    ErrorPattern("keeps_more_than_window", "context", r"\bn_\w+ ?[=(:]? ?<input>\)? ?>=? ?n_ctx ?[=(:]? ?<limit>"),
    ErrorPattern("cannot_truncate", "context", r"cannot truncate to <limit>, required <input>"),
    # The old wording of llama-cpp-python, which adds max_tokens to the prompt before it compares.
    ErrorPattern("requested_tokens_unstated", "output_cap_too_large", r"requested tokens exceed context window of <limit>"),
    ErrorPattern("model_max_length", "context", r"max length exceeded…max length:? ?<limit>"),
    ErrorPattern("range_of_input", "context", r"range of input[_ ]?(?:length|tokens)? should be \[\d+, ?<limit>\]"),
    ErrorPattern("prompt_over_window_sign", "context", r"\b(?:prompt|input|context|messages?|conversation|sequence|tokens?)\b(?!')(?:(?!max_|maxo|>).){0,60}?<input>(?: (?:total |input |prompt )?tokens?)? ?>=? ?<limit>"),
    ErrorPattern("input_too_long_for", "context", rf"{_SUBJECT}\(?<input> ?(?:tokens?)?\)?,?…{_LONG_WORDS}…<limit>"),
    ErrorPattern("input_too_large_for", "context", rf"{_SUBJECT}\(?<input> tokens?\)?…(?:too (?:large|long)|but)…{_WINDOW}?…<limit>"),
    ErrorPattern("input_must_be_under", "context", rf"(?:{_SUBJECT}\(?<input>|total_tokens \(?<total>)\)? must be (?:less|smaller|lower|fewer|shorter) than(?: or equal to)?…<limit>"),
    ErrorPattern("named_limit", "context", r"\bmax_(?:prompt|input|seq|model|context|total)\w* ?(?:is |of |= ?|: ?|\()?<limit>\)?…(?:exceed|but|got)"),
    ErrorPattern("window_is", "context", rf"max(?:imum)?{_NO_OUTPUT}{{0,2}}? (?:context|prompt|sequence|input|model|token|request)s?[ _]?(?:length|size|window|limit|len|tokens?|count)?(?: ?\(tokens\))?(?: (?:of|for) (?:this |the )?[\w./:@-]+)? ?(?:is|of|=|:|was|are) ?(?:only |set to |currently )?\(?<limit>"),
    ErrorPattern("window_of", "context", rf"{_WINDOW}…(?:is|of|=|:|limit|supports?|max\w*) ?(?:only |up to |at most |approximately |about )?<limit>(?: tokens?)?…(?:exceed|too|but|however|request|got|receiv|you|messages|given|while|input|prompt)"),
    ErrorPattern("more_than_max_size", "context", r"max(?:imum)? (?:size|length|tokens|number of tokens|tokens allowed|input|context)(?: supported)?(?: allowed)? ?(?:is|:|=|of|\() ?\(?<limit>(?: tokens?\b| or less|\)| but| got|,)"),
    ErrorPattern("model_token_limit", "context", r"(?:model|context|input|prompt|request|sequence)(?:'s)? (?:max(?:imum)? )?(?:token|length|input|size) limit ?(?:is|of|:|=|\()? ?\(?<limit>"),
    ErrorPattern("cannot_exceed", "context", r"\b(?:total number of tokens|prompt|input|(?<!max )tokens)\b[^.]{0,60}?(?:cannot|can't|must not|may not|should not|can not) (?:exceed|be (?:longer|greater|more|larger) than) <limit>"),
    ErrorPattern("inputs_must_be_under", "context", r"(?:inputs?|prompts?)'? must (?:have|be|contain) (?:less|fewer|shorter) than <limit> tokens……given:? <input>"),
    ErrorPattern("current_length_over_limit", "context", r"current (?:length|tokens?|size) (?:is|:) <input> while (?:the )?limit is <limit>"),
    ErrorPattern("chinese_input_over", "context", r"(?:输入|上下文|提示词|prompt|请求|token)[^\d]{0,30}?<input>[^\d]{0,24}?(?:超过|超出|大于|超)[^\d]{0,24}?<limit>"),
    ErrorPattern("chinese_window_is", "context", r"(?:输入|上下文|提示词|prompt|token)[^\d]{0,40}?(?:最大|上限|限制|不能超过|不得超过|不超过|最多|超过|超出)[^\d]{0,24}?<limit>"),
    ErrorPattern("maximum_and_requested", "context", r"<limit> tokens? (?:maximum|max|limit)\b[^.]{0,20}? <total> tokens?"),
    # -- The most that the model writes -----------------------------------------------------------------------------------
    ErrorPattern("output_over_cap", "output_cap_too_large", rf"{_MAX_OUT}'?…too (?:large|high|big):? ?<output>……(?:at most|maximum|limit|up to)…<cap>"),
    ErrorPattern("output_over_cap_sign", "output_cap_too_large", rf"{_MAX_OUT}'?:? ?\(?<output>\)? ?>=? ?<cap>"),
    ErrorPattern("output_range_open", "output_cap_too_large", rf"{_MAX_OUT}'? value of <output>…range…<n>…to <under> \(exclusive\)"),
    ErrorPattern("output_range", "output_cap_too_large", rf"(?:{_MAX_OUT}'?…range…|range of '?{_MAX_OUT}'?…|{_MAX_OUT}'?…(?:should|must) be (?:in|within|between)…)[\[(]?<n>(?: ?\(inclusive\))? ?(?:,|-|~|to|and|至|到) ?<cap>"),
    ErrorPattern("output_at_most", "output_cap_too_large", rf"{_MAX_OUT}'?…(?:<=|less than or equal to|less or equal to|at most|no more than|not exceed|cannot exceed|not be (?:greater|larger|more|higher) than|up to|(?:is )?limited to|不能大于|不能超过|不得超过|小于等于|最大值?为?) ?<cap>"),
    ErrorPattern("output_above_maximum", "output_cap_too_large", rf"{_MAX_OUT}'?…(?:exceeds?|above|greater than|larger than|higher than|over|超过|超出)…(?:maximum|limit|max|allowed|supported|cap|最大|上限)\D{{0,40}}?<cap>"),
    ErrorPattern("output_over_output_limit", "output_cap_too_large", r"output \(?<output>\)?…(?:above|exceeds?|over|(?:greater|larger|more) than)…output (?:token )?limit(?: of| is)? <cap>"),
    ErrorPattern("output_below", "output_cap_too_large", rf"{_MAX_OUT}'?…(?:less than|lower than|smaller than|<|小于) ?<under>"),
    ErrorPattern("supports_at_most_output", "output_cap_too_large", r"(?:at most|maximum(?: of| is)?|limit(?: of| is)?|up to) <cap> (?:completion|output|new|generated) tokens"),
    ErrorPattern("most_output_is", "output_cap_too_large", r"max(?:imum)?(?: allowed)?(?: number of)? (?:output|completion) tokens?\D{0,30}<cap>"),
    # -- Throttled, unpaid or overloaded, in words --------------------------------------------------------------------------
    ErrorPattern("usage_limit", "rate_limit", r"usage[ _]limit"),
    ErrorPattern("insufficient_quota", "quota", r"insufficient[_ ](?:quota|balance|credits?|funds)|budget[_ ]?(?:has been )?exceeded|exceeded ?budget|over budget|credit balance|out of credits|billing[_ ](?:hard|not)|余额不足|欠费|arrearage|payment required|spend(?:ing)? limit|monthly limit|exceeded[_ ](?:your )?current[_ ]quota|quota (?:has been )?(?:exceeded|exhausted)|exceeded your (?:monthly |account )?quota"),
    ErrorPattern("rate_limit", "rate_limit", r"rate[ _-]?limit|ratelimit|throttl|too[ _]many[ _]requests|quota|concurrency|速率|限流|频率|频繁|并发|访问量过大"),
    ErrorPattern("overloaded", "overloaded", r"overloaded|server (?:is )?busy|at capacity|temporarily unavailable|service[ _]unavailable|currently unavailable|engine is busy|负载|系统繁忙|服务繁忙"),
    # -- The window, in words ---------------------------------------------------------------------------------------------------
    ErrorPattern("overflow_code", "context", r"context_length_exceeded|context_window_exceeded|exceed_context_size|contextwindowexceeded|contextlengthexceeded|max_prompt_tokens_exceeded|tokens_limit_reached|context_too_long|prompt_too_long|input_too_long|prompt_length_exceeded"),
    ErrorPattern("exceeds_context", "context", rf"(?:exceed\w*|(?:longer|greater|larger|more) than|overflow\w*|over|beyond|fit (?:in|into|within))\b[^.]{{0,60}}?{_WINDOW}"),
    ErrorPattern("context_exceeded", "context", rf"{_WINDOW}[^.]{{0,60}}?(?:exceed|overflow|too long|too large|is full|is only|reached|not enough)|out of room…{_WINDOW}"),
    ErrorPattern("prompt_too_long", "context", r"(?:prompt|input|context|conversation|messages?|chat history|query)(?: \w+){0,4}? (?:is |are )?too (?:long|large|big)"),
    ErrorPattern("input_exceeds", "context", r"(?:prompt|input|input tokens?|messages)\b(?: \w+){0,3}? exceed\w*\b[^.]{0,40}?(?:max\w*|limit|length|allowed)"),
    ErrorPattern("reduce_the_length", "context", r"(?:reduce|shorten|shrink) (?:the |your )?(?:length of |size of )?(?:the |your )?(?:messages?|prompt|input|context|conversation)", not_status=_THROTTLED),
    ErrorPattern("too_many_tokens", "context", r"too many (?:input |prompt |total )?tokens|tokens? limit (?:has been )?exceeded|exceed\w*(?: the)? (?:max\w* )?(?:input |message |prompt )?tokens?(?: limit)?\b|more than max tokens allowed", not_status=_THROTTLED),
    ErrorPattern("chinese_overflow", "context", r"(?:上下文|输入|提示词|prompt|对话|消息|内容)[^,.;]{0,24}?(?:超长|过长|超过|超出|太长)|token[^,.;]{0,10}?(?:超过|超出|超限)|超过(?:了)?(?:模型)?(?:最大)?(?:上下文|输入|token)"),
    ErrorPattern("zhipu_too_long", "prompt_too_long", r"code'?: ?'?1261\b", providers=("zhipu", "zai", "z.ai", "glm", "bigmodel")),
    ErrorPattern("minimax_too_long", "prompt_too_long", r"status_code'?: ?1039\b", providers=("minimax",)),
    ErrorPattern("qianfan_too_long", "prompt_too_long", r"error_code'?: ?(?:336007|336103)\b", providers=("baidu", "qianfan")),
    ErrorPattern("max_tokens_refused", "output_cap_too_large", rf"{_MAX_OUT}'?[^.]{{0,30}}?(?:too (?:large|high|big)|非法|过大|exceeds?)"),
    # -- The window, by its structure: a prompt, its size, and a smaller size that is a limit, in any words ----------------------
    ErrorPattern("sum_named_and_window", "context", rf"(?:requested|asked for|needs?|needed|got) <total> tokens[^.]{{0,90}}?{_WINDOW} (?:is|of|has) (?:only )?<limit>", least_limit=1_000, not_status=_OF_AN_ACCOUNT),
    ErrorPattern("size_over_capacity", "context", rf"{_SIZED}[^.;\d]{{0,40}}?<input>(?: ?(?:tokens?|tok))?\b[^\d]{{0,60}}?{_CAPACITY}[^\d.]{{0,24}}?<limit>", least_limit=1_000, not_status=_OF_AN_ACCOUNT),
    ErrorPattern("capacity_under_size", "context", rf"{_CAPACITY}[^\d.]{{0,24}}?<limit>(?: ?(?:tokens?|tok))?\b[^\d]{{0,60}}?{_SIZED}[^.;\d]{{0,40}}?<input>", least_limit=1_000, not_status=_OF_AN_ACCOUNT),
    ErrorPattern("needed_and_available", "context", rf"(?:{_WINDOW}|tokens?)[^\d]{{0,40}}?(?:need\w*|required?|requested)[ :=]{{1,3}}<input>[^\d]{{0,20}}?(?:have|available|limit)[ :=]{{1,3}}<limit>", least_limit=1_000, not_status=_OF_AN_ACCOUNT),
    ErrorPattern("fields_of_size_and_limit", "context", r"\b(?:prompt|input)_?tokens?'? ?[=:] ?<input>\W{0,6}limit'? ?[=:] ?<limit>", least_limit=1_000, not_status=_OF_AN_ACCOUNT),
    ErrorPattern("size_over_limit_in_any_language", "context", rf"{_SENT}(?=[^;]{{0,160}}?{_LIMITED})(?=[^;]{{0,120}}?(?:[\dkm] ?{_TOKENS}|{_TOKENS}[^\d.;]{{0,6}}\d)){_SENT_ALONE}<input>{_SENT_ALONE}<limit>(?!{_SENT_ALONE}{_WRITTEN})", least_limit=1_000, not_status=_OF_AN_ACCOUNT | _BUSY),
    ErrorPattern("named_error_with_sign", "context", r"context ?(?:length|window|size)\w*:? <input> ?> ?<limit>", least_limit=1_000, not_status=_OF_AN_ACCOUNT),
    # -- Bytes ------------------------------------------------------------------------------------------------------------------------
    ErrorPattern("text_over_bytes", "payload_too_large", r"string too long……maximum length \d{6,}"),
    ErrorPattern("field_too_long", "bad_request", r"string too long|string_above_max_length"),
    ErrorPattern("body_too_large", "payload_too_large", r"request[_ ]too[_ ]large|(?:entity|payload|content|body|request)(?: body)?(?: size)?(?: is)? too large|(?:payload|body|request body|request payload) size|body…(?:exceed|limit)|length limit exceeded|request exceeds the maximum size|请求体过大"),
    # -- Authentication -----------------------------------------------------------------------------------------------------------------------
    ErrorPattern("auth", "auth", r"(?:invalid|incorrect|missing|no|expired|wrong)[ _-](?:x[ _-])?(?:api[ _-]?key|token|credentials?|bearer|auth\w*)|api[ _-]?key[ _](?:is |was )?(?:not[ _](?:valid|found)|invalid|missing|expired)|unauthori[sz]ed|authentication|permission[_ ]?(?:denied|error)|access denied|accessdenied|(?<!extra_)forbidden|身份验证|鉴权|无权"),
    # -- The connection -----------------------------------------------------------------------------------------------------------------------
    ErrorPattern("network", "network", r"connect(?:ion)?(?: ?error| ?refused| ?reset| aborted| closed| timed? ?out|timeout)|(?:econn\w+|etimedout|enotfound|eai_again|epipe|enetunreach|ehostunreach)\b|timed? ?out|timeout(?:error|exception|\b)|getaddrinfo|name resolution|name or service not known|nodename nor servname|network (?:error|is unreachable)|fetch failed|socket hang up|broken pipe|remote ?(?:protocol|disconnected)|server disconnected|incomplete (?:chunked )?read|peer closed|connection lost|ssl[: ]|tls (?:handshake|error)|certificate verify"),
)

# The rows about pictures and documents: their number and their shape.
MEDIA_ROWS: Final = frozenset(
    {"too_many_media", "media_over_count", "most_media", "number_of_media", "media_in_any_language", "image_shape", "media_encoder"}
)

# Numbers outside the sentence of the verdict. Read only for an overflow or an output cap, and only for a
# meaning that the sentence left open.
NUMBER_PATTERNS: Final[tuple[NumberPattern, ...]] = (
    NumberPattern(r"n_ctx'? ?[:=] ?<limit>"),
    NumberPattern(r"n_prompt_tokens'? ?[:=] ?<input>"),
    NumberPattern(r"resulted in over <least> tokens?"),
    NumberPattern(r"at least <least>(?: input| prompt)? tokens?"),
    NumberPattern(r"requested(?: about| approximately)? <output> (?:output|completion|new) tokens"),
    NumberPattern(r"(?:messages?|prompt|input|request)(?: token count| length)? (?:resulted in|has|have|contains?|is|are|was|uses?|of)(?: about| approximately)? <input>(?: (?:input |prompt )?tokens?\b|,| but)"),
    NumberPattern(r"input length \(?<input>"),
    NumberPattern(r"<input>(?: tokens)? (?:in|of|from|for) (?:the |your )?(?:text input|messages?|prompt|input)"),
    NumberPattern(r"<output>(?: tokens)? (?:in|for|from|of) (?:the |your )?(?:completion|output|response|generation)"),
    NumberPattern(r"(?:requested|total of|will take|resulted in)(?: about| approximately| up to| a total of)? <total>(?: tokens)?(?: \(|: )"),
    NumberPattern(r"total length <input>"),
    NumberPattern(r"(?:have|prompt of|input of) <input>(?: tokens)?"),
    # vLLM: "more than 0 characters, which is the upper bound for 0 input tokens".
    NumberPattern(r"(?<!bound for )<input> (?:input|prompt) tokens?"),
    NumberPattern(r"(?:too long|too many tokens|exceeded):? \(?<input>(?: tokens)?"),
    NumberPattern(r"keep the first <input> tokens"),
    NumberPattern(r"(?:plus|and) <output> '?max_(?:new_|completion_|output_)?tokens"),
    NumberPattern(r"max_(?:new_|completion_|output_)?tokens'?(?: is too (?:large|high))?:? ?(?:is |of |= ?|\()?<output>"),
    NumberPattern(r"(?:received|got|given|requested|asked for|contains|will take)'?:?(?: about| approximately| up to| over)? <total>(?! input| prompt)"),
    NumberPattern(r"context length by <over> tokens"),
    NumberPattern(r"(?:limit|\bmax(?:imum)?|window|supports|accepts|allows|context (?:length|size)|tokens allowed)'?(?: (?:for|of) (?:this|the) model)?(?: is| of|:| =)?(?: only| up to)? <limit>(?! (?:output|completion|new))"),
    NumberPattern(r"context (?:length|size|window) ?\(<limit> tokens\)"),
    NumberPattern(r"(?:in|into|within|of)(?: the| a| its| your)? <limit>(?: tokens?)?[ -]context"),
    NumberPattern(r"(?:less than|fewer than|up to|at most|no more than) <limit>(?: tokens)?(?! (?:output|completion|new|input))"),
)
# The same for an output cap, where every number is about output.
OUTPUT_NUMBER_PATTERNS: Final[tuple[NumberPattern, ...]] = (
    NumberPattern(r"(?:provided|got|received|given|requested|asked for|value of|but was):? <output>"),
    NumberPattern(rf"{_MAX_OUT}'?(?: is too (?:large|high))?:? ?(?:of |= ?|\()?<output>"),
)
# Beside a stated room for output: the window and the prompt only where they are named as such.
ROOM_NUMBER_PATTERNS: Final[tuple[NumberPattern, ...]] = (
    NumberPattern(rf"{_WINDOW}'?(?: (?:is|of|has))?(?: only)? ?[:=(]? ?<limit>"),
    NumberPattern(r"(?:model|window|maximum)(?:'s)? (?:has|takes|supports|of|is) <limit> tokens"),
    NumberPattern(r"\b(?:input|prompt)(?:_tokens?| tokens?| length)?'?(?: (?:is|of|has|uses|takes|contains))? ?[:=(]? ?<input>"),
    NumberPattern(rf"{_MAX_OUT}'?(?: is too (?:large|high))? ?(?:of |= ?|: ?|\()?<output>"),
    NumberPattern(r"(?:requested|asked for|asks for|wanted):?(?: up to)? <output>"),
    NumberPattern(r"<output>(?: tokens?)? (?:were |was )?requested"),
)
# How many pictures or documents a request may have. Read only for an error about their number.
MEDIA_NUMBER_PATTERNS: Final[tuple[NumberPattern, ...]] = (
    NumberPattern(r"> ?<count>"),
    NumberPattern(r"(?:at most|max(?:imum)?|up to|no more than|limit|only|allowed|supports?)(?: (?:allowed|number|of|is|images?|documents?|files?|to))*:? ?\(?<count>"),
)
# fmt: on
