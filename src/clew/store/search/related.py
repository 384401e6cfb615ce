"""Words of nearly the same meaning, for questions: whoever asks seldom uses the word that was said.

A text with a related word counts for less than one with the word itself, and only where it lacks that word. English.
"""

from __future__ import annotations

from functools import lru_cache

from clew.store.search.base import Phrase
from clew.store.search.forms import common_forms_of, forms_of

# Each line is a group: any of its words stands for the others.
_GROUPS = """
job work career profession occupation employer position role
quit resign leave notice
hire employ recruit
salary wage pay income earn
company firm business employer
boss manager supervisor chief
colleague coworker teammate
buy purchase get order acquire
sell sale
cost price fee expensive charge
money cash fund budget
gift present
house home flat apartment place
live reside stay
move relocate
rent lease landlord tenant
trip travel journey vacation holiday tour visit
visit go see
city town village
country nation
hotel hostel accommodation stay
luggage suitcase bag baggage
fly flight plane airport
car vehicle drive
bike bicycle cycling
exercise workout gym train sport fitness
run jog marathon race
swim pool
hobby pastime interest activity
paint draw sketch art picture portrait
music song band concert instrument
instrument guitar piano violin drums
sing choir
book novel read author
author writer
movie film cinema
game play
photo picture photograph image
food meal dish eat cuisine
cook bake recipe kitchen
dinner supper lunch breakfast meal
drink beverage
restaurant cafe
allergic allergy intolerant
diet vegetarian vegan
doctor physician specialist nurse hospital clinic
ill sick disease condition illness diagnose
injury hurt wound broke
surgery operation
pain ache
medicine drug pill medication
sleep insomnia rest bed
stress anxious anxiety worry nervous
happy glad joy proud delighted
sad upset cry unhappy
afraid fear scared frightened
angry mad annoyed furious
family relatives parents
parents mother father
child son daughter baby
brother sister sibling
husband wife spouse partner
boyfriend girlfriend partner
marry wedding engaged bride
friend buddy pal
pet dog cat animal puppy kitten
dog puppy
cat kitten
adopt shelter rescue
garden plant grow yard
plant flower tree seed
school university college class course
study learn exam degree
teach teacher tutor instructor coach
exam test
grade mark score
language speak
church faith religion
volunteer charity donate help community
donate charity fundraiser raise
party celebrate celebration
win prize award trophy
contest competition tournament championship compete
begin start launch
end finish stop complete
choose pick select decide
like love enjoy favourite favorite prefer
hate dislike
want wish hope dream goal plan
plan intend going
try attempt
make build create construct produce
fix repair mend
break damage
lose lost missing
find discover
say tell mention
talk chat speak conversation presentation
meet encounter
join sign member
receive get gift
big large huge
small little tiny
old age elderly
fast quick speed
start begin
often frequency times
year annual
weekend saturday sunday
morning early
colour color
phone call
computer laptop
weather rain storm sun snow
beach sea ocean coast
boat ship sail
mountain hike hiking trail climb
camp camping tent
support help assist
identity gender
error exception failure fault bug problem issue crash
fail break crash
fix patch repair solve resolve
cause reason why
delete remove drop erase
add insert append create
change modify update edit alter
config configuration setting option parameter
limit maximum cap quota threshold
timeout deadline
retry attempt
password secret credential passphrase
token key credential
user account login
server host machine
address url endpoint host
port listen
endpoint route path url
database db store
table schema
directory folder
function method
test check verify validate confirm
verify check confirm validate
deploy release rollout ship
version release
branch fork
owner responsible maintainer charge
schedule cron nightly weekly
backup snapshot archive
certificate cert tls ssl
monitor watch alert metric
log trace
queue backlog
cache
customer client
supplier vendor provider
contract agreement
meeting call appointment
deadline due
invoice bill
region zone location
location place where site
port number
name called title
size length
memory ram
disk storage
slow latency performance
duplicate twice double
""".strip().splitlines()
_MOST_RELATED = 8


def _related_words() -> dict[str, tuple[str, ...]]:
    related: dict[str, dict[str, None]] = {}
    for line in _GROUPS:
        words = line.split()
        for word in words:
            related.setdefault(word, {}).update(dict.fromkeys(other for other in words if other != word))
    return {word: tuple(others)[:_MOST_RELATED] for word, others in related.items() if others}


_related = _related_words()


@lru_cache(maxsize=2048)
def related_to(word: str) -> tuple[Phrase, ...]:
    """Words related to a word in any of its forms, each with its commonest forms; none for most words."""
    base = next((form for form in forms_of(word) if form in _related), None)
    if base is None:
        return ()
    own = set(forms_of(word))
    found = dict.fromkeys(form for other in _related[base] for form in common_forms_of(other))
    return tuple(Phrase((form,)) for form in found if form not in own)
