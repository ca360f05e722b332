"""The vocabulary of the synthetic texts: plain English words, names and places, and syllables for invented words."""


def _words(text: str) -> list[str]:
    return text.split()


NOUNS = _words("""
apple river stone window garden market bridge candle silver paper forest letter castle winter summer engine button
basket pocket mirror ladder kitchen planet rocket island harbor valley desert signal pattern thread blanket hammer
needle bottle camera guitar violin pencil ticket wallet jacket helmet turtle rabbit falcon tiger dolphin spider lizard
pepper ginger lemon cherry banana potato tomato carrot onion garlic butter cheese bread honey sugar coffee water fire
earth cloud thunder shadow light music story report table chair lamp door wall floor roof tower road street path field
hill mountain lake ocean beach ship boat train truck wagon wheel metal copper iron gold glass wood cotton leather
rubber plastic sample record module server client folder memory buffer cache token parser driver socket packet kernel
thread worker queue stack graph tree branch commit merge release version schema config option setting session request
response status header payload message channel event handler logger backup mirror index table column query filter
result summary budget invoice order account customer product price stock store project task ticket note draft page
chapter title author reader editor teacher student doctor nurse pilot sailor farmer baker driver painter singer dancer
writer lawyer judge mayor king queen knight wizard dragon robot alien ghost
""")

ADJECTIVES = _words("""
quick slow bright dark quiet loud small large tiny huge old new cold warm soft hard smooth rough clean dirty empty
full heavy light narrow wide deep shallow early late young gentle brave calm clever curious eager fancy fresh golden
green hidden honest humble icy jolly kind lazy lucky modern noisy odd plain polite proud rare round rusty sharp shiny
simple sleepy strange sunny sweet tall thick thin wild wise young final local remote public private static dynamic
safe stable broken
""")

VERBS = _words("""
open close read write check move build break clean count draw drop find follow guard hold keep leave lift load mark
paint pass pick place pull push raise reach repair save send show sort start stop store take test touch turn visit
watch wrap copy delete create update list search print parse render compile deploy install remove rename review verify
explain describe prefer avoid ask answer report return use run call change edit
""")

FIRST_NAMES = _words("""
Anna Ben Carla David Elena Felix Greta Hugo Irene Jonas Karin Leo Marta Nina Oscar Paula Quentin Rosa Simon Tara Ugo
Vera Walter Xenia Yara Zeno Alice Boris Clara Diego Emma Fabio Gina Henry Ivan Julia Kevin Laura Mario Nora Olga Peter
Rita Sara Tom Ursula Victor Wendy Luca Sofia Marco Giulia Paolo Chiara Wei Ming Li Hana Yuki Omar Amir Layla Ravi
Priya Ines Tariq Freya Bjorn
""")

_CITIES_OF_ONE_WORD = _words("""
Rome Paris London Berlin Madrid Lisbon Vienna Prague Warsaw Athens Dublin Oslo Stockholm Helsinki Copenhagen Budapest
Milan Naples Turin Florence Venice Lyon Munich Hamburg Barcelona Seville Porto Geneva Zurich Brussels Amsterdam Tokyo
Osaka Kyoto Beijing Shanghai Seoul Delhi Mumbai Bangkok Hanoi Manila Jakarta Sydney Melbourne Auckland Toronto
Montreal Vancouver Chicago Boston Seattle Denver Dallas Miami Austin Cairo Lagos Nairobi Lima Bogota Santiago Havana
Quito Caracas
""")

_CITIES_OF_MORE = ["New York", "San Francisco", "Los Angeles", "Buenos Aires", "Mexico City", "Hong Kong", "Cape Town"]
_CITIES_OF_MORE += ["Rio de Janeiro", "Las Vegas", "Tel Aviv"]
CITIES = _CITIES_OF_ONE_WORD + _CITIES_OF_MORE

SYLLABLES = _words("""
ba be bi bo bu da de di do du fa fe fi fo ga ge go gu ka ke ki ko la le li lo lu ma me mi mo mu na ne ni no nu pa pe
pi po ra re ri ro ru sa se si so su ta te ti to tu va ve vi vo za ze zi zo zu blim zorp quax trin flo gra ski ven dor
mex tal nim fen wib jor plax kri dro
""")

FILE_ENDINGS = _words("""
txt md py json csv toml yaml log html js ts c h rs go sh cfg ini sql xml
""")

PARAMETER_NAMES = _words("""
name id value key label target source mode level limit count size text title color unit tag user group host port kind
format input output topic code amount speed width height depth rate
""")
