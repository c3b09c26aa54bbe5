"""The explored model, and a pass of the model over a text with all attention calls."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..autograd import Tensor, no_grad, ops
from ..autograd.ops.attention import MaskSpec
from ..errors import InputError
from ..files import read_json
from ..models import LanguageModel, Rules, Strategy
from ..models.generation.cached import CachedState
from ..nn import AttentionCall, MultiHeadAttention, observe_attention
from ..tokenizer import BPETokenizer
from ..train.runs.folder import RunFolder
from ..train.tasks.classification import Classifier
from ..train.tasks.language_modelling import Windows, Writer, language_model_loss
from ..train.tasks.loading import task_of
from ..train.tasks.trained import TrainedModel, is_foreign
from ..train.tasks.translation import Translator
from .step import RecordedStep, recorded_step

CONTINUED = 12  # tokens that a language model generates after the text


@dataclass(frozen=True)
class Layer:
    """One attention layer in one pass.

    Attributes:
        name: name of the attention module, such as "encoder.layers.0.self_attn".
        title: name of the layer's group on the page.
        number: index of the layer in its stack.
        rows, columns: names of the lists of tokens, in the pass, for queries and for keys.
        call: the attention call, with inputs and results for a batch of one.
    """

    name: str
    title: str
    number: int
    rows: str
    columns: str
    call: AttentionCall

    @property
    def weights(self) -> np.ndarray:
        """The attention weights (heads, queries, keys)."""
        return self.call.weights[0]

    @property
    def scale(self) -> float:
        return self.call.query.shape[-1] ** -0.5

    def added(self) -> np.ndarray:
        """The terms added to the scores, (heads, queries, keys): position biases, and -inf where masked."""
        settings, (heads, queries, keys) = self.call.settings, self.weights.shape
        given = {name: settings.get(name) for name in ("mask", "key_lengths", "window")}
        slopes = settings.get("alibi_slopes")
        slopes = None if slopes is None else np.asarray(getattr(slopes, "data", slopes))
        mask_spec = MaskSpec(queries, keys, causal=settings["causal"], slopes=slopes, **given)
        allowed, alibi = mask_spec.as_mask(), mask_spec.alibi(np.float32)
        total, bias = np.zeros((1, heads, queries, keys), np.float32), settings.get("bias")
        for term in (getattr(bias, "data", bias), alibi):
            total = total if term is None else total + term
        return (total if allowed is None else np.where(allowed, total, -np.inf))[0]


@dataclass(frozen=True)
class Pass:
    """One pass over one text, with the model's answer, the lists of tokens by name, and the attention layers."""

    text: str
    answer: str
    tokens: dict[str, list[str]]
    layers: list[Layer]
    inputs: tuple[np.ndarray, ...] = ()  # arguments of the model
    labels: np.ndarray | None = None  # of an encoder-decoder: the ids that it writes
    shares: list[tuple[str, float]] | None = None  # of a classifier: its classes and their probabilities

    def layer(self, name: str) -> Layer:
        """Return the attention layer `name`."""
        return next(layer for layer in self.layers if layer.name == name)


@dataclass(frozen=True)
class Search:
    """The initial state of a search.

    Attributes:
        state, rules: see `models.generation`; the state has one row.
        begins: the first token of all sequences, as shown on the page.
        prefix: number of prefix tokens before the generated tokens.
    """

    state: CachedState
    rules: Rules
    begins: str
    prefix: int = 0

    @property
    def bytes_per_node(self) -> int:
        """The number of bytes of the keys and values of one token, in all layers."""
        layers, own = self.state.decoder.layers, self.state.decoder.layers[0].own
        return 2 * len(layers) * own.heads * own.head_dim * np.dtype(self.state.decoder.dtype).itemsize


def cached(state: Any) -> CachedState:
    """Return the state. Raises InputError if it has no cache, because the model has layers that are not handloom's."""
    if not isinstance(state, CachedState):
        raise InputError("This model has layers that are not handloom's, so it has no cache of keys and values.")
    return state


