"""Sentences of our own, in several languages and kinds, from which the demo rows are made."""

from typing import Final

QUESTIONS: Final[dict[str, tuple[str, ...]]] = {
    "en": (
        "How do I keep basil alive through the winter on a north-facing window sill?",
        "What is the difference between a queue and a stack, and when does it matter?",
        "Explain in two sentences why the sky looks blue at noon and red at sunset.",
        "My bread dough rises well but collapses in the oven. What am I doing wrong?",
        "Which is heavier, a litre of olive oil or a litre of sea water?",
        "Write a short, polite letter that asks a neighbour to keep the music down.",
        "Give me three names for a small boat that delivers letters between islands.",
        "How long would a train take for 480 kilometres at 160 kilometres an hour?",
    ),
    "de": (
        "Wie viele Brötchen brauche ich für sieben Gäste, wenn jeder zwei isst?",
        "Erkläre mir den Unterschied zwischen Wetter und Klima in einfachen Worten.",
        "Warum gefriert Salzwasser später als Süßwasser?",
        "Schreibe einen freundlichen Zettel für die Kaffeemaschine im Büro.",
    ),
    "fr": (
        "Pourquoi les feuilles changent-elles de couleur à l'automne ?",
        "Propose un menu léger pour un soir d'été, sans viande ni poisson.",
        "Comment choisir une bonne paire de chaussures pour marcher longtemps ?",
    ),
    "es": (
        "¿Cuánta agua necesita un limonero joven durante el verano?",
        "Resume en una frase por qué conviene leer en voz alta a los niños.",
        "¿Qué significa que un programa sea «determinista»?",
    ),
    "ru": (
        "Почему лёд плавает на поверхности воды, а не тонет?",
        "Составь короткий список вещей для похода на два дня.",
        "Чем отличается сортировка слиянием от быстрой сортировки?",
    ),
    "zh": (
        "请用两句话解释为什么月亮有圆有缺。",
        "我想学做豆腐汤，需要准备哪些材料？",
        "把「早起的鸟儿有虫吃」翻译成英文，并解释它的意思。",
    ),
    "ja": (
        "雨の日に部屋でできる遊びを三つ教えてください。",
        "「木漏れ日」という言葉の意味を英語で説明してください。",
        "電車が遅れたときの丁寧なお詫びの文を書いてください。",
    ),
    "ko": (
        "김치를 처음 담그는 사람에게 어떤 조언을 해 주시겠어요?",
        "한 시간에 6킬로미터를 걸으면 45분 동안 얼마나 걷나요?",
    ),
    "ar": (
        "لماذا تبدو النجوم وكأنها تومض في الليل؟",
        "اقترح ثلاثة أسماء لمقهى صغير قرب البحر.",
    ),
    "hi": (
        "बारिश के बाद मिट्टी से खुशबू क्यों आती है?",
        "मुझे चाय बनाने का आसान तरीका बताइए।",
    ),
    "th": ("ทำไมใบไม้ถึงเปลี่ยนสีในบางฤดู?",),
    "el": ("Γιατί η θάλασσα είναι αλμυρή;",),
}
"""Language tag to questions."""

ANSWERS: Final[tuple[str, ...]] = (
    "Put the pot where it gets light for at least four hours, and water it only when the top "
    "of the soil feels dry.",
    "A queue serves first what came first; a stack serves first what came last. It matters "
    "whenever the order of work changes its result.",
    "Short waves scatter more than long ones. At noon the blue comes from everywhere; at sunset "
    "the light crosses so much air that only the red is left.",
    "The oven may be too cool, or the dough has risen for too long: it is full of gas that it "
    "can no longer hold.",
    "480 divided by 160 is 3, so the train takes three hours.",
    "Natürlich: sieben Gäste mal zwei Brötchen sind vierzehn.",
    "Parce que la chlorophylle disparaît et laisse voir les autres couleurs. 🍂",
    "Лёд легче воды: при замерзании вода расширяется, и её плотность падает.",
    "因为月球绕地球转动，我们看到的受光部分在不断变化。",
    "三つあります：折り紙、しりとり、そして音楽を聴くことです。🎧",
    "Here is a list:\n\n1. a lamp\n2. two blankets\n3. dry socks 🧦\n4. tea ☕️\n",
)

CODE: Final[tuple[str, ...]] = (
    "def mean(values: list[float]) -> float:\n"
    '    """Arithmetic mean; raises on an empty list."""\n'
    "    if not values:\n"
    '        raise ValueError("no values")\n'
    "    return sum(values) / len(values)\n",
    "SELECT city, count(*) AS trips\nFROM rides\nWHERE started_at >= '2026-01-01'\n"
    "GROUP BY city\nHAVING count(*) > 10\nORDER BY trips DESC;\n",
    "fn main() {\n    let total: u64 = (1..=100).filter(|n| n % 3 == 0).sum();\n"
    '    println!("{total}");\n}\n',
    'const sum = (xs) => xs.reduce((a, b) => a + b, 0);\nconsole.log(sum([1, 2, 3])); // "6"\n',
    "#!/bin/sh\nset -eu\nfor f in *.txt; do\n"
    '\tprintf \'%s\\t%s\\n\' "$f" "$(wc -l < "$f")"\ndone\n',
    '<ul>\n  <li><a href="#one">One &amp; only</a></li>\n  <li>Two</li>\n</ul>\n',
)

SYSTEM: Final[tuple[str, ...]] = (
    "You are a patient teacher. Answer in the language of the question.",
    "Be brief. When you are not sure, say so.",
    "You help in a small library. Today is a quiet day.",
)

EMOJI: Final = "😀 👩‍🚀 🏳️‍🌈 🇳🇴 👍🏽 e\u0301 ﷽ 𝕏 \u200b"
"""Characters that tell a tokenizer that counts code points from one that counts bytes."""

LONG: Final = (
    "The harbour wakes before the town does. Nets are mended on the quay, a radio plays "
    "somewhere, and the first ferry leaves with three cars and a dog. Whoever keeps the log "
    "writes down the wind, the water level and the names of the boats that are still out. "
)
"""Repeated for rows that have to be cut, or are too long."""
