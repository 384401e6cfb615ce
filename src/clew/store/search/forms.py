"""Other forms of an English word, for queries: endings by rule, and those that no rule gives (found, find).

Forms are made from the query only: the index holds words as they were written. A form that does not exist is in no
document and does no harm. Words of other languages have one form.
"""

from __future__ import annotations

from functools import lru_cache

# Endings that are taken off a word, longest first, and those that its stem may get.
_Y_SUFFIXES = ("ications", "ication", "iers", "ier", "ies", "ied", "ying", "y")
_SUFFIXES = (
    "ations", "ation", "ators", "ator", "ments", "ment", "ings", "ing", "ions", "ion",
    "ers", "er", "ors", "or", "ed", "es", "ly", "s", "e",
)  # fmt: skip
_ENDINGS = ("", "s", "ed", "ing", "er", "ers")
_E_ENDINGS = ("e", "es", "ed", "ing", "er", "ers")
_ATE_SUFFIXES = ("ations", "ation", "ators", "ator")
_ATE_ENDINGS = ("ate", "ates", "ated", "ating", "ation", "ations", "ator")
_Y_ENDINGS = ("y", "ies", "ied", "ying", "ication", "ications", "ier")
_HISSING = ("s", "x", "z", "ch", "sh")
# Endings that make a noun, by the letters that a stem must end with for it.
_NOUN_ENDINGS = (("ts", "ion"), ("ts", "ions"), ("lmnrt", "ation"), ("lmnrt", "ations"), ("t", "or"), ("lnpty", "ment"))
_SHORTEST_NOUN_STEM = 4
_VOWELS = frozenset("aeiouy")
_UNDOUBLED = _VOWELS | frozenset("cwxhjkqv")
_SHORTEST_STEM = 3
_LONGEST_DOUBLED = 5
_MOST_FORMS = 32

# Each line is one word: the form that dictionaries list, then the forms that no rule gives.
_IRREGULAR = """
arise arose arisen/awake awoke awoken/bear bore borne/beat beaten/become became/begin began begun/bend bent/bet
bind bound/bite bit bitten/bleed bled/blow blew blown/break broke broken/breed bred/bring brought/build built
burn burnt/burst/buy bought/catch caught/choose chose chosen choice/cling clung/come came/creep crept/cut/deal dealt
dig dug/draw drew drawn/dream dreamt/drink drank drunk/drive drove driven/eat ate eaten/fall fell fallen/feed fed
feel felt/fight fought/find found/flee fled/fling flung/fly flew flown flight/forbid forbade forbidden
forget forgot forgotten/forgive forgave forgiven/freeze froze frozen/get got gotten/give gave given/go went gone goes
grind ground/grow grew grown growth/hang hung/hear heard/hide hid hidden/hit/hold held/hurt/keep kept/kneel knelt
know knew known/lay laid/lead led/lean leant/leap leapt/learn learnt/leave left/lend lent/let/lie lain lying/light lit
lose lost loss/make made making/mean meant/meet met/mistake mistook mistaken/mow mown/pay paid/prove proven proof/put
quit/read/ride rode ridden/ring rang rung/rise rose risen/run ran/say said/see saw seen sight/seek sought/sell sold sale
send sent/set/sew sewn/shake shook shaken/shed/shine shone/shoot shot/show shown/shrink shrank shrunk/shut
sing sang sung song singer/sink sank sunk/sit sat/sleep slept asleep/slide slid/smell smelt/sow sown/speak spoke spoken
speech/speed sped/spell spelt/spend spent/spill spilt/spin spun/spit spat/split/spoil spoilt/spread/spring sprang sprung
stand stood/steal stole stolen/stick stuck/sting stung/stink stank/strike struck/string strung/swear swore sworn
sweep swept/swell swollen/swim swam swum/swing swung/take took taken/teach taught/tear tore torn/tell told/think thought
throw threw thrown/tread trod/understand understood/wake woke woken/wear wore worn/weave wove woven/weep wept
win won/wind wound/withdraw withdrew withdrawn/write wrote written
child children kid kids/person people/man men/woman women/foot feet/tooth teeth/mouse mice/goose geese/life lives
wife wives/knife knives/leaf leaves/half halves/shelf shelves/wolf wolves/self selves/datum data/index indices indexes
analysis analyses/crisis crises/matrix matrices/vertex vertices/criterion criteria/phenomenon phenomena
good better best/bad worse worst/far further farther/marry wedding marriage/die death dead/born birth birthday
apply applied application/choose choice/advise advice/believe belief/live life/succeed success successful/fail failure
destroy destruction/decide decision/describe description/explain explanation/receive receipt/produce product production
strong strength/long length/wide width/deep depth/high height/warm warmth/true truth/young youth/hot heat
mum mom mother mommy/dad father daddy/grandma grandmother/grandpa grandfather
"""


