"""Using a trained model that maps a text to a text, without importing training code; `translation` trains it."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import regex

from ...autograd import no_grad
from ...autograd.backend import to_device
from ...errors import InputError, several, short
from ...kinds import argument
from ...models.generation import Hypothesis, Strategy, length_penalty
from ...models.generation.rules import Functions
from ...models.hyperparameters import TranslationPreset
from ...models.presets import PARAPHRASE_PRESETS, SUMMARY_PRESETS, TRANSLATION_PRESETS
from ...models.seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from ...nn import attention_maps
from ...notebook import progress_bar
from ...tokenizer import Tokenizer
from ...tokenizer.normalizer import normalized
from ..data.batches import source_batches
from ..data.pairs import title_case, truecased
from ..runs.plots import plot_attention
from .literals import STAND_INS, disagreement, with_stand_ins, without_stand_ins
from .metrics import Score, bleu, chrf, rouge
from .sentences import as_one_line, clauses, join_text, split_text
from .trained import TrainedModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TooLong = Literal["error", "truncate"]
_WORD = regex.compile(r"\w+")
#: Rules that belong to a model of another library, so that every search applies them, also after further training.
_RULES = ("forbidden", "forced_last", "stop")


class Translator(TrainedModel):
    """A trained model and the tokenizer shared by its two languages, or an estimator (see `TrainedModel`).

    `fit` and `score` take a list of (source, target) pairs, or the path of a file of pairs
    (`load_translation_data`). `source` and `target` name the languages, such as "de" and "en"; a file's header or
    endings are looked up by these names.
    """

    what = "translator"
    presets: ClassVar[Mapping[str, TranslationPreset]] = TRANSLATION_PRESETS
    kinds: ClassVar[dict[str, tuple[Any, Any]]] = {"": (Seq2SeqTransformer, Seq2SeqConfig)}
    searches = True
    splits: ClassVar[bool] = True  # whether the model reads single sentences of a text

    def __init__(
        self,
        model: Seq2SeqTransformer | None = None,
        tokenizer: Tokenizer | None = None,
        own: Strategy | None = None,
        *,
        source: str = "",
        target: str = "",
        preset: str = "laptop",
        **settings: Any,
    ):
        """Store the parts. `own` holds the generation options of another library's model; None: a model of handloom."""
        self.own, self.truecases, self.source, self.target = own or Strategy(), own is None, source, target
        super().__init__(model, tokenizer, preset, **settings)
        if source and target:
            self.name = f"translation from {source} to {target}"

    @classmethod
    def of(cls, model: Any, tokenizer: Tokenizer, config: dict[str, Any], folder: str | Path) -> Self:
        own, rules = config.get("strategy"), config.get("rules", {})
        made = cls(model, tokenizer, own if isinstance(own, Strategy) else None)
        try:
            kept: dict[str, Any] = {name: tuple(it) if isinstance(it, list) else it for name, it in rules.items()}
            made.own = dataclasses.replace(made.own, rules=dataclasses.replace(made.own.rules, **kept))
            made.own.rules.check_vocabulary(model.config.target_vocab_size)
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(f"The rules of the model in {folder} can't be used: {error}. Restore a copy.") from None
        return made

    def saved(self) -> dict[str, Any]:
        kept = {name: getattr(self.own.rules, name) for name in _RULES}
        kept = {name: value for name, value in kept.items() if value not in (None, ())}
        return {"rules": kept} if kept else {}

    def as_written(self, texts: Sequence[str]) -> list[str]:
        """Return texts, such as references, in lower case if the model reads and writes lower case."""
        return [text.lower() for text in texts] if self.model.config.lowercase else list(texts)

    def as_read(self, texts: Sequence[str]) -> list[str]:
        """Return source texts in the case that the model reads: in Title Case or in lower case if it was trained so,
        otherwise unchanged, apart from texts in capitals (`truecased`). A model of another library gets them unchanged.
        """
        if getattr(self.tokenizer, "normalize", False):
            texts = [normalized(text) for text in texts]
        if self.truecases:
            texts = [truecased(text, self.tokenizer) for text in texts]
        return self.as_written(list(map(title_case, texts)) if self.model.config.title_case else texts)

    def source_ids(self, sentences: Sequence[str], too_long: TooLong = "error") -> list[list[int]]:
        """Return the encoder's input for sentences: token ids and <eos>.
        Raises InputError for empty sentences, for too long ones and for a single text instead of a list.
        """
        sentences = self.as_read(_checked_texts(sentences))
        ids = self.tokenizer.encode_batch(sentences, add_eos=True)
        return fit_lengths(ids, sentences, self.model.config.max_length, self.tokenizer.eos_id, too_long)

    def hypotheses(
        self,
        sentences: Sequence[str],
        *,
        strategy: Strategy | None = None,
        too_long: TooLong = "error",
        progress: bool = False,
        scores: bool = True,
        first: int = 0,
    ) -> list[list[Hypothesis]]:
        """Return the `n_best` hypotheses of the strategy for each sentence, best first.
        The default is a beam search of width 5.

        `too_long`, `progress` and the errors are those of `translate`; `scores` is that of `Strategy.generate`.
        `first` is the number of the first sentence: with the same seed, samples for the same number are equal.
        """
        strategy, sentences = strategy or self.own, several(sentences)
        rules, own = strategy.rules, self.own.rules
        rules = dataclasses.replace(
            rules,
            forbidden=tuple({*rules.forbidden, *own.forbidden}),
            forced_last=own.forced_last if rules.forced_last is None else rules.forced_last,
            stop=rules.stop or own.stop,
        )
        strategy = dataclasses.replace(strategy, rules=rules)
        tokenizer = self.tokenizer
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        self.model.eval()
        decoder = self.model.raw_decoder(packed=len(sentences) > 100)  # packing pays off for many sentences
        ids = self.source_ids(sentences, too_long)
        tokens = max(4096 // strategy.width, 1)
        with progress_bar(progress, total=len(sentences), unit="sentence") as bar:
            for indices, source, lengths in source_batches(ids, tokens_per_batch=tokens, pad_id=tokenizer.pad_id):
                found_in_batch = strategy.generate(
                    self.model.start(source, lengths, decoder=decoder, keep_attention=strategy.coverage > 0),
                    bos_id=tokenizer.bos_id,
                    eos_id=tokenizer.eos_id,
                    numbers=(indices + first).tolist(),
                    compared=lambda ids: _WORD.findall(tokenizer.decode(ids).casefold()),
                    scores=scores,
                )
                for index, result in zip(indices, found_in_batch, strict=True):
                    found[index] = result
                bar.update(len(indices))
        return found

    def options(self) -> dict[str, Any]:
        return {"source": self.source, "target": self.target, **super().options()}

    def score(self, data: Any, **options: Any) -> dict[str, Score]:
        """Return BLEU and chrF of the translations of held-out pairs, with signatures. `options` are of `translate`."""
        pairs = self.task.items(self, data).scored
        sources, references = [pair[0] for pair in pairs], self.as_written([pair[1] for pair in pairs])
        written = self.translate(sources, **{"too_long": "truncate", "split": False, **options})
        return {score.name: score for score in self._scores(written, references)}

    def _scores(self, written: list[str], references: list[str]) -> list[Score]:
        return [bleu(written, references), chrf(written, references)]

    @staticmethod
    def mean_log_probability(found: Hypothesis, alpha: float = 1.0) -> float:
        """Return the mean log-probability of a token (nats), <eos> included, in the result of a beam search."""
        tokens = len(found.ids) + 1
        return found.score * length_penalty(tokens, alpha) / tokens

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam: int = 5,
        alpha: float = 1.0,
        strategy: Strategy | None = None,
        too_long: TooLong = "error",
        progress: bool = False,
        rules: Functions = (),
        split: bool = True,
    ) -> list[str]:
        """Return the best translation of each text.

        A translator translates the sentences of a text one by one, and keeps the blanks, line feeds and signs of lists
        between them; see also `with_literals`. A summariser or paraphraser reads a text at once.

        Args:
            beam: hypotheses kept at each step; 1 is greedy search.
            alpha: exponent of the length penalty.
            strategy: all options of the search; it replaces `beam` and `alpha`.
            too_long: the treatment of a sentence beyond the model's maximum length: "error" refuses it, "truncate"
                translates its beginning, with a warning.
            progress: whether to show a progress bar in a terminal.
            rules: functions of the ids so far and the log-probabilities of the next token; see `Rules.functions`.
            split: False translates each text at once by the best result of `hypotheses`, as in evaluation.

        Raises InputError for an empty text, or a sentence beyond the maximum length.
        """
        sentences = _checked_texts(sentences)
        strategy = Strategy.with_rules(strategy or Strategy(beam=beam, alpha=alpha), rules)
        split = split and self.splits
        pieces = [self.pieces(text) if split else ["", text, ""] for text in sentences]
        units = [as_one_line(sentence) if split else sentence for text in pieces for sentence in text[1::2]]
        best = self.hypotheses(units, strategy=strategy, too_long=too_long, progress=progress, scores=False)
        if split:
            found = iter([text for text, _ in self.with_literals(units, best, strategy, too_long)])
        else:
            found = iter([self.tokenizer.decode(hypotheses[0].ids) for hypotheses in best])
        return [join_text(text, found) for text in pieces]

    def pieces(self, text: str) -> list[str]:
        """Return the pieces of `split_text`. A sentence of more than 40 tokens and 24 words, or of more than a third of
        the model's maximum length if that is longer, is cut into clauses, with a warning: models leave out parts of
        sentences that are far longer than those in training. A sentence of several words begins with a capital.
        """
        most = self.model.config.max_length
        longest = min(most, max(40, most // 3))

        def fits(part: str, length: int = longest * 3 // 4) -> bool:
            return len(part.encode()) < length or len(self.tokenizer.encode(as_one_line(part))) < length

        pieces = split_text(text)
        for index in range(len(pieces) - 2, 0, -2):
            if regex.match(r"\p{Ll}+,?\s", pieces[index]):  # models write the nouns of a sentence as its first word
                pieces[index] = pieces[index][0].upper() + pieces[index][1:]
            many = len(pieces[index].split()) > 24  # a tokenizer may have a token for each letter
            if not fits(pieces[index], longest if many else most):
                parts = clauses(pieces[index], fits)
                if len(parts) > 3:
                    warnings.warn(f"translated in parts, because it is long: {short(pieces[index])}", stacklevel=3)
                pieces[index : index + 1] = parts[1:-1]
        return pieces

    def with_literals(
        self, sentences: Sequence[str], found: list[list[Hypothesis]], strategy: Strategy, too_long: TooLong = "error"
    ) -> list[tuple[str, Hypothesis]]:
        """Return the translation of each sentence and its hypothesis, the best one that `strategy` has found.

        If numbers or literals of the sentence are lost in it (`train.tasks.literals`), the sentence is translated with
        stand-ins, too. Of all hypotheses in the beams of both, the one that agrees best with the sentence is returned.
        """
        chosen = [(self.tokenizer.decode(own[0].ids), own[0]) for own in found]
        wrong = [i for i, own in enumerate(sentences) if disagreement(own, chosen[i][0])]
        if strategy.sampling or not wrong:
            return chosen
        tried = [(i, *with_stand_ins(sentences[i], names)) for names in STAND_INS for i in wrong]
        if strategy.beam > 1:
            tried += [(i, sentences[i], {}) for i in wrong]
        whole = dataclasses.replace(strategy, n_best=strategy.beam)
        beams = self.hypotheses([text for _, text, _ in tried], strategy=whole, too_long=too_long)
        others: dict[int, list[tuple[int, float, str, Hypothesis]]] = {i: [] for i in wrong}
        for (i, _, literals), beam in zip(tried, beams, strict=True):
            for own in beam:
                if text := without_stand_ins(self.tokenizer.decode(own.ids), literals):
                    others[i].append((disagreement(sentences[i], text), -own.score, text, own))
        for i in wrong:
            if others[i] and min(others[i])[0] < disagreement(sentences[i], chosen[i][0]):
                chosen[i] = min(others[i])[2:]
        return chosen

    def attention(self, sentence: str, target: Sequence[int] | None = None) -> tuple[np.ndarray, list[str], list[str]]:
        """Return the cross-attention of a translation: weights, source tokens, target tokens.

        The weights (target tokens, source tokens) are those of the last decoder layer, averaged over its heads; row t
        is the attention with which the model generated token t. `target` holds the ids of the translation; None means
        the best translation. Both lists end with <eos>, unless the translation reached the length limit.
        """
        maps, source, written = self.attention_maps(sentence, target)
        last = f"decoder.layers.{self.model.config.decoder_layers - 1}.multihead_attn"
        if last not in maps:
            raise InputError(f"{last} of this model is not handloom's attention, so its weights are not known.")
        return maps[last].mean(axis=0), source, written

    def plot_attention(self, sentence: str, out_png: str | Path | None = None) -> "Figure":
        """Draw the weights of `attention` as a matplotlib figure, and write it to a PNG file if a path is given."""
        weights, source, target = self.attention(sentence)
        return plot_attention(weights, target, source, out_png, "Cross-attention of the last layer, mean of the heads")

    def attention_maps(
        self, sentence: str, target: Sequence[int] | None = None
    ) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
        """Return all attention weights of a translation by the name of the layer: (heads, query tokens, key tokens).

        Queries and keys of the encoder are source tokens. In the decoder's self-attention they are the tokens that the
        decoder has read, beginning with <bos>; query t generated target token t.
        """
        source, inputs, written = self._with_translation(sentence, target)
        with no_grad(), attention_maps(self.model) as maps:
            self.model(source, inputs)
        names = [self.tokenizer.token_strings(ids[0].tolist()) for ids in (source, written)]
        return {layer: weights[0][0] for layer, weights in maps.items() if weights}, names[0], names[1]

    def copied(self, sentence: str, target: Sequence[int] | None = None) -> tuple[np.ndarray, list[str], list[str]]:
        """Return the copy probabilities, source tokens and target tokens of a copying model.

        Row t of the probabilities (target tokens, source tokens) holds the probabilities that token t was copied from
        each source token.
        """
        source, inputs, written = self._with_translation(sentence, target)
        shares = to_device(self.model.copied(source, inputs, written), "cpu")[0]
        return shares, *(self.tokenizer.token_strings(ids[0].tolist()) for ids in (source, written))

    def _with_translation(self, sentence: str, target: Sequence[int] | None) -> tuple[np.ndarray, ...]:
        """Return a batch of a sentence and its translation (None: the best one): source, decoder inputs and outputs."""
        source = self.source_ids([sentence], too_long="truncate")
        if target is None:
            target = self.hypotheses([sentence], too_long="truncate")[0][0].ids
        inputs = [self.tokenizer.bos_id, *target][: self.model.config.max_length]
        self.model.eval()
        return np.array(source), np.array([inputs]), np.array([[*target, self.tokenizer.eos_id][: len(inputs)]])


class Summarizer(Translator):
    """A trained model that writes a headline for an article: `summarize` has the options and errors of `translate`."""

    what, name = "summarizer", "headlines of articles"
    presets = SUMMARY_PRESETS
    splits = False
    summarize = Translator.translate

    def _scores(self, written: list[str], references: list[str]) -> list[Score]:
        return [rouge(written, references, kind) for kind in ("1", "2", "L")]


class Paraphraser(Translator):
    """A trained model that paraphrases sentences: `paraphrase` has the options and errors of `translate`."""

    what, name = "paraphraser", "paraphrases"
    presets = PARAPHRASE_PRESETS
    splits = False
    paraphrase = Translator.translate


def _checked_texts(texts: Sequence[str]) -> list[str]:
    texts = several(texts)
    for number, text in enumerate(texts, 1):
        if not text.strip():
            raise InputError(f"Sentence {number} is empty. Leave out empty lines; there is nothing to translate.")
    return texts


def fit_lengths(
    ids: Sequence[Sequence[int]], texts: Sequence[str], max_length: int, eos_id: int, too_long: TooLong
) -> list[list[int]]:
    """Return the token ids of sentences, which end with `eos_id`. A sentence of more than `max_length` tokens is
    truncated with a warning, or refused with InputError. The message quotes its text.
    """
    argument("too_long", too_long, TooLong)
    long = [i for i, own in enumerate(ids) if len(own) > max_length]
    if not long:
        return [list(own) for own in ids]
    quoted, length = short(texts[long[0]]), len(ids[long[0]])
    where = f"The sentence {quoted} has {length:,} tokens; the model takes at most {max_length:,}."
    if too_long == "error":
        raise InputError(
            f"{where} Split it into shorter sentences, or translate with a model trained with a longer limit."
        )
    others = f" {len(long) - 1:,} more were truncated too." if len(long) > 1 else ""
    warnings.warn(f"{where} It was truncated, and its end is not translated.{others}", stacklevel=2)
    return [list(own) if len(own) <= max_length else [*own[: max_length - 1], eos_id] for own in ids]
