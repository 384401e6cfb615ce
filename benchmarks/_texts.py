"""Many kinds of text to measure on: found on any machine with Python, or generated, or in folders one names.

Every kind is a list of pieces of a few thousand characters, the same on every run for the same sources.
"""

from __future__ import annotations

import base64
import difflib
import gzip
import html
import json
import random
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

PIECE_CHARS = 4_000
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

_STDLIB = Path(sysconfig.get_paths()["stdlib"])
_SENTENCES = {
    "chinese": (
        "请先运行全部测试，然后把失败的用例逐个修好，不要改动数据库的结构。"
        "|昨天的发布在凌晨两点失败了，日志显示内存不足，服务器重启了三次。"
        "|我们决定不用旧的接口，因为它在并发很高的时候会丢失消息。"
        "|配置文件里写的路径是错误的，应该指向共享目录下面的缓存文件夹。"
        "|如果用户没有登录，就返回一个明确的提示，而不是空白的页面。"
        "|这个函数太长了，建议按照职责拆成三个小函数，并补充注释说明原因。"
        "|会议上大家同意把截止日期推迟一周，等安全检查完成以后再上线。"
        "|春天来了，河边的柳树发出新芽，孩子们在草地上放风筝。"
        "|统计结果表明，去年第三季度的销售额比上一年增长了百分之十二。"
        "|他从小喜欢读历史书，尤其是关于航海、贸易和古代城市的故事。"
    ),
    "japanese": (
        "まずすべてのテストを実行して、失敗したものから順番に直してください。"
        "|昨夜のデプロイはメモリ不足のために失敗し、サーバーが三回再起動しました。"
        "|古いインターフェースは同時接続が多いとメッセージを失うので、使わないことにしました。"
        "|設定ファイルのパスが間違っています。共有フォルダの下を指すようにしてください。"
        "|ログインしていない場合は、空白のページではなく、はっきりした案内を表示します。"
        "|この関数は長すぎるので、役割ごとに三つに分けたほうが読みやすいと思います。"
        "|会議では、安全確認が終わるまで締め切りを一週間延ばすことで合意しました。"
        "|春になると川沿いの桜が咲き、子どもたちが公園で遊んでいます。"
        "|データベースのバックアップは毎晩二時に自動的に作成されます。"
        "|彼女は駅前の小さな喫茶店で、手紙を書きながら電車を待っていた。"
    ),
    "korean": (
        "먼저 모든 테스트를 실행하고 실패한 것부터 차례대로 고쳐 주세요."
        "|어젯밤 배포는 메모리 부족으로 실패했고 서버가 세 번 다시 시작되었습니다."
        "|동시 접속이 많을 때 메시지를 잃어버리기 때문에 예전 인터페이스는 쓰지 않기로 했습니다."
        "|설정 파일의 경로가 잘못되었습니다. 공유 폴더 아래를 가리키도록 바꾸어야 합니다."
        "|로그인하지 않은 사용자에게는 빈 화면 대신 분명한 안내를 보여 줍니다."
        "|이 함수는 너무 길어서 역할에 따라 세 개로 나누는 것이 좋겠습니다."
        "|회의에서 보안 점검이 끝날 때까지 마감일을 일주일 미루기로 합의했습니다."
        "|봄이 오면 강가의 벚꽃이 피고 아이들은 잔디밭에서 연을 날립니다."
        "|통계에 따르면 지난해 삼 분기 매출은 전년보다 십이 퍼센트 늘었습니다."
        "|그는 어릴 때부터 항해와 무역, 옛 도시에 관한 역사책을 즐겨 읽었다."
    ),
    "russian": (
        "Сначала запусти все тесты, потом исправь упавшие по одному и не меняй схему базы данных. "
        "|Вчерашний выпуск сорвался в два часа ночи: серверу не хватило памяти, и он трижды перезапускался. "
        "|Мы решили отказаться от старого интерфейса, потому что под нагрузкой он теряет сообщения. "
        "|Путь в файле настроек указан неверно, он должен вести в общую папку с кэшем. "
        "|Если пользователь не вошёл, покажи понятную подсказку вместо пустой страницы. "
        "|Эта функция слишком длинная, лучше разделить её на три и объяснить причины в комментариях. "
        "|На встрече договорились перенести срок на неделю, пока не закончится проверка безопасности. "
        "|Весной на берегу реки распускаются ивы, а дети запускают воздушных змеев. "
        "|По статистике, продажи в третьем квартале выросли на двенадцать процентов. "
        "|С детства он любил книги о мореплавании, торговле и древних городах. "
    ),
}


