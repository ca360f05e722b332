"""Facts: small tables of common knowledge, each asked in several wordings.

A fixed part of the wordings (about one in eleven) is kept for evaluation and never trained on.
"""

from collections.abc import Iterator
from random import Random

from nano.curriculum.texts import Exchange


def _table(text: str) -> dict[str, str]:
    return dict(entry.split(":") for entry in text.split("|"))


CAPITALS = _table(
    "France:Paris|Italy:Rome|Germany:Berlin|Spain:Madrid|Portugal:Lisbon|England:London|Ireland:Dublin|Norway:Oslo|"
    "Sweden:Stockholm|Finland:Helsinki|Denmark:Copenhagen|Austria:Vienna|Hungary:Budapest|Poland:Warsaw|Greece:Athens|"
    "Belgium:Brussels|Switzerland:Bern|Russia:Moscow|Ukraine:Kyiv|Turkey:Ankara|Egypt:Cairo|Kenya:Nairobi|"
    "Nigeria:Abuja|Morocco:Rabat|Japan:Tokyo|China:Beijing|India:New Delhi|Thailand:Bangkok|Vietnam:Hanoi|"
    "Indonesia:Jakarta|Australia:Canberra|Canada:Ottawa|Mexico:Mexico City|Brazil:Brasilia|Argentina:Buenos Aires|"
    "Chile:Santiago|Peru:Lima|Colombia:Bogota|Cuba:Havana|Iceland:Reykjavik"
)
COLOURS = _table(
    "the sky:blue|grass:green|snow:white|coal:black|a banana:yellow|blood:red|a lemon:yellow|an orange:orange|"
    "chocolate:brown|a tomato:red|a cherry:red|milk:white|the sun:yellow|a leaf:green|the sea:blue|an elephant:gray|"
    "a carrot:orange|a pumpkin:orange|charcoal:black|a polar bear:white"
)
OPPOSITES = _table(
    "hot:cold|big:small|up:down|left:right|day:night|open:closed|fast:slow|light:dark|full:empty|old:new|high:low|"
    "rich:poor|hard:soft|wet:dry|happy:sad|true:false|good:bad|early:late|start:end|long:short|strong:weak|loud:quiet"
)
DEFINITIONS = _table(
    "a cat:a small animal that purrs|a dog:an animal that barks|water:a clear liquid that we drink|"
    "a computer:a machine that runs programs|a file:a named piece of stored data|a token:a small piece of text|"
    "a program:a list of instructions for a computer|the moon:the natural satellite of the Earth|"
    "a star:a huge ball of hot gas|a tree:a tall plant with a trunk|a river:a long stream of fresh water|"
    "rain:water that falls from clouds|a book:a set of pages to read|a clock:a device that shows the time|"
    "a tool:something that helps to do a job|an island:land with water all around it|"
    "a triangle:a shape with three sides|a square:a shape with four equal sides|an hour:sixty minutes|"
    "a week:seven days"
)
SOUNDS = _table("dog:woof|cat:meow|cow:moo|sheep:baa|duck:quack|lion:roar|bee:buzz|snake:hiss|pig:oink|owl:hoot")
SYMBOLS = _table("hydrogen:H|oxygen:O|carbon:C|nitrogen:N|helium:He|iron:Fe|gold:Au|silver:Ag|sodium:Na|copper:Cu")
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October"]
MONTHS += ["November", "December"]
PLANETS = ["Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"]
ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]
SINGLE = {
    "How many days are in a week?": "A week has seven days.",
    "How many months are in a year?": "A year has twelve months.",
    "How many hours are in a day?": "A day has twenty-four hours.",
    "How many planets are there?": "There are eight planets.",
    "How many legs does a spider have?": "A spider has eight legs.",
    "How many legs does a dog have?": "A dog has four legs.",
    "List the planets.": f"The planets are {', '.join(PLANETS)}.",
    "List the days of the week.": f"The days are {', '.join(DAYS)}.",
    "List the months.": f"The months are {', '.join(MONTHS)}.",
    "List three colors.": "Three colors are red, green and blue.",
    "List three fruits.": "Three fruits are apple, banana and cherry.",
    "List three animals.": "Three animals are cat, dog and horse.",
}


