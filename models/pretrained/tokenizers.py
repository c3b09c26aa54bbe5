"""Load and save tokenizers in the file formats of Hugging Face's `transformers`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import InputError, short
from ...files import write_json
from ...tokenizer import BPETokenizer, Tokenizer
from ...tokenizer.hugging_face import HuggingFaceTokenizer
from ...tokenizer.sentencepiece import SentencePieceTokenizer
from ...tokenizer.tokenizer_json import bpe_from_json
from .files import read_object

#: The names of the roles of special tokens in these files.
ROLES = {
    "pad": ("pad_token",), "unk": ("unk_token",), "bos": ("bos_token", "cls_token"), "eos": ("eos_token", "sep_token"),
}  # fmt: skip

#: The files of a tokenizer, of which each type has some.
FILES = (
    "source.spm", "target.spm", "vocab.json", "target_vocab.json", "tokenizer.json", "merges.txt", "vocab.txt",
    "spiece.model", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
WITHOUT = "with_tokenizer=False loads the model alone."


def load_tokenizer_of(folder: Path, config: Mapping[str, Any], vocab_size: int) -> Tokenizer:
    """Load the tokenizer in the folder. Raises InputError if there is no tokenizer or it can't be used."""
    try:
        tokenizer = _read(folder, config)
    except InputError as error:
        raise InputError(f"The tokenizer in {folder} can't be used: {error} {WITHOUT}") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"The tokenizer in {folder} is damaged ({short(what)}). Fetch it again. {WITHOUT}") from None
    if tokenizer.vocab_size > vocab_size:
        raise InputError(
            f"The tokenizer in {folder} has {tokenizer.vocab_size:,} tokens, but the model has only {vocab_size:,}: "
            "they don't belong together. Fetch both again."
        )
    tokenizer.unused = vocab_size - tokenizer.vocab_size
    return tokenizer


def _read(folder: Path, config: Mapping[str, Any]) -> Tokenizer:
    said = read_object(folder / "tokenizer_config.json")
    special = {**read_object(folder / "special_tokens_map.json"), **said}
    names = {role: _text(special.get(key)) for role, keys in ROLES.items() for key in keys if special.get(key)}
    if (folder / "source.spm").is_file():
        return _sentencepiece(folder, said, names)
    cure = "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers makes it from older files."
    data = read_object(folder / "tokenizer.json", missing=f"it contains no tokenizer.json. {cure}")
    return _from_json(_with_settings(data, said), names, config, bool(said.get("split_special_tokens")))