def texts(roots: Sequence[Path] = (), per_kind: int = 150) -> dict[str, list[str]]:
    """Pieces by kind of text; folders in `roots` add translations and source files of other languages."""
    found: dict[str, list[str]] = {}
    for kind, source in _SOURCES.items():
        found[kind] = _first(source(random.Random(kind)), per_kind)
    for kind, pieces in _from_roots(roots, per_kind).items():
        found.setdefault(kind, []).extend(pieces)
    sessions = _first(_session_pieces(), 4 * per_kind)
    return found | ({"sessions": sessions} if sessions else {})


def _first(pieces: Iterable[str], limit: int) -> list[str]:
    kept: list[str] = []
    for piece in pieces:
        if piece.strip():
            kept.append(piece)
        if len(kept) == limit:
            break
    return kept


def pieces_of(text: str, chars: int = PIECE_CHARS) -> Iterator[str]:
    for start in range(0, len(text), chars):
        piece = text[start : start + chars]
        if len(piece) > chars // 4:
            yield piece


def _files(folder: Path, pattern: str, rng: random.Random) -> Iterator[str]:
    paths = sorted(path for path in folder.rglob(pattern) if path.is_file())
    rng.shuffle(paths)
    for path in paths:
        yield from list(pieces_of(path.read_text(encoding="utf-8", errors="replace")))[:6]


def _english(rng: random.Random) -> Iterator[str]:
    from pydoc_data.topics import topics

    names = sorted(topics)
    rng.shuffle(names)
    for name in names:
        yield from pieces_of(topics[name])


def _python(rng: random.Random) -> Iterator[str]:
    return _files(_STDLIB, "*.py", rng)


def _headers(rng: random.Random) -> Iterator[str]:
    return _files(Path(sysconfig.get_paths()["include"]), "*.h", rng)


def _markdown(rng: random.Random) -> Iterator[str]:
    for folder in sys.path:
        if folder.endswith("site-packages"):
            yield from _files(Path(folder), "METADATA", rng)


def _written(kind: str) -> Callable[[random.Random], Iterator[str]]:
    def shuffled(rng: random.Random) -> Iterator[str]:
        sentences = _SENTENCES[kind].split("|")
        for _ in range(25):
            yield "".join(rng.choice(sentences) for _ in range(40))

    return shuffled


def _records(rng: random.Random) -> Iterator[dict[str, Any]]:
    words = sorted(set(re.findall(r"[a-z]{3,12}", (_STDLIB / "argparse.py").read_text(encoding="utf-8"))))
    while True:
        yield {
            "id": rng.randrange(10**6),
            "uuid": f"{rng.getrandbits(128):032x}",
            "name": " ".join(rng.sample(words, 2)),
            "score": round(rng.random() * 100, 3),
            "active": rng.random() < 0.5,
            "tags": rng.sample(words, 3),
            "created_at": f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T08:{rng.randrange(60):02}:00Z",
            "meta": {rng.choice(words): rng.choice(words), "parent_id": None},
        }


def _json_compact(rng: random.Random) -> Iterator[str]:
    records = _records(rng)
    while True:
        yield json.dumps([next(records) for _ in range(16)])


def _json_indented(rng: random.Random) -> Iterator[str]:
    records = _records(rng)
    while True:
        yield json.dumps([next(records) for _ in range(10)], indent=rng.choice((2, 4)))


def _logs(rng: random.Random) -> Iterator[str]:
    levels, parts = ("INFO", "DEBUG", "WARNING", "ERROR"), ("http.server", "db.pool", "worker-3", "auth", "scheduler")
    acts = ("request finished", "connection refused", "retrying in {}ms", "GET /api/v1/items/{} 200", "took {}s")
    while True:
        yield "\n".join(
            f"2026-03-{rng.randrange(1, 29):02} {rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02},"
            f"{rng.randrange(1000):03} {rng.choice(levels)} [{rng.choice(parts)}] "
            f"{rng.choice(acts).format(rng.randrange(10000))} ip=10.0.{rng.randrange(256)}.{rng.randrange(256)}"
            for _ in range(40)
        )


def _listing(rng: random.Random) -> Iterator[str]:
    names = sorted(path.name for path in _STDLIB.rglob("*.py"))
    while True:
        yield "\n".join(
            f"-rw-r--r-- 1 user staff {rng.randrange(10**6):>8} Mar {rng.randrange(1, 29):>2} "
            f"12:{rng.randrange(60):02} {rng.choice(names)}"
            for _ in range(60)
        )


def _grep(rng: random.Random) -> Iterator[str]:
    paths = sorted(_STDLIB.glob("*.py"))
    while True:
        path = rng.choice(paths)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        hits = sorted(rng.sample(range(len(lines)), min(len(lines), 50)))
        yield "\n".join(f"./Lib/{path.name}:{n + 1}:{lines[n]}" for n in hits)[:PIECE_CHARS]


