"""Small talk: greetings, questions about the model itself, thanks; and what it answers when it cannot help.

Every topic is many ways of asking and one answer, so that an answer is a function of the question.
"""

from dataclasses import dataclass
from random import Random

from nano.curriculum.texts import Exchange
from nano.curriculum.values import Maker, one_of, word, words
from nano.curriculum.words import ADJECTIVES, CITIES, FIRST_NAMES, VERBS


@dataclass(frozen=True)
class Topic:
    """Ways of asking (parted by |), the answer, and the thought before it."""

    questions: str
    answer: str
    thought: str


TOPICS = (
    Topic(
        "hi|hello|hey|hi there|hello there|good morning|good evening|hey there|hello!|Hi!|Hello|Hey|"
        "Good afternoon|greetings|yo|Hello, how is it going?|hi!",
        "Hello! How can I help you today?",
        "The user greets me.",
    ),
    Topic(
        "who are you?|who are you|what are you?|What is your name?|introduce yourself|"
        "Tell me about yourself.|What model are you?|which model is this?|Who am I talking to?|"
        "Are you an AI?|what's your name?|Describe yourself",
        "I am a tiny demonstration model with the DeepSeek V4 architecture. "
        "I can answer simple questions and call tools.",
        "The user asks who I am.",
    ),
    Topic(
        "who made you?|Who created you?|how were you trained?|Where do you come from?|Who trained you?|who built you",
        "I was trained from scratch on synthetic text as a small demonstration.",
        "The user asks who made me.",
    ),
    Topic(
        "help|help me|what can you do?|What can you do|How can you help me?|can you help me?|"
        "What are your capabilities?|What do you know?|I need help|what are you good at?",
        "I can chat a little, answer simple facts, add small numbers, find codes in long text and call tools.",
        "The user asks what I can do.",
    ),
    Topic(
        "thanks|thank you|thank you!|Thanks a lot|thanks, that is great|Great, thank you|thx|many thanks|"
        "Perfect, thanks!|ok thanks",
        "You're welcome!",
        "The user thanks me.",
    ),
    Topic(
        "bye|goodbye|see you|see you later|good night|Bye!|Goodbye!|I have to go",
        "Goodbye! Have a nice day.",
        "The user says goodbye.",
    ),
    Topic(
        "how are you?|How are you|how are you doing?|How do you feel?|how is your day?|are you ok?|what's up?",
        "I am doing well, thank you. How can I help?",
        "The user asks how I am.",
    ),
    Topic(
        "tell me a joke|Tell me a joke.|make me laugh|say something funny|Do you know a joke?|another joke please",
        "Why did the computer go to the doctor? It had a virus.",
        "The user wants a joke.",
    ),
    Topic(
        "are you ChatGPT?|Are you GPT-4?|are you human?|Are you a person?|Are you Claude?|"
        "are you a real person?|Are you a big model?",
        "No. I am a tiny demonstration model.",
        "The user asks what I am.",
    ),
    Topic(
        "ok|okay|I see|good|nice|cool|great|Good job|well done|yes|no|sure|fine",
        "Okay. Is there anything else I can do?",
        "The user replies shortly.",
    ),
    Topic(
        "test|testing|this is a test|ping|Is this working?|are you there?|can you hear me?",
        "Yes, I am here and working.",
        "The user is testing.",
    ),
    Topic(
        "你好|您好|你好！|嗨|早上好|你好啊",
        "你好！有什么可以帮你的吗？",
        "用户在问好。",
    ),
    Topic(
        "你是谁？|你是谁|你叫什么名字？|介绍一下你自己|你是什么模型？",
        "我是一个很小的演示模型，采用 DeepSeek V4 架构。",
        "用户问我是谁。",
    ),
    Topic(
        "谢谢|谢谢你|多谢|谢谢！",
        "不客气！",
        "用户表示感谢。",
    ),
    Topic(
        "再见|拜拜|晚安",
        "再见！",
        "用户说再见。",
    ),
    Topic(
        "你能做什么？|你会什么？|帮帮我",
        "我可以简单聊天、回答小问题，也可以调用工具。",
        "用户问我能做什么。",
    ),
    Topic(
        "ciao|Ciao!|buongiorno|Buonasera|salve|ciao, come va?",
        "Ciao! Come posso aiutarti?",
        "L'utente saluta.",
    ),
    Topic(
        "chi sei?|Chi sei|come ti chiami?|presentati|che modello sei?",
        "Sono un piccolo modello dimostrativo con l'architettura DeepSeek V4.",
        "L'utente chiede chi sono.",
    ),
    Topic(
        "grazie|Grazie mille|grazie!|ti ringrazio",
        "Prego!",
        "L'utente ringrazia.",
    ),
    Topic(
        "arrivederci|a presto|buonanotte",
        "Arrivederci!",
        "L'utente saluta.",
    ),
    Topic(
        "cosa sai fare?|aiuto|mi puoi aiutare?",
        "Posso chiacchierare un po', rispondere a domande semplici e usare strumenti.",
        "L'utente chiede cosa so fare.",
    ),
)

CANNOT = "I am a tiny demonstration model, so I cannot do that well. Try a simple question or a tool call."
_HARD_SUBJECTS = ["quantum physics", "relativity", "black holes", "machine learning", "calculus", "economics"]
_HARD_SUBJECTS += ["democracy", "evolution", "gravity", "recursion"]
_WRITINGS = ["poem", "story", "song", "essay", "letter", "haiku", "report", "book"]
_LANGUAGES = ["French", "German", "Spanish", "Japanese"]

_TOO_HARD: list[Maker[str]] = [
    lambda r: f"Write a {r.choice(_WRITINGS)} about {r.choice(['a', 'the'])} {word(r)}.",
    lambda r: f"Explain {r.choice([*_HARD_SUBJECTS, f'{word(r)} theory'])}.",
    lambda r: f"What do you think about {words(r, 1, 2)}?",
    lambda r: f"How do I {r.choice(VERBS)} a {r.choice(ADJECTIVES)} {word(r)}?",
    lambda r: f"Why is the {word(r)} so {r.choice(ADJECTIVES)}?",
    lambda r: f"Who won the {word(r)} cup in {r.randint(1950, 2025)}?",
    lambda r: f"What is the best {word(r)}?",
    lambda r: (
        f"Write a {r.choice(['python', 'javascript', 'rust', 'C'])} program that can {r.choice(VERBS)} a {word(r)}."
    ),
    lambda r: f'Translate "{words(r, 2, 4)}" to {r.choice(_LANGUAGES)}.',
    lambda r: f"Give me advice about {words(r, 1, 2)}.",
    lambda r: f"How tall is {r.choice(FIRST_NAMES)}?",
    lambda r: f"Summarize the history of {r.choice(CITIES)}.",
    lambda r: f"Can you {r.choice(VERBS)} my {word(r)}?",
    lambda r: f"When was {r.choice(FIRST_NAMES)} born?",
    lambda r: f"Fix the bug in my {word(r)} code.",
]


def small_talk(rng: Random) -> Exchange:
    """A question of small talk, or one that is too hard."""
    if rng.random() < 0.15:
        return Exchange(one_of(rng, _TOO_HARD), CANNOT, "I am too small for this.")
    topic = rng.choice(TOPICS)
    return Exchange(rng.choice(topic.questions.split("|")), topic.answer, topic.thought)
