"""Conversations without tools: chat, prose in many languages, translations, code, mathematics, data, long texts."""

from whitedwarf.calibration.code_samples import Sample, note, numbered, path_of, sample
from whitedwarf.calibration.dice import Dice
from whitedwarf.calibration.documents import Task, about, needle, remarks, structured
from whitedwarf.calibration.languages import TONGUES, Passage, passage
from whitedwarf.calibration.maths import problem
from whitedwarf.calibration.words import NOUNS, PEOPLE, PLACES, TOPICS, indefinite, noun_phrase
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, Message, SystemMessage, UserMessage

SYSTEMS = (
    "You are a helpful assistant.",
    "You are a helpful assistant. Answer in the language of the question.",
    "Be brief and exact.",
    "You are a patient teacher. Explain step by step and end with the result.",
    "You are an editor. Keep the author's voice.",
    "You are a senior engineer. Prefer simple solutions, and say what can go wrong.",
)

# What to write, and a title word for it, in each language.
WISHES = {
    "English": (
        "Write a short story about everyday life in {city}.",
        "Continue this text:",
        "Summarise in one sentence:",
    ),
    "German": (
        "Schreibe eine kurze Geschichte über den Alltag in {city}.",
        "Setze diesen Text fort:",
        "Fasse in einem Satz zusammen:",
    ),
    "French": (
        "Écris une courte histoire sur la vie quotidienne à {city}.",
        "Continue ce texte :",
        "Résume en une phrase :",
    ),
    "Spanish": (
        "Escribe un cuento corto sobre la vida diaria en {city}.",
        "Continúa este texto:",
        "Resume en una frase:",
    ),
    "Italian": (
        "Scrivi un breve racconto sulla vita quotidiana a {city}.",
        "Continua questo testo:",
        "Riassumi in una frase:",
    ),
    "Portuguese": (
        "Escreve um conto breve sobre a vida quotidiana em {city}.",
        "Continua este texto:",
        "Resume numa frase:",
    ),
    "Dutch": (
        "Schrijf een kort verhaal over het dagelijks leven in {city}.",
        "Ga verder met deze tekst:",
        "Vat samen in één zin:",
    ),
    "Russian": (
        "Напиши короткий рассказ о повседневной жизни в городе {city}.",
        "Продолжи этот текст:",
        "Кратко, одним предложением:",
    ),
    "Chinese": ("写一个关于{city}日常生活的短篇故事。", "请续写下面的文字：", "请用一句话概括："),
    "Japanese": (
        "{city}での日常生活についての短い物語を書いてください。",
        "次の文章の続きを書いてください。",
        "一文で要約してください。",
    ),
    "Korean": (
        "{city}의 일상에 대한 짧은 이야기를 써 주세요.",
        "다음 글을 이어서 써 주세요.",
        "한 문장으로 요약해 주세요.",
    ),
    "Arabic": ("اكتب قصة قصيرة عن الحياة اليومية في {city}.", "أكمل هذا النص:", "لخّص في جملة واحدة:"),
}


def talk(dice: Dice, is_thinking: bool, tasks: list[Task], system_percent: int = 50) -> Conversation:
    """Turn by turn, with a system text in so many of a hundred cases."""
    messages: list[Message] = [SystemMessage(dice.pick(SYSTEMS))] if dice.chance(system_percent) else []
    for question, thought, answer in tasks:
        messages += [UserMessage(question), AssistantMessage(answer, thought if is_thinking else None)]
    return Conversation(tuple(messages), is_thinking)


def chat(dice: Dice, is_thinking: bool) -> Conversation:
    """A few turns about this and that."""
    return talk(dice, is_thinking, dice.some(_chat_tasks(dice), dice.between(1, 4)))


def _chat_tasks(dice: Dice) -> tuple[Task, ...]:
    topic, noun, phrase = dice.pick(TOPICS), dice.pick(NOUNS), noun_phrase(dice)
    person, town = dice.pick(PEOPLE), dice.pick(PLACES)
    points = remarks(dice, topic, dice.between(3, 6))
    listed = "\n".join(f"{number}. {point}" for number, point in enumerate(points, 1))
    letter = (
        f"Dear {person},\n\nthank you for your message about the {phrase}. We can deliver it to {town} within "
        f"{dice.between(2, 30)} days. "
        f"Please tell us whether the {noun} is to be included.\n\nKind regards"
    )
    return (
        Task(
            f"Explain {topic} to a twelve-year-old.",
            f"Simple words, one picture, no jargon. {topic} it is.",
            about(dice, topic, 6),
        ),
        Task(f"Give me {len(points)} facts about {topic}.", "A numbered list is what fits.", listed),
        Task(
            f"Write a polite letter to {person}, who asked for {indefinite(phrase)}.",
            "Short and friendly; one question at the end.",
            letter,
        ),
        Task(
            f"Should I take {indefinite(noun)} or {indefinite(phrase)} for the journey to {town}?",
            "Both have something for them. I weigh size, price and use, then say which one I would take.",
            f"| | {noun} | {phrase} |\n|---|---|---|\n| price | {dice.between(20, 90)} € | {dice.between(91, 400)} "
            f"€ |\n"
            f"| weight | {dice.between(1, 9)} kg | {dice.between(1, 9)} kg |\n\nFor a single journey I would take "
            f"the {noun}: it is cheaper, "
            "and you can replace it anywhere.",
        ),
        Task(
            f"Improve this sentence: the {noun} what {person} bring was very much big.",
            "Grammar.",
            f"The {noun} that {person} brought was very large.",
        ),
        Task(
            f"How does {indefinite(noun)} differ from {indefinite(phrase)}?",
            "Which is the wider word?",
            f"A {noun} is the thing as such. {about(dice, f'the {phrase}', 3)}",
        ),
        Task("Hi! How are you today?", "A greeting.", "Hello! I am well, thank you. What can I do for you today?"),
        Task(
            f"Plan three days in {town} for {person} and two children.",
            "Morning, afternoon, evening for each day.",
            "\n\n".join(
                f"**Day {day}**\n- Morning: the {noun_phrase(dice)}\n- Afternoon: a walk to the "
                f"{dice.pick(NOUNS)}\n- Evening: dinner near the {dice.pick(NOUNS)}"
                for day in (1, 2, 3)
            ),
        ),
    )