@contextmanager
def replaced(arrays: Sequence[tuple[np.ndarray, Any]]) -> Iterator[None]:
    """Write other values into arrays, and the old values at the end of the `with` block."""
    held = [array.copy() for array, _ in arrays]
    try:
        for array, values in arrays:
            array[...] = values
        yield
    finally:
        for (array, _), before in zip(arrays, held, strict=True):
            array[...] = before


class Subject:
    """A trained model of a run folder. A subclass defines how it processes a text."""

    kind = ""
    example = ""
    beam = Strategy().beam  # the width of the search for the answer
    trained_class: ClassVar[type[TrainedModel]]
    #: For an encoder, or a kind of attention: its title on the page, and the lists of tokens for queries and keys.
    attention: ClassVar[dict[str, tuple[str, str, str]]]

    def __init__(self, run: Path):
        self.run, self.trained = run, self.trained_class.load(run)
        self.model, self.tokenizer = self.trained.model, self.trained.tokenizer
        self._last: tuple[tuple[str, ...], Pass] | None = None
        self._step: tuple[str, RecordedStep] | None = None

    def watched(self, text: str, off: Sequence[str] = ()) -> Pass:
        """Return the pass over `text` `without` the heads `off`. The last pass is cached: several views need it.

        Raises InputError for a text that the model can't process.
        """
        key = (text, *off)
        if self._last is None or self._last[0] != key:
            if not text.strip():
                raise InputError("There is no text. Type one.")
            with self.without(off):
                self._last = key, self._watch(text)
        return self._last[1]

    @contextmanager
    def without(self, off: Sequence[str]) -> Iterator[None]:
        """Switch off heads, each given as "LAYER/NUMBER", by setting their weights in the output projection to zero.

        Raises InputError for a head that the model does not have.
        """
        modules = dict(self.model.named_modules())
        heads = []
        for one in off:
            name, _, number = one.rpartition("/")
            layer = modules.get(name)
            if not isinstance(layer, MultiHeadAttention) or number not in map(str, range(layer.num_heads)):
                raise InputError(f"This model has no head {one!r}.")
            start = int(number) * layer.head_dim
            heads.append((layer.out_proj.weight.data[:, start : start + layer.head_dim], 0))
        with replaced(heads):
            yield

    def logits(self, seen: Pass) -> np.ndarray:
        """Return the logits (positions, vocabulary) of a pass. Raises InputError for a classifier."""
        if self.kind == "classifier":
            raise InputError("A classifier does not predict next tokens.")
        self.model.eval()
        with no_grad():
            return self.model(*seen.inputs).numpy()[0].astype(np.float64)

    def _watch(self, text: str) -> Pass:
        raise NotImplementedError

    def step(self, text: str) -> RecordedStep:
        """Return a recorded training step on `text`; the last step is cached."""
        if self._step is None or self._step[0] != text:
            self._step = text, recorded_step(self.model, self.training_loss(text))
        return self._step[1]

    def training_loss(self, text: str) -> Callable[[], Tensor]:
        """Return a function that computes the training loss on `text`, with the model's answer as target."""
        raise NotImplementedError

    def search(self, text: str) -> Search:
        """Return the initial state of a search for the answer to `text`. Raises InputError for a classifier."""
        raise InputError(f"A {self.kind} generates no text, so there is no search.")

    def _layers(self, *inputs: Any) -> list[Layer]:
        """Compute on `inputs`, and return the attention layers with their calls."""
        calls: dict[str, AttentionCall] = {}
        self.model.eval()
        with no_grad(), observe_attention(self.model, calls.__setitem__):
            self.model(*inputs)
        found = []
        for name, call in calls.items():
            side, _, number, kind = name.split(".")
            title, rows, columns = self.attention.get(side) or self.attention[kind]
            found.append(Layer(name, title, int(number), rows, columns, call))
        return found

    def with_weights(self, weights: dict[str, np.ndarray], seen: Pass, layer: str) -> np.ndarray:
        """Return an attention layer's weights (heads, queries, keys) in the pass `seen` with other parameters.

        Raises InputError if the parameters belong to another model.
        """
        own, known = dict(self.model.named_parameters()), self.model.state_dict()
        fits = own.keys() <= weights.keys() <= known.keys()  # some versions save a shared array once
        if not fits or any(array.shape != known[name].shape for name, array in weights.items()):
            raise InputError("This saved state belongs to another model.")
        with replaced([(parameter.data, weights[name]) for name, parameter in own.items()]):
            return next(one.weights for one in self._layers(*seen.inputs) if one.name == layer)

    def shown(self, ids: Sequence[int]) -> list[str]:
        """Return the texts of tokens for the page, with `·` for a blank."""
        return [token.replace(" ", "·") or "·" for token in self.tokenizer.token_strings(ids)]

    def token(self, id: int) -> str:
        """Return the text of one token for the page."""
        return self.shown([int(id)])[0]

    def views(self) -> list[str]:
        """The views that apply to the model."""
        attention = any(isinstance(module, MultiHeadAttention) for module in self.model.modules())
        writes = self.kind != "classifier"
        applies = {
            **dict.fromkeys(("model", "translate", "graph", "check", "training"), True),
            **dict.fromkeys(("head", "tiles"), attention),
            "next": writes,
            "beam": writes and attention,
            "bpe": isinstance(self.tokenizer, BPETokenizer),
        }
        return [view for view, does in applies.items() if does]

    def facts(self) -> dict[str, Any]:
        """Return facts about the model for the page's header."""
        config = self.model.config
        sizes = {
            name: getattr(config, name)
            for name in ("d_model", "nhead", "dropout", "norm_first")
            if hasattr(config, name)
        }
        return {
            "kind": self.kind,
            "run": self.run.name,
            "parameters": self.model.parameter_count(),
            "vocabulary": self.tokenizer.vocab_size,
            "example": self.example,
            "views": self.views(),
            "layers": [  # layers of one stack; a decoder has two kinds of attention
                {"name": name, "heads": module.num_heads}
                for name, module in self.model.named_modules()
                if isinstance(module, MultiHeadAttention)
            ],
            "beam": self.beam,
            "alpha": Strategy().alpha,
            **sizes,
        }


