"""Other people's weights, both ways: folders of Hugging Face's `transformers` as models here, and models as folders.

__init__.py           load and save
loading.py            from a folder to a model: everything is checked before memory is taken
saving.py             from a model to a folder
files.py              config.json, safetensors in one file or several, the Hub
layouts.py            one parameter here, one or several tensors there
marian.py             translators; gpt2.py, llama.py decoders; bert.py, distilbert.py classifiers
generation_config.py  how a folder says to generate
tokenizers.py         tokenizers of these folders
"""

from .loading import ARCHITECTURES, Pretrained, load
from .saving import save

__all__ = ["ARCHITECTURES", "Pretrained", "load", "save"]
