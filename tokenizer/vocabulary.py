"""The base class of tokenizers whose tokens are characters or words."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

from ..errors import InputError, printable, short
from .base import SPECIAL_TOKENS, Texts, Tokenizer, check_special_tokens


class VocabularyTokenizer(Tokenizer):
    """A tokenizer that splits a text into units and looks up each unit in a list, which begins with the special tokens.
    A unit that is not in the list becomes `unk_id`.

    `usual_special_tokens` are the default special tokens of `train`. If `in_order` is true, a trained vocabulary is
    sorted alphabetically, otherwise by descending frequency. `settings` are the names of the other arguments of the
    class, which are attributes and are saved.
    """

    usual_special_tokens: Sequence[str] = SPECIAL_TOKENS
    in_order = False
    settings: tuple[str, ...]

    def __init__(self, vocabulary: Sequence[str], *, special_tokens: Sequence[str]) -> None:
        special = check_special_tokens(special_tokens)
        self.vocabulary = [*special, *vocabulary]
        ids = {unit: id for id, unit in enumerate(self.vocabulary)}
        if len(ids) != len(self.vocabulary):
            repeated = Counter(self.vocabulary).most_common(1)[0][0]
            raise InputError(f"The vocabulary contains {repeated!r} twice. All units and special tokens must differ.")
        self.special_ids = {token: ids.pop(token) for token in special}
        self._ids = ids  # of the units of a text: a special token's spelling in a text is none

    @classmethod
    def train(
        cls,
        texts: Texts,
        vocab_size: int | None = None,
        *,
        special_tokens: Sequence[str] | None = None,
        min_frequency: int = 1,
        **settings: Any,
    ) -> Self:
        """Return a tokenizer with the units of `texts`, or with the most frequent units up to `vocab_size`.

        Args:
            texts: the training texts.
            vocab_size: maximum number of tokens, including special ones; None for no limit.
            special_tokens: special tokens, which get the first ids; None means the default of the class.
            min_frequency: minimum number of occurrences of a unit in the vocabulary.
            settings: other arguments of the class.

        Raises InputError if there is no text, or `vocab_size` leaves no room for a unit.
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise InputError(f"Training needs several texts, not {short(texts)}: give a list, or an open file.")
        special = cls.usual_special_tokens if special_tokens is None else special_tokens
        splitter = cls([], special_tokens=special, **settings)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(splitter.split(text))
        if not counts:
            raise InputError("The texts are empty, so there is no vocabulary. Check the input.")
        room = None if vocab_size is None else vocab_size - len(special)
        if room is not None and room < 1:
            raise InputError(f"vocab_size={vocab_size} is too small for {len(special)} special tokens. Increase it.")
        units = sorted(counts, key=lambda unit: (-counts[unit], unit))
        units = [unit for unit in units if counts[unit] >= min_frequency and unit not in special][:room]
        return cls(sorted(units) if cls.in_order else units, special_tokens=special, **settings)

    @abstractmethod
    def split(self, text: str) -> list[str]:
        """Clean up `text`, and split it into units."""

    @abstractmethod
    def join(self, units: list[str]) -> str:
        """Join units to a text."""

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def _encode(self, text: str) -> list[int]:
        ids, unknown = self._ids, self.unk_id
        return [ids.get(unit, unknown) for unit in self.split(text)]

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        skipped = set(self.special_ids.values()) if skip_special_tokens else set()
        return self.join([self.vocabulary[id] for id in self._known(ids) if id not in skipped])

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        return [printable(self.vocabulary[id]) if id < self.vocab_size else "" for id in self._checked(ids)]

    def _content(self) -> dict[str, Any]:
        special = len(self.special_ids)
        lists = {"special_tokens": self.vocabulary[:special], "vocabulary": self.vocabulary[special:]}
        return {**lists, **{name: getattr(self, name) for name in self.settings}}

    @classmethod
    def _from_content(cls, data: dict[str, Any]) -> Self:
        return cls(**data)
