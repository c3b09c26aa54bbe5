"""Test the names of the models that come with handloom."""

from pathlib import Path

import pytest

from handloom.errors import InputError
from handloom.models import shipped


def test_models_in_a_zip_archive_are_not_called_unknown(monkeypatch) -> None:
    monkeypatch.setitem(shipped.MODELS, "everyday-de-en", Path("handloom.zip/models/shipped/everyday_de_en"))
    with pytest.raises(InputError, match="comes with handloom, but can't be read from a zip"):
        shipped.model_path("everyday-de-en")
    assert shipped.model_path("unknown") == Path("unknown")