def _asked(questions: list[str], answer: str, thought: str | None = None) -> Iterator[Exchange]:
    for question in questions:
        yield Exchange(question, answer, thought or answer)


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def _about_places() -> Iterator[Exchange]:
    for country, city in CAPITALS.items():
        yield from _asked(
            [
                f"What is the capital of {country}?",
                f"Capital of {country}?",
                f"Which city is the capital of {country}?",
                f"Tell me the capital of {country}.",
                f"what's the capital of {country}",
                f"Name the capital city of {country}.",
            ],
            f"The capital of {country} is {city}.",
        )
        questions = [f"{city} is the capital of which country?", f"Which country has the capital {city}?"]
        yield from _asked(questions, f"{city} is the capital of {country}.", f"{city} belongs to {country}.")


def _about_things() -> Iterator[Exchange]:
    for thing, colour in COLOURS.items():
        questions = [f"What color is {thing}?", f"What is the color of {thing}?", f"Which color does {thing} have?"]
        questions += [f"Tell me the color of {thing}.", f"what colour is {thing}"]
        yield from _asked(questions, f"{_capitalised(thing)} is {colour}.")
    for thing, meaning in DEFINITIONS.items():
        questions = [f"What is {thing}?", f"Define {thing}.", f"what is {thing}"]
        questions += [f"Tell me what {thing} is.", f"Explain what {thing} is."]
        yield from _asked(questions, f"{_capitalised(thing)} is {meaning}.", f"I know what {thing} is.")
    for animal, sound in SOUNDS.items():
        questions = [f"What sound does a {animal} make?", f"What does a {animal} say?"]
        yield from _asked([*questions, f"Which sound does the {animal} make?"], f"A {animal} says {sound}.")
    for element, symbol in SYMBOLS.items():
        questions = [f"What is the chemical symbol of {element}?", f"Symbol for {element}?"]
        yield from _asked([*questions, f"What is the symbol for {element}?"], f"The symbol for {element} is {symbol}.")


def _about_order() -> Iterator[Exchange]:
    for place, day in enumerate(DAYS):
        after, before = DAYS[(place + 1) % 7], DAYS[place - 1]
        questions = [f"What day comes after {day}?", f"Which day follows {day}?", f"What is the day after {day}?"]
        yield from _asked(questions, f"The day after {day} is {after}.", f"After {day} comes {after}.")
        questions = [f"What day comes before {day}?", f"Which day is before {day}?", f"What is the day before {day}?"]
        yield from _asked(questions, f"The day before {day} is {before}.", f"Before {day} comes {before}.")
    for place, month in enumerate(MONTHS):
        after = MONTHS[(place + 1) % 12]
        questions = [f"What month comes after {month}?", f"Which month follows {month}?"]
        questions.append(f"What is the month after {month}?")
        yield from _asked(questions, f"The month after {month} is {after}.", f"After {month} comes {after}.")
    for ordinal, planet in zip(ORDINALS, PLANETS, strict=True):
        questions = [f"What is the {ordinal} planet from the sun?", f"Which planet is {ordinal} from the sun?"]
        yield from _asked([*questions, f"Name the {ordinal} planet."], f"The {ordinal} planet is {planet}.")
    for left, right in OPPOSITES.items():
        questions = [f"What is the opposite of {left}?", f"Opposite of {left}?", f"Tell me the opposite of {left}."]
        questions.append(f"Which word is the opposite of {left}?")
        yield from _asked(questions, f"The opposite of {left} is {right}.")


def _all() -> Iterator[Exchange]:
    yield from _about_places()
    yield from _about_things()
    yield from _about_order()
    for question, answer in SINGLE.items():
        yield from _asked([question, question.lower(), f"Please tell me: {question}"], answer, "I know this.")


def is_held_out(question: str) -> bool:
    """Whether a wording is for evaluation only; a property of its bytes, the same for ever."""
    return sum((place + 1) * byte for place, byte in enumerate(question.encode())) % 11 == 3


ALL = tuple(_all())
TRAINED = tuple(fact for fact in ALL if not is_held_out(fact.question))
HELD_OUT = tuple(fact for fact in ALL if is_held_out(fact.question))


def fact(rng: Random) -> Exchange:
    """A fact in one of the wordings for training."""
    return rng.choice(TRAINED)


def held_out_fact(rng: Random) -> Exchange:
    """A fact in a wording that is never trained on."""
    return rng.choice(HELD_OUT)
