"""English sentences from a small grammar, word by word, from which a language model learns kinds of words."""

import math
import random
from itertools import chain, count, islice
from typing import NamedTuple

from attention_lab.constructor_options import options_of
from attention_lab.data.language import LanguageData, Symbols
from attention_lab.data.reading.codecs import LanguageCodec
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.sampled import SentencesSpec

RULES = """
SENTENCE = CLAUSE | CLAUSE | CLAUSE WHEN | CLAUSE WHEN | PERSON_1 SAYS that CLAUSE | PERSON_N SAY that CLAUSE
CLAUSE = PERSON_1 DOES | PERSON_N DO | BEAST_1 LIVES | BEAST_N LIVE
PERSON_1 = ONE PERSON | ONE PERSON | ONE MOOD PERSON | ONE PERSON who SEES OBJECT
PERSON_N = SOME PEOPLE | SOME PEOPLE | SOME MOOD PEOPLE | SOME PEOPLE who SEE OBJECT
BEAST_1 = ONE ANIMAL | ONE ANIMAL | ONE COLOUR ANIMAL | ONE ANIMAL near the PLACE
BEAST_N = SOME ANIMALS | SOME ANIMALS | SOME COLOUR ANIMALS | SOME ANIMALS near the PLACE
DOES = GOES WAY | GOES WAY HOW | EATS MEAL | drinks CUP | COOKS MEAL | SEES OBJECT | is MOOD
DO = GO WAY | GO WAY HOW | EAT MEAL | drink CUP | COOK MEAL | SEE OBJECT | are MOOD
LIVES = GOES WAY | GOES WAY HOW | EATS FOOD | drinks DRINK | SEES OBJECT | is MOOD
LIVE = GO WAY | GO WAY HOW | EAT FOOD | drink DRINK | SEE OBJECT | are MOOD
WAY = TOWARDS the PLACE | TOWARDS the PLACE | TOWARDS ONE COLOUR THING
MEAL = FOOD | TASTE FOOD | FOOD and FOOD | FOOD with FOOD
CUP = DRINK | a cup of DRINK | a glass of DRINK
OBJECT = the PERSON | ONE ANIMAL | SOME ANIMALS | ONE COLOUR THING | the PLACE
WHEN = on DAY | every DAY | in MONTH | in the morning | in the evening | today | now
ONE = a | the | every | this | my | your
SOME = the | these | my | your | many | two | three | four | five | ten
PERSON = girl | boy | woman | man | teacher | doctor | farmer | sailor | painter | king | queen | child
PEOPLE = girls | boys | women | men | teachers | doctors | farmers | sailors | painters | kings | queens
    | children
ANIMAL = dog | cat | horse | cow | rabbit | fox | mouse | bird | duck | wolf | bear | elephant
ANIMALS = dogs | cats | horses | cows | rabbits | foxes | mice | birds | ducks | wolves | bears | elephants
FOOD = bread | cheese | soup | rice | cake | honey | meat | fruit | butter | salad | corn | fish
DRINK = water | milk | tea | coffee | juice | wine
PLACE = garden | forest | park | market | kitchen | school | river | field | village | castle | bridge
    | island
THING = boat | house | car | train | bicycle | tent | lamp | table | clock | ball | umbrella | box
GOES = walks | runs | goes | hurries | travels | wanders | strolls | climbs | jumps | crawls
GO = walk | run | go | hurry | travel | wander | stroll | climb | jump | crawl
TOWARDS = to | into | through | past | around | towards
EATS = eats | tastes | smells | wants
EAT = eat | taste | smell | want
COOKS = cooks | bakes | buys | sells | brings
COOK = cook | bake | buy | sell | bring
SEES = sees | watches | follows | hears | likes | loves | fears | finds
SEE = see | watch | follow | hear | like | love | fear | find
SAYS = says | thinks | knows | believes | hopes
SAY = say | think | know | believe | hope
HOW = slowly | quickly | quietly | happily | sadly | together | alone
MOOD = happy | sad | angry | tired | hungry | brave | old | young
COLOUR = red | blue | green | white | black | brown | grey | yellow | orange
TASTE = sweet | salty | fresh | warm | cold
DAY = monday | tuesday | wednesday | thursday | friday | saturday | sunday
MONTH = january | february | march | april | may | june | july | august | september | october | november
    | december
"""
"""A rule is a name in capitals and its alternatives, all equally likely; lower-case entries are words.

A noun and its verb agree in number across the words between them, and verbs take objects that suit them, so a
word carries information about its own kind and about the words after it.
"""

