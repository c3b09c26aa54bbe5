"""Load and save pre-trained models in folders of Hugging Face's `transformers`.

__init__.py           import load and save
loading.py            load a model, after checking all names and shapes
saving.py             save a model
files.py              read config.json and safetensors files; download from the Hugging Face Hub
layouts.py            names and layouts of the parameters in both libraries
marian.py             translators; gpt2.py, llama.py decoders; bert.py, distilbert.py classifiers
generation_config.py  convert a folder's generation options to a Strategy, and back
tokenizers.py         load and save the tokenizers
"""

from .loading import ARCHITECTURES, Pretrained, load
from .saving import save

__all__ = ["ARCHITECTURES", "Pretrained", "load", "save"]
