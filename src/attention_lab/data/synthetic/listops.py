"""ListOps: evaluate nested expressions of lists of digits."""

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import median

import numpy as np
import numpy.typing as npt

from attention_lab.constructor_options import options_of
from attention_lab.data.classification import ClassificationData
from attention_lab.data.reading.codecs import ClassificationCodec
from attention_lab.data.reading.datasets import ClassificationSplit, Split
from attention_lab.data.reading.ragged import Ragged
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.sampled import ListOpsSpec
from attention_lab.errors import LabError

CLOSE = "]"
DIGITS = [str(digit) for digit in range(10)]
NESTED = 0.25
"""Probability that an argument is a list and not a digit; the value of the Long Range Arena."""
TRIES = 1000
"""Consecutive duplicates after which we assume that no new expressions are left."""


OPERATORS: Mapping[str, Callable[[Sequence[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(median(values)),
    "[SM": lambda values: sum(values) % 10,
}


SYMBOLS = Vocabulary([*OPERATORS, CLOSE, *DIGITS])


def evaluate(tokens: Iterable[str]) -> int:
    """The value of a well-formed expression, a digit: `[MAX 2 9 [MIN 4 7 ] 0 ]` is 9."""
    lists: list[list[int]] = [[]]
    pending: list[Callable[[Sequence[int]], int]] = []
    for token in tokens:
        if token in OPERATORS:
            pending.append(OPERATORS[token])
            lists.append([])
        elif token == CLOSE:
            value = pending.pop()(lists.pop())
            lists[-1].append(value)
        else:
            lists[-1].append(int(token))
    return lists[0][0]


class Grammar:
    """Random expressions of a given length.

    An expression is a digit, or an operator, 2 to `max_args` expressions and a bracket. The Long Range Arena
    grows them from the root: each is a digit with probability 3/4, and always at level `max_depth`. This
    class samples from that distribution conditioned on the length. With `t_l(n)` the probability that
    an expression with l levels left has n tokens, and `t_l^{*k}` its k-fold convolution,

        t_l(n) = 3/4 [n = 1] + 1/4 1/(A - 1) sum_{k=2}^A t_{l-1}^{*k}(n - 2)

    The terms of each sum are the odds of the choices inside the expression. No sample has to be rejected;
    for long expressions, rejection would be most of the work.

    Args:
        max_length: number of tokens of the longest expressions.
        max_depth: number of levels of a tree, including its deepest digits: operators nest one level less.
        max_args: the largest number of arguments of an operator.
    """

    def __init__(self, max_length: int, max_depth: int, max_args: int) -> None:
        self.max_args = max_args
        # Levels beyond what the tokens allow (three tokens each) would all have the same probabilities.
        self.levels = min(max_depth, max_length // 3 + 1)
        digit = np.zeros(max_length + 1)
        digit[1] = 1.0
        # forests[l - 1][k - 1][n]: probability that k expressions with l levels left have n tokens in total
        self.forests = [self._powers(digit)]
        for _ in range(1, self.levels):
            lists = np.sum(self.forests[-1][1:], axis=0)[:-2] / (max_args - 1)
            tree = (1 - NESTED) * digit
            tree[2:] += NESTED * lists
            self.forests.append(self._powers(tree))
        # Many of these are needed repeatedly, especially for short expressions.
        self._arguments = lru_cache(100_000)(self._count_odds)
        self._first = lru_cache(20_000)(self._first_odds)

    @property
    def chances(self) -> npt.NDArray[np.float64]:
        """[max_length + 1] probability of each length when expressions are grown."""
        chances: npt.NDArray[np.float64] = self.forests[-1][0]
        return chances

    def draw(self, length: int, generator: random.Random) -> tuple[str, ...]:
        """Sample an expression of exactly `length` tokens, a length of positive probability."""
        tokens: list[str] = []
        pending = [(self.levels, 1, length)]  # levels left; number of expressions (0: a bracket); tokens
        operators = list(OPERATORS)
        while pending:
            levels, count, size = pending.pop()
            if count == 0:
                tokens.append(CLOSE)
            elif count > 1:
                first = _pick(self._first(levels, count, size), generator)
                pending += [(levels, count - 1, size - first), (levels, 1, first)]
            elif size == 1:
                tokens.append(generator.choice(DIGITS))
            else:
                tokens.append(generator.choice(operators))
                arguments = _pick(self._arguments(levels, size), generator)
                pending += [(levels, 0, 1), (levels - 1, arguments, size - 2)]
        return tuple(tokens)

    def _powers(self, tree: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
        """The distributions of the total length of 1 to `max_args` expressions."""
        powers = [tree]
        for _ in range(1, self.max_args):
            powers.append(np.convolve(powers[-1], tree)[: len(tree)])
        return powers

    def _count_odds(self, levels: int, size: int) -> list[float]:
        """Cumulative odds of the number of arguments of an expression of `size` tokens, from 0 on."""
        forests = self.forests[levels - 2]
        return list(accumulate([0.0, 0.0, *(forest[size - 2] for forest in forests[1:])]))

    def _first_odds(self, levels: int, count: int, size: int) -> list[float]:
        """Cumulative odds of the length of the first of `count` expressions of `size` tokens, from 0 on."""
        tree, rest = self.forests[levels - 1][0], self.forests[levels - 1][count - 2]
        odds: list[float] = np.cumsum(tree[: size + 1] * rest[size::-1]).tolist()
        return odds


def _pick(odds: Sequence[float], generator: random.Random) -> int:
    """Sample an index given the cumulative `odds`; never an index with odds 0."""
    return bisect_left(odds, (1.0 - generator.random()) * odds[-1])  # in (0, total]: skips steps of 0


class ListOps(ClassificationData):
    """Expressions such as `[MAX 2 9 [MIN 4 7 ] 0 ]`, to be classified by their value, 0 to 9.

    The operators are `[MIN`, `[MAX`, `[MED` (median, rounded down) and `[SM` (sum modulo 10), each with 2
    to `max_args` arguments (Nangia & Bowman, 1804.06028). The trees are those of the Long Range Arena
    (2011.04006, section 2.2), see `Grammar`. All expressions are distinct, so no validation or test
    expression is in training; validation and test do not change with `train_size`.

    Args:
        options: see `ListOpsSpec`.

    Raises:
        LabError: an option is wrong, or (in `setup`) there are too few distinct expressions.
    """

    @options_of(ListOpsSpec)
    def __init__(self, spec: ListOpsSpec) -> None:
        super().__init__(spec.batch_size)
        self.spec = spec

    def expressions(self) -> Splits[list[bytes]]:
        """Sample them as ids of `SYMBOLS`, the test split first. Raises LabError if there are too few."""
        spec, generator = self.spec, random.Random(self.spec.seed)
        grammar = Grammar(spec.max_length, spec.max_depth, spec.max_args)
        chances = grammar.chances.copy()
        chances[: spec.min_length] = 0.0
        odds = list(accumulate((chances if spec.lengths == "grown" else chances > 0).astype(float).tolist()))
        limits = f"data.min_length={spec.min_length} and data.max_length={spec.max_length}"
        shape = f"data.max_depth={spec.max_depth} and data.max_args={spec.max_args}"
        if not odds[-1]:
            raise LabError(f"no expression with {shape} has a length between {limits}")
        seen: set[bytes] = set()  # one byte per token: as strings, 100,000 long expressions take gigabytes

        def draw(count: int) -> list[bytes]:
            """Sample expressions that were not drawn before."""
            drawn: list[bytes] = []
            tries = 0
            while len(drawn) < count:
                ids = bytes(SYMBOLS.ids(grammar.draw(_pick(odds, generator), generator)))
                tries += 1
                if ids not in seen:
                    seen.add(ids)
                    drawn.append(ids)
                    tries = 0
                elif tries >= TRIES:
                    raise LabError(
                        f"{sum(spec.counts)} different expressions are needed, but there are hardly more "
                        f"than {len(seen)} with {limits}, {shape}; raise data.max_length or lower the sizes"
                    )
            return drawn

        test, validation = draw(spec.test_size), draw(spec.validation_size)
        return Splits(draw(spec.train_size), validation, test)

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        codec = ClassificationCodec(DIGITS, self.spec.max_length, Tokenizer(Notation("spaces"), SYMBOLS))
        self.use_codec(codec, "data=listops", length="max_length")

        def split(rows: list[bytes]) -> ClassificationSplit:
            return ClassificationSplit(Ragged(rows), [evaluate(map(SYMBOLS.symbol, ids)) for ids in rows])

        return self.expressions().map(split)