def _diffs(rng: random.Random) -> Iterator[str]:
    paths = sorted(_STDLIB.glob("*.py"))
    while True:
        path = rng.choice(paths)
        old = path.read_text(encoding="utf-8", errors="replace").splitlines()[:400]
        new = [line.replace("self", "this") if rng.random() < 0.1 else line for line in old if rng.random() > 0.05]
        yield "\n".join(difflib.unified_diff(old, new, f"a/{path.name}", f"b/{path.name}", lineterm=""))[:PIECE_CHARS]


def _random_bytes(spell: Callable[[bytes], str]) -> Callable[[random.Random], Iterator[str]]:
    def spelled(rng: random.Random) -> Iterator[str]:
        while True:
            yield spell(rng.randbytes(PIECE_CHARS // 2))[:PIECE_CHARS]

    return spelled


def _hashes(rng: random.Random) -> Iterator[str]:
    while True:
        yield "\n".join(f"{rng.getrandbits(160):040x}  build/{rng.randrange(999)}.o" for _ in range(60))


def _numbers(rng: random.Random) -> Iterator[str]:
    while True:
        yield "\n".join(",".join(f"{rng.gauss(0, 50):.4f}" for _ in range(8)) for _ in range(60))


def _spaced(rng: random.Random) -> Iterator[str]:
    names = ("total", "mean", "count", "left", "right", "value")
    while True:
        yield "\n".join(
            " " * rng.randrange(40) + "".join(f"{rng.choice(names):<{rng.randrange(8, 24)}}" for _ in range(3))
            for _ in range(50)
        )


def _runs(rng: random.Random) -> Iterator[str]:
    while True:
        yield "".join(rng.choice("   \n-=*#.") * rng.randrange(40, 900) + rng.choice(("", "x", "\n")) for _ in range(8))


_SOURCES: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "english": _english,
    "python": _python,
    "c": _headers,
    "markdown": _markdown,
    "json": _json_compact,
    "json indented": _json_indented,
    "logs": _logs,
    "listing": _listing,
    "grep": _grep,
    "diff": _diffs,
    "base64": _random_bytes(lambda raw: base64.b64encode(raw).decode()),
    "hex": _random_bytes(bytes.hex),
    "hashes": _hashes,
    "numbers": _numbers,
    "spaced": _spaced,
    "runs": _runs,
    **{kind: _written(kind) for kind in _SENTENCES},
}

_ENDINGS = {"*.js": "javascript", "*.html": "html", "*.css": "css", "*.rs": "rust", "*.ts": "typescript", "*.go": "go"}
_LOCALES = dict(
    pair.split("=")
    for pair in (
        "zh_Hans=chinese zh_CN=chinese zh_Hant=chinese ja=japanese ko=korean ru=russian uk=ukrainian ar=arabic "
        "hi=hindi th=thai he=hebrew el=greek de=german fr=french es=spanish vi=vietnamese pl=polish"
    ).split()
)

_PAGE_LOCALES = {"zh": "chinese", "ja": "japanese", "ko": "korean", "es": "spanish"}


def _from_roots(roots: Sequence[Path], per_kind: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for root in roots:
        for pattern, kind in _ENDINGS.items():
            found.setdefault(kind, []).extend(_first(_files(root, pattern, random.Random(kind)), per_kind))
        for locale, kind in _LOCALES.items():
            found.setdefault(kind, []).extend(_first(_translations(root, locale), per_kind))
        for locale, kind in _PAGE_LOCALES.items():
            found.setdefault(kind, []).extend(_first(_translated_pages(root, locale), per_kind))
    return {kind: pieces for kind, pieces in found.items() if pieces}


def _translations(root: Path, locale: str) -> Iterator[str]:
    """What the .po files of one language say, joined to pieces of running text."""
    for path in sorted(root.rglob(f"{locale}/LC_MESSAGES/*.po")):
        said = re.findall(r'^msgstr (?:"")?((?:\n?".*")+)', path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        text = "\n".join("".join(re.findall(r'"(.*)"', entry)).replace("\\n", "\n") for entry in said[1:])
        yield from pieces_of(text, 2_000)


def _translated_pages(root: Path, locale: str) -> Iterator[str]:
    """The words of HTML pages in a folder named after their language."""
    for path in sorted(root.rglob(f"{locale}/**/*.html")):
        page = re.sub(r"(?s)<(script|style|nav)\b.*?</\1>", " ", path.read_text(encoding="utf-8", errors="replace"))
        said = re.sub(r"\s*\n\s*", "\n", html.unescape(re.sub(r"<[^>]+>", "", page)))
        yield from pieces_of(said, 2_000)


def _session_pieces() -> Iterator[str]:
    for path in sorted((SHARED_DATA / "conversations").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                said = [m["content"] for m in json.loads(line)["messages"] if isinstance(m.get("content"), str)]
                long = [text for text in said if len(text) > 400]
                yield from (piece for text in long[::7][:20] for piece in pieces_of(text, PIECE_CHARS))
