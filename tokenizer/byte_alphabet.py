"""A printable character for each of the 256 bytes, to write byte-level tokens in vocabulary files.

A token consists of bytes, which can be invalid UTF-8, but a JSON file can contain only text. GPT-2's tokenizer (Radford
et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2, and the code released with it)
therefore maps each byte to a character. A visible character of Latin-1 represents its byte. The other 68 bytes (white
space, control characters, the soft hyphen) are represented by the characters from U+0100 on; for example, the blank is
`Ġ`, and the line feed is `Ċ`.
"""

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in set(_VISIBLE)]

_CHARACTERS = {byte: chr(byte) for byte in _VISIBLE} | {byte: chr(0x100 + i) for i, byte in enumerate(_HIDDEN)}

BYTE_TO_CHARACTER: list[str] = [_CHARACTERS[byte] for byte in range(256)]

# The bytes in the order of their characters' code points: in this order they get their ids.
BYTES_IN_ID_ORDER: list[int] = sorted(range(256), key=BYTE_TO_CHARACTER.__getitem__)

_BYTES = {character: byte for byte, character in enumerate(BYTE_TO_CHARACTER)}


def bytes_to_text(token: bytes) -> str:
    """Convert a token to the notation of vocabulary files, with one character for each byte."""
    return "".join([BYTE_TO_CHARACTER[byte] for byte in token])


def text_to_bytes(text: str) -> bytes:
    """Return the bytes of the token that is written as `text` in a vocabulary file, or raise KeyError."""
    return bytes([_BYTES[character] for character in text])