def _with_settings(data: dict[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a tokenizer.json with the tokens and the blank before a text of tokenizer_config.json."""
    added = {token["content"]: token for token in data.get("added_tokens") or []}
    texts = _texts(data)
    known, size = {text: id for id, text in texts.items()}, max(texts, default=-1) + 1
    for _, token in sorted((said.get("added_tokens_decoder") or {}).items(), key=lambda item: int(item[0])):
        if token != {name: value for name, value in added.get(token["content"], {}).items() if name != "id"}:
            id = known.setdefault(token["content"], size)
            size = max(size, id + 1)
            added[token["content"]] = {"id": id, **token}
    data = {**data, "added_tokens": sorted(added.values(), key=lambda token: token["id"])}
    cut, blank = data.get("pre_tokenizer") or {}, said.get("add_prefix_space")
    as_in_file = said.get("tokenizer_class") in ("PreTrainedTokenizerFast", "TokenizersBackend")
    if isinstance(blank, bool) and not as_in_file and cut.get("type") == "ByteLevel":
        data["pre_tokenizer"] = {**cut, "add_prefix_space": blank}
    return data


def _from_json(data: dict[str, Any], names: dict[str, str], config: Mapping[str, Any], split: bool) -> Tokenizer:
    """Return the tokenizer that a tokenizer.json describes. `names` are the special tokens by role, from other files.
    handloom's encoder is used for byte-level BPE, and the package `tokenizers` for all other types. As in transformers,
    special tokens are found in texts unless `split` (split_special_tokens) is true.
    """
    try:
        own: BPETokenizer | None = BPETokenizer(**bpe_from_json(data), split_special_tokens=split)
    except InputError as error:
        own, why = None, str(error)
    texts = _texts(data)
    starts = "decoder_start_token_id" if config.get("decoder_start_token_id") is not None else "bos_token_id"
    for role, key in (("bos", starts), ("eos", "eos_token_id")):
        number = config.get(key)
        number = number[0] if isinstance(number, list) and number else number
        if (role not in names or key == "decoder_start_token_id") and isinstance(number, int) and number in texts:
            names[role] = texts[number]
    special = {token["content"] for token in data.get("added_tokens", []) if token.get("special", True)}
    if data["model"].get("type") == "WordPiece":
        names = {"pad": "[PAD]", "unk": "[UNK]", "bos": "[CLS]", "eos": "[SEP]", **names}
    names = {role: name for role, name in names.items() if name in special}
    if "eos" in names:  # a decoder needs no other roles
        names = {"pad": names["eos"], "unk": names["eos"], "bos": names["eos"], **names}
    if own is None:
        try:
            return HuggingFaceTokenizer(data, names, split_special_tokens=split)
        except InputError as error:
            raise InputError(f"{error} (handloom's own encoder: {why})") from None
    standard = {"pad": "<pad>", "unk": "<unk>", "bos": "<bos>", "eos": "<eos>"}
    own.roles = {} if names == standard else names
    single = _template_of(data.get("post_processor"))
    own.begins, own.ends = single[:1] == [names.get("bos")], single[-1:] == [names.get("eos")]
    return own


def _texts(data: Mapping[str, Any]) -> dict[int, str]:
    vocab = data["model"]["vocab"]
    pieces = {id: text for id, (text, _) in enumerate(vocab)} if isinstance(vocab, list) else {
        id: text for text, id in vocab.items()}  # fmt: skip
    return pieces | {token["id"]: token["content"] for token in data.get("added_tokens", [])}


def _text(token: Any) -> str:
    """Return a special token's text, which is stored as a string or as an object with the string."""
    return str(token["content"]) if isinstance(token, dict) else str(token)


def _template_of(processor: Mapping[str, Any] | None) -> list[str | bool]:
    """Return the template of a post_processor, as a list of special tokens with False in place of the text, or []."""
    if processor is None:
        return []
    steps = processor["processors"] if processor["type"] == "Sequence" else [processor]
    pieces = [piece for step in steps if step["type"] == "TemplateProcessing" for piece in step["single"]]
    return [piece.get("SpecialToken", {}).get("id", False) for piece in pieces]


def _sentencepiece(folder: Path, said: Mapping[str, Any], names: dict[str, str]) -> Tokenizer:
    if said.get("separate_vocabs") or (folder / "target_vocab.json").is_file():
        raise InputError("it has a separate vocabulary for each language, but handloom supports only a shared one.")
    for name in ("source.spm", "target.spm", "vocab.json"):
        if not (folder / name).is_file():
            raise InputError(f"it lacks {name}.")
    source, target = ((folder / f"{name}.spm").read_bytes() for name in ("source", "target"))
    vocab = read_object(folder / "vocab.json")
    roles = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>", **names}
    return SentencePieceTokenizer(source, target, vocab, {**roles, "bos": roles["pad"]})


def save_tokenizer(
    tokenizer: Tokenizer, folder: Path, max_length: int, *, begins: bool = False, ends: bool = False
) -> None:
    """Write the tokenizer files of `transformers`, and remove those of an older tokenizer.

    The saved tokenizer adds <bos> before a text if `begins` is true and <eos> after it if `ends` is true, or if the
    tokenizer already adds them.
    """
    said: dict[str, Any] = {"model_max_length": max_length}
    said |= {f"{role}_token": name for role, name in role_names(tokenizer).items()}
    if isinstance(tokenizer, SentencePieceTokenizer):
        for name, model in tokenizer.models.items():
            (folder / f"{name}.spm").write_bytes(model)
        write_json(folder / "vocab.json", tokenizer.vocab)
        written = ["source.spm", "target.spm", "vocab.json"]
        del said["bos_token"]
        said |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False}
    elif isinstance(tokenizer, (BPETokenizer, HuggingFaceTokenizer)):
        if isinstance(tokenizer, BPETokenizer):
            data = tokenizer.to_json()
            data["post_processor"] = _template(tokenizer, tokenizer.begins or begins, tokenizer.ends or ends)
        else:
            data = tokenizer.data
        write_json(folder / "tokenizer.json", data)
        written = ["tokenizer.json"]
        said |= {"tokenizer_class": "PreTrainedTokenizerFast", "split_special_tokens": tokenizer.split_special_tokens}
        if data["model"].get("type") == "WordPiece":
            said |= {"cls_token": said.pop("bos_token"), "sep_token": said.pop("eos_token")}
    else:
        raise InputError(
            f"transformers has no equivalent of a {type(tokenizer).__name__}. Save the model without a tokenizer "
            "(None), or train a model with BPE tokens."
        )
    write_json(folder / "tokenizer_config.json", said)
    for name in (name for name in FILES if name not in written):
        (folder / name).unlink(missing_ok=True)


def role_names(tokenizer: Tokenizer) -> dict[str, str]:
    """Return the texts of the tokenizer's special tokens by role."""
    texts = {id: text for text, id in tokenizer.special_ids.items()}
    names = {}
    for role in ROLES:
        try:
            names[role] = tokenizer.roles.get(role) or texts[getattr(tokenizer, f"{role}_id")]
        except InputError:
            continue
    return names


def _template(tokenizer: Tokenizer, begins: bool, ends_: bool) -> dict[str, Any] | None:
    """Return the post_processor that adds <bos> before a text and <eos> after it."""
    ends = {"bos": begins, "eos": ends_}
    if not any(ends.values()):
        return None
    texts = role_names(tokenizer)
    known = {texts[role]: getattr(tokenizer, f"{role}_id") for role, there in ends.items() if there}

    def piece(role: str, part: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": texts[role], "type_id": part}}] if ends[role] else []

    first = [*piece("bos", 0), {"Sequence": {"id": "A", "type_id": 0}}, *piece("eos", 0)]
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, {"Sequence": {"id": "B", "type_id": 1}}, *piece("eos", 1)],
        "special_tokens": {text: {"id": text, "ids": [id], "tokens": [text]} for text, id in known.items()},
    }