def _irregular_forms() -> dict[str, tuple[str, ...]]:
    forms: dict[str, dict[str, None]] = {}
    for line in _IRREGULAR.replace("\n", "/").split("/"):
        words = line.split()
        for word in words:
            forms.setdefault(word, {}).update(dict.fromkeys(words))
    return {word: tuple(others) for word, others in forms.items() if len(others) > 1}


_irregular = _irregular_forms()


@lru_cache(maxsize=4096)
def forms_of(word: str) -> tuple[str, ...]:
    """A word and its likely other forms, the word itself first: configured gives configure, configuration."""
    if not (word.isascii() and word.isalpha()):
        return (word,)
    listed = _listed_forms(word)
    forms = dict.fromkeys([word, *listed])
    if len(word) > _SHORTEST_STEM or listed:
        forms.update(dict.fromkeys(_regular_forms(listed[0] if listed else word)))
    return tuple(forms)[:_MOST_FORMS]


def common_forms_of(word: str) -> tuple[str, ...]:
    """A word and the forms that are met most: those of the list, its plural, its past, and its present participle."""
    bare = word.removesuffix("e")
    plural = word[:-1] + "ies" if word.endswith("y") and word[-2] not in _VOWELS else word + "s"
    return tuple(dict.fromkeys((word, *_irregular.get(word, ()), plural, bare + "ed", bare + "ing")))


def _listed_forms(word: str) -> tuple[str, ...]:
    """The forms of the list, for a word that stands in it or has one ending more."""
    if word in _irregular:
        return _irregular[word]
    for ending, instead in (("ing", ""), ("ing", "e"), ("s", ""), ("es", ""), ("er", ""), ("ers", "")):
        if word.endswith(ending) and (base := word.removesuffix(ending) + instead) in _irregular:
            return _irregular[base]
    # running, winner: the consonant is doubled before the ending.
    for ending in ("ing", "er", "ers"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2 and stem[-1] == stem[-2] and stem[:-1] in _irregular:
            return _irregular[stem[:-1]]
    return ()


def _regular_forms(word: str) -> list[str]:
    """The forms that endings give. There must be few: each is looked for in the index."""
    for suffix in () if word.endswith("ly") else _Y_SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 2 and word[-len(suffix) - 1] not in _VOWELS:
            # retry, retries; verification, verified
            return [word, *(word.removesuffix(suffix) + ending for ending in _Y_ENDINGS)]
    forms = [word]
    for stem, suffix in _stems(word):
        # A word without an ending, or one that ends with e, shows how its stem is spelt; after others it may be either.
        forms += (stem + ending for ending in _ENDINGS) if suffix != "e" else ()
        forms += (stem + ending for ending in _E_ENDINGS) if suffix not in ("", "s") else ()
        # validation: validate; configuration: configure
        forms += (stem + ending for ending in _ATE_ENDINGS) if suffix in _ATE_SUFFIXES else ()
        if suffix in ("", "s") and stem.endswith(_HISSING):
            forms.append(stem + "es")
        if len(stem) >= _SHORTEST_NOUN_STEM:
            forms += (stem + ending for letters, ending in _NOUN_ENDINGS if stem[-1] in letters)
        if len(stem) <= _LONGEST_DOUBLED and _is_doubled(stem):
            # run, running; drop, dropped
            forms += (stem + stem[-1] + ending for ending in ("ed", "ing", "er"))
    return forms


def _is_doubled(stem: str) -> bool:
    """Whether the last letter is doubled before an ending: a consonant after one vowel."""
    return stem[-1] not in _UNDOUBLED and stem[-2] in _VOWELS and stem[-3] not in _VOWELS


def _stems(word: str) -> list[tuple[str, str]]:
    """The word without its ending, and without a doubled consonant before it, with the ending; else the word itself."""
    if word.endswith("ss"):
        return [(word, "")]
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            stem = word[: -len(suffix)]
            if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2] and stem[-1] not in "sl":
                return [(stem[:-1], suffix), (stem, suffix)]
            return [(stem, suffix)]
    return [(word, "")]
