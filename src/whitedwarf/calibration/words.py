"""Words to fill texts, names and code with."""

from whitedwarf.calibration.dice import Dice


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NOUNS = _words(
    """account anchor archive balance barrier basin batch beacon border bracket bridge broker bucket budget bundle
    cabin canal candle carrier catalogue ceiling cellar chapter charter circuit claim clinic cluster coast
    column compass contract copper corner council counter courier crate curtain cycle dealer delta deposit desk
    diary district dock drawer dynamo editor engine envelope episode escort estate exhibit fabric factor ferry
    figure filter flask folder forge formula fountain frame frontier furnace gallery garden gateway glacier
    granite grid guild hammer harbour harvest hinge horizon household index inlet insect invoice island jacket
    journal junction kernel kettle ladder lantern ledger lens letter lever library licence lighthouse limit
    lobby locker lodge machine magnet manifest margin market marsh meadow measure mechanism medal meter mineral
    mirror module monument motor museum needle network notebook nursery oasis object orchard order outlet oven
    packet paddle panel parcel passage patent pattern pavement pebble pedal pension permit pipeline planet
    plateau platform plot pocket pond portal portrait prairie prism profile project pump quarry queue radar raft
    railway ranch ratio receipt recipe reef refuge register relay remedy report reservoir residue resource
    ribbon ridge river rocket roster route saddle sample satellite scaffold schedule sculpture segment sensor
    session shelf shelter shipment shutter signal silo sketch socket spectrum sponge stable stadium station
    statue stream studio subway summit survey switch syrup table tank target tavern temple terminal terrace
    theatre thread throttle ticket timber token tower tractor trail transit treaty tunnel turbine valley valve
    vault vehicle vendor vessel village vineyard volume wagon warehouse warrant wharf whistle widget window
    workshop zone"""
)
ADJECTIVES = _words(
    """able ancient annual arctic awkward bitter blank bold brief brittle broad calm careful central cheap civil
    clear coarse common compact complete costly crude curious daily damp deep delicate dense dim distant double
    dusty eager early elastic elegant empty exact faint fair false familiar fertile final flat foreign formal
    fragile frequent fresh gentle global gradual grave handy harsh heavy hidden hollow idle inner intact
    internal joint keen large late lean legal level light liquid local loose lucky main manual marine mature
    mild minor mobile modest moist narrow native neat neutral noble normal novel odd optional orderly outer pale
    partial patient plain polite portable precise prime private proper public quick quiet random rapid rare raw
    ready recent regular remote rigid ripe robust rough round rural safe salty secure severe shallow sharp
    silent simple single slim smooth sober solid spare sparse stable steady steep sturdy subtle sudden tame
    tender thick thin tidy tight tiny tough urban urgent usual vague valid vast vivid warm weak wet whole wide
    wild wise wooden"""
)
VERBS = _words(
    """adjust apply arrange assign attach balance bind build cancel carry check clean close collect combine compare
    compute connect convert copy count create decode define delete deliver detect divide draw drop encode
    examine expand export extract fetch filter find finish flush follow format gather group handle import
    inspect install invert join label launch limit link list load lock map mark measure merge mix modify move
    normalise notify open order pack parse patch pause place plan print process publish push query raise rank
    read rebuild record recover reduce refresh register reject release remove rename repair repeat replace
    report request reset resolve restore retry reverse rotate sample save scan schedule search select send
    separate serve shift shrink shuffle sign skip sort split stop store stream submit suspend swap test track
    trim update upload validate verify wait wrap write"""
)
PEOPLE = _words(
    """Adela Akira Amina Anouk Antoni Arjun Astrid Ayana Beatriz Benoit Camila Cedric Chen Dagny Dariusz Diya Edda
    Eamon Elif Emeka Esther Farid Fiona Gabor Hanneke Haruto Ileana Imani Ingmar Ismail Jana Joaquin Kaito Katya
    Kofi Leila Lorenzo Lucia Mads Mariam Matteo Mei Miguel Mirela Nadia Nikhil Nuria Odile Olamide Oskar Petra
    Rafael Ritva Rohan Salma Sanne Selim Shirin Soren Tadeusz Tamar Thabo Tomas Uma Vasco Viktor Wanjiru Xavier
    Yael Yusuf Zofia"""
)
PLACES = _words(
    """Aarhus Accra Almaty Antwerp Basel Bergen Bilbao Bologna Brno Bursa Cork Cusco Dakar Ghent Graz Haifa Hobart
    Izmir Kigali Kobe Krakow Lausanne Leipzig Lima Lund Lusaka Malmo Mendoza Nagoya Nantes Odessa Oulu Palermo
    Perth Pune Riga Rabat Recife Salta Sapporo Sofia Split Tallinn Tampere Tbilisi Turku Utrecht Valencia
    Vilnius Zagreb"""
)
TOPICS = (
    "heat pumps", "sourdough bread", "the water cycle", "double-entry bookkeeping", "tide tables", "solar eclipses",
    "the printing press", "bicycle gears", "vaccination", "coral reefs", "chess openings",
    "public-key cryptography", "composting", "the Silk Road", "volcanoes", "noise-cancelling headphones",
    "glass making", "bird migration", "compound interest", "river locks", "typography", "the periodic table",
    "earthquakes", "beekeeping", "satellite navigation", "photosynthesis", "database indexes", "knitting patterns",
    "container ships", "the immune system", "sleep", "jazz harmony", "soil erosion", "error-correcting codes",
    "wind turbines", "tea", "the Roman aqueducts", "garbage collection in programs", "map projections",
    "fermentation", "supply and demand", "lighthouses", "optical fibres", "snow avalanches",
)  # fmt: skip
PATH_PARTS = (
    "src",
    "lib",
    "core",
    "app",
    "internal",
    "pkg",
    "server",
    "client",
    "tools",
    "scripts",
    "services",
    "common",
)


def noun_phrase(dice: Dice) -> str:
    """An adjective, sometimes, and a noun."""
    noun = dice.pick(NOUNS)
    return f"{dice.pick(ADJECTIVES)} {noun}" if dice.chance(60) else noun


def snake(dice: Dice, words: int = 2) -> str:
    """verb_noun, or with an adjective between."""
    middle = [dice.pick(ADJECTIVES)] if words > 2 else []
    return "_".join([dice.pick(VERBS), *middle, dice.pick(NOUNS)])


def camel(name: str) -> str:
    """snake_case -> camelCase."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def pascal(name: str) -> str:
    """snake_case -> PascalCase."""
    return "".join(map(str.capitalize, name.split("_")))


def date(dice: Dice) -> str:
    """An ISO date."""
    return f"{dice.between(1996, 2029)}-{dice.between(1, 12):02}-{dice.between(1, 28):02}"


def moment(dice: Dice) -> str:
    """A timestamp as logs have it."""
    clock = f"{dice.below(24):02}:{dice.below(60):02}:{dice.below(60):02}"
    return f"{date(dice)}T{clock}.{dice.below(1000):03}Z"


def moments(dice: Dice, count: int) -> list[str]:
    """Timestamps of one hour, one after the other."""
    day, hour, second = date(dice), dice.below(24), 0
    found = []
    for _ in range(count):
        second = min(3599, second + dice.below(2 * 3600 // count))
        found.append(f"{day}T{hour:02}:{second // 60:02}:{second % 60:02}.{dice.below(1000):03}Z")
    return found


def indefinite(phrase: str) -> str:
    """With a or an."""
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"