GRAMMAR: dict[str, list[list[str]]] = {
    name: [choice.split() for choice in choices.split(" | ")]
    for name, choices in (line.split(" = ") for line in RULES.replace("\n    ", " ").strip().splitlines())
}


class Sentence(NamedTuple):
    """The words of a sentence, and the log-probability of the choices that made it."""

    words: tuple[str, ...]
    log_probability: float


def draw(numbers: random.Random) -> Sentence:
    """Sample a sentence of the grammar; `a` becomes `an` before a vowel."""
    words: list[str] = []
    waiting, log_probability = ["SENTENCE"], 0.0
    while waiting:
        part = waiting.pop()
        if part in GRAMMAR:
            choices = GRAMMAR[part]
            chosen = numbers.choice(choices)
            waiting += reversed(chosen)
            log_probability += math.log(choices.count(chosen) / len(choices))
        else:
            if words and words[-1] == "a" and part[0] in "aeiou":
                words[-1] = "an"
            words.append(part)
    return Sentence(tuple(words), log_probability)


def longest(part: str = "SENTENCE") -> int:
    """The largest number of words that a part of a sentence can have."""
    return max(sum(map(longest, choice)) for choice in GRAMMAR[part]) if part in GRAMMAR else 1


def words_of_the_grammar() -> list[str]:
    """All words, sorted."""
    parts = set(chain.from_iterable(chain.from_iterable(GRAMMAR.values())))
    return sorted((parts - GRAMMAR.keys()) | {"an"})


class Sentences(LanguageData):
    """English sentences from a grammar of some 240 words: people, animals, food, places, verbs of motion, ...

    Validation and test sentences are distinct, and none is in training; training may repeat sentences. The
    held-out sentences do not change with `train_size`.

    Args:
        options: see `SentencesSpec`.

    Raises:
        LabError: an option is wrong.
    """

    @options_of(SentencesSpec)
    def __init__(self, spec: SentencesSpec) -> None:
        super().__init__(spec.batch_size)
        self.spec = spec

    def sequences(self) -> Splits[list[Symbols]]:
        """Sample the sentences."""
        return self.sentences().map(lambda split: [sentence.words for sentence in split])

    def sentences(self) -> Splits[list[Sentence]]:
        """The sentences of each split, with their probabilities under the grammar."""
        spec = self.spec
        numbers = random.Random(f"{spec.seed} held out")
        held_out: dict[tuple[str, ...], Sentence] = {}
        while len(held_out) < spec.validation_size + spec.test_size:
            sentence = draw(numbers)
            held_out[sentence.words] = sentence
        numbers = random.Random(f"{spec.seed} training")
        drawn = (draw(numbers) for _ in count())
        train = islice((sentence for sentence in drawn if sentence.words not in held_out), spec.train_size)
        kept = list(held_out.values())
        return Splits(list(train), kept[: spec.validation_size], kept[spec.validation_size :])

    def make_codec(self, sequences: Splits[list[Symbols]]) -> LanguageCodec:
        """The codec of all words of the grammar, including words that do not occur in training."""
        tokenizer = Tokenizer(Notation("spaces", lowercase=True), Vocabulary(words_of_the_grammar()))
        return LanguageCodec(tokenizer, 1 + longest(), ends=True)
