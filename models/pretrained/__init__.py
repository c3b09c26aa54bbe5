"""Pre-trained models: loading and saving folders of Hugging Face's `transformers`.

__init__.py           load and save
loading.py            from a folder to a model: all is checked before memory is allocated
saving.py             from a model to a folder
files.py              config.json, safetensors in one file or several, the Hub
layouts.py            names and layouts of the parameters in both libraries
marian.py             translators; gpt2.py, llama.py decoders; bert.py, distilbert.py classifiers
generation_config.py  a folder's options of generation, as a Strategy
tokenizers.py         the tokenizers in these folders
"""

from .loading import ARCHITECTURES, Pretrained, load
from .saving import save

__all__ = ["ARCHITECTURES", "Pretrained", "load", "save"]