def prose(dice: Dice, is_thinking: bool) -> Conversation:
    """A text in one of twelve languages: written, continued, or put in short."""
    tongue = dice.pick(TONGUES)
    story, onwards, shorter = WISHES[tongue]
    text = passage(dice, dice.between(8, 20))
    first = passage(dice, dice.between(5, 12))
    thought = (
        first.written(tongue)
        if dice.chance(50)
        else f"The user writes in {tongue}, so I answer in {tongue}, in whole paragraphs."
    )
    match dice.below(3):
        case 0:
            question = story.format(city=dice.pick(PLACES))
        case 1:
            question = f"{onwards}\n\n{first.written(tongue, 2)}"
        case _:
            long = passage(dice, 30)
            one = Passage(long.rows[:1], long.fillings[:1])
            return talk(
                dice, is_thinking, [Task(f"{shorter}\n\n{long.written(tongue, 4)}", thought, one.written(tongue))]
            )
    return talk(dice, is_thinking, [Task(question, thought, text.written(tongue, dice.between(1, 4)))])


def translation(dice: Dice, is_thinking: bool) -> Conversation:
    """The same passage in two languages, once or twice."""
    tasks = []
    for _ in range(dice.between(1, 2)):
        source, target = dice.some(TONGUES, 2)
        text = passage(dice, dice.between(3, 14))
        tasks.append(
            Task(
                f"Translate from {source} into {target}:\n\n{text.written(source)}",
                f"It is {source}. I go through it sentence by sentence and keep names and numbers.",
                text.written(target),
            )
        )
    return talk(dice, is_thinking, tasks, 30)


def code(dice: Dice, is_thinking: bool) -> Conversation:
    """Programs written, explained, reviewed and translated into others."""
    tasks, language = [], None
    for _ in range(dice.between(1, 3)):
        one = sample(dice, language)
        language = one.language
        tasks.append(dice.pick((_write, _review, _explain, _module))(dice, one))
    return talk(dice, is_thinking, tasks)


def _fenced(one: Sample, text: str) -> str:
    return f"```{one.fence}\n{text.rstrip()}\n```"


def _write(dice: Dice, one: Sample) -> Task:
    thought = f"In {one.language} that is short. The line that matters is `{one.right_line.strip()}`; the rest "
    "follows from it."
    answer = f"{_fenced(one, one.code)}\n\nThe decisive line is `{one.right_line.strip()}`. {note(dice)}"
    return Task(f"Write {one.language} code with `{one.function}`. {note(dice)}", thought, answer)


def _review(dice: Dice, one: Sample) -> Task:
    at = one.broken.split("\n").index(one.wrong_line) + 1
    thought = (
        f"Line {at}: `{one.wrong_line.strip()}`. With this the result is wrong; `{one.right_line.strip()}` is meant."
    )
    answer = (
        f"There is a mistake in line {at}:\n\n```diff\n-{one.wrong_line}\n+{one.right_line}\n```\n\nThe rest is fine."
    )
    return Task(f"Find the bug.\n\n{_fenced(one, one.broken)}", thought, answer)


def _explain(dice: Dice, one: Sample) -> Task:
    lines = [line for line in one.code.rstrip("\n").split("\n") if line.strip()]
    walk = "\n".join(f"- `{line.strip()}`" for line in lines[: dice.between(3, 8)])
    answer = f"`{one.function}` goes through these steps:\n\n{walk}\n\nWhat decides is `{one.right_line.strip()}`."
    return Task(
        f"What does this {one.language} code do?\n\n{numbered(one.code)}", "I read it from top to bottom.", answer
    )


def _module(dice: Dice, one: Sample) -> Task:
    pieces = [one.code] + [sample(dice, one.language).code for _ in range(dice.between(1, 4))]
    path = path_of(dice, one.tongue)
    comment = "" if one.language in ("HTML", "PHP") else f"{one.tongue.comment} {note(dice)}\n\n"
    question = (
        f"Create the file `{path}` with everything that {indefinite(dice.pick(NOUNS))} service needs to {one.function}."
    )
    return Task(
        question,
        f"A few small pieces, {len(pieces)} of them, in {path}.",
        f"`{path}`:\n\n{_fenced(one, comment + chr(10).join(pieces))}",
    )


def maths(dice: Dice, is_thinking: bool) -> Conversation:
    """Problems worked out."""
    tasks = []
    for _ in range(dice.between(1, 4)):
        question, steps, answer = problem(dice)
        shown = "\n".join(steps) if dice.chance(50) else "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))
        thought = f"Let me work it out. {' Then '.join(steps)} That gives {answer}. Check: it fits what was asked."
        tasks.append(Task(question, thought, f"{shown}\n\n**{answer}**"))
    return talk(dice, is_thinking, tasks)


def data(dice: Dice, is_thinking: bool) -> Conversation:
    """Structured texts."""
    return talk(dice, is_thinking, [structured(dice) for _ in range(dice.between(1, 2))])


def search(dice: Dice, is_thinking: bool) -> Conversation:
    """Something hidden in a long text."""
    return talk(dice, is_thinking, [needle(dice)], 30)