class TranslatorSubject(Subject):
    """Encoder-decoders for translation, headlines and paraphrases."""

    kind = "translation"
    # With the shipped model, some heads and a width of 1 give other answers to this sentence: see the tour.
    example = "Ich stehe um halb acht auf."
    trained_class = Translator
    trained: Translator
    attention: ClassVar = {
        "encoder": ("Encoder self-attention", "source", "source"),
        "self_attn": ("Decoder self-attention", "steps", "read"),
        "multihead_attn": ("Cross-attention", "steps", "source"),
    }

    def __init__(self, run: Path):
        super().__init__(run)
        data = str(read_json(run / "config.json").get("data", ""))
        if data.startswith("embedded"):  # the model knows no other words
            self.example = "Gestern hat der Ritter das Lied gesungen."
        elif ", en-" in data:
            self.example = "I will call you as soon as I arrive."

    def _watch(self, text: str) -> Pass:
        most = self.model.config.max_length
        length = len(self.tokenizer.encode(text)) + 1
        if length > most:
            raise InputError(f"The text has {length} tokens, but the limit of this model is {most}. Shorten it.")
        target = self.trained.hypotheses([text], strategy=Strategy())[0][0].ids
        source = self.trained.source_ids([text])[0]
        read, written = [self.tokenizer.bos_id, *target][:most], [*target, self.tokenizer.eos_id][:most]
        inputs = np.array([source]), np.array([read])
        tokens = {"source": self.shown(source)} | steps(self.shown(read), self.shown(written))
        return Pass(text, self.tokenizer.decode(target), tokens, self._layers(*inputs), inputs, np.array([written]))

    def training_loss(self, text: str) -> Callable[[], Tensor]:
        seen = self.watched(text)
        return lambda: self.trained.model.loss(*seen.inputs, seen.labels)

    def search(self, text: str) -> Search:
        source = np.array(self.trained.source_ids([text]))
        self.model.eval()
        rules = Rules(self.tokenizer.bos_id, self.tokenizer.eos_id)
        return Search(cached(self.trained.model.start(source)), rules, "<bos>")


def steps(read: list[str], written: list[str]) -> dict[str, list[str]]:
    """Return a decoder's lists of tokens: the last input and the next token of each query, and a label of both."""
    both = [f"{one} → {next}" for one, next in zip(read, written, strict=True)]
    return {"read": read, "written": written, "steps": both}


class WriterSubject(Subject):
    """Language models, with the text and its continuation by greedy search."""

    kind = "language model"
    example = "The knight"
    beam = 1
    trained_class = Writer
    trained: Writer
    attention: ClassVar = {"decoder": ("Self-attention", "steps", "text")}

    def _watch(self, text: str) -> Pass:
        ids = self.tokenizer.encode(text)
        room = min(CONTINUED, self.trained.length - len(ids))
        if room < 1:
            raise InputError(
                f"The text has {len(ids)} tokens, but the limit of this model is {self.trained.length}, including its "
                "answer. Shorten it."
            )
        answer = self.trained.best(text, room, Strategy(beam=self.beam))[0][0]
        whole = self.tokenizer.encode(answer)[: self.trained.length]
        inputs = (np.array([whole]),)
        layers = self._layers(*inputs) if isinstance(self.model, LanguageModel) else []
        shown = self.shown(whole)
        return Pass(text, answer, {"text": shown} | steps(shown, [*shown[1:], "…"]), layers, inputs)

    def training_loss(self, text: str) -> Callable[[], Tensor]:
        whole = self.tokenizer.encode(self.watched(text).answer)[: self.trained.length + 1]
        batch = Windows(np.array([whole[:-1]]), np.array([whole[1:]]))
        loss = language_model_loss()
        return lambda: loss(self.model, batch)[0]

    def search(self, text: str) -> Search:
        if not isinstance(self.model, LanguageModel):
            raise InputError("This model is recurrent, so it has no cache of keys and values.")
        self.watched(text)  # raises for a text that is too long
        ids = [id for id in self.tokenizer.encode(text) if id != self.tokenizer.unk_id]
        room = min(CONTINUED, self.trained.length - len(ids))
        special = tuple(self.tokenizer.special_ids.values())
        rules = Rules(None, None, [ids], max_length=room, forbidden=special)
        return Search(cached(self.model.start(1)), rules, "…" + self.shown(ids[-1:])[0], len(ids))


class ClassifierSubject(Subject):
    """Classifiers of texts."""

    kind = "classifier"
    example = "Team wins the cup after a late goal"
    trained_class = Classifier
    trained: Classifier
    attention: ClassVar = {"encoder": ("Self-attention", "text", "text")}

    def _watch(self, text: str) -> Pass:
        ranked = list(self.trained.classify([text])[0].items())
        ids = self.trained.ids([text])[0]
        inputs = (np.array([ids]),)
        tokens = {"text": self.shown(ids)}
        return Pass(text, self.trained.best(text), tokens, self._layers(*inputs), inputs, shares=ranked)

    def training_loss(self, text: str) -> Callable[[], Tensor]:
        label = np.array([self.trained.labels.index(self.watched(text).shares[0][0])])  # type: ignore[index]
        (inputs,) = self.watched(text).inputs
        return lambda: ops.cross_entropy(self.model(inputs), label)


def load_subject(folder: str | Path) -> Subject:
    """Load the model of a run, or of `transformers`. Raises InputError if `folder` has no model or is damaged."""
    path = Path(folder)
    foreign = path.is_dir() and is_foreign(path)
    if not foreign and not RunFolder.open(path).model_path.is_file():
        raise InputError(f"{path} contains no model yet: the model is saved at the first validation. Wait for it.")
    kinds: dict[str, type[Subject]] = {"classify": ClassifierSubject, "generate": WriterSubject}
    return kinds.get(task_of(path)[0], TranslatorSubject)(path)
