"""Translation data loaded by name and by path."""

import gzip
import hashlib
import re
import subprocess
import sys
import types
import zipfile
from collections import Counter
from functools import partial
from operator import itemgetter
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.train.data import grammar, translation
from handloom.train.data.pairs import split_by_sentence
from handloom.train.data.translation import data_names, load_translation_data

pytestmark = pytest.mark.slow

PAIRS = [(f"Satz {i}.", f"Sentence {i}.") for i in range(200)]


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch) -> Path:
    """Set HANDLOOM_DATA to an empty folder, and make all downloads fail."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("HANDLOOM_DATA", str(folder))
    monkeypatch.setattr("handloom.train.data.translation.MULTI30K_URL", "http://127.0.0.1:9/")
    monkeypatch.setattr("handloom.train.data.translation.TATOEBA_URL", "http://127.0.0.1:9/")
    return folder


def write_pairs(prefix: Path, pairs, languages=("de", "en")) -> str:
    for side, language in enumerate(languages):
        Path(f"{prefix}.{language}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return str(prefix)


def refusal(*args, **kwargs) -> str:
    with pytest.raises(InputError) as caught:
        load_translation_data(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestSplit:
    @given(st.lists(st.tuples(st.text("abc. ", min_size=1, max_size=3), st.text("AbC! ", min_size=1, max_size=2))))
    def test_parts_share_no_sentence_and_lose_no_pair(self, pairs):
        def key(pair):
            return re.sub(r"\W", "", pair[1].casefold()) or pair[1]

        if len({key(pair) for pair in pairs}) < 3:
            with pytest.raises(InputError, match="too few to set some aside"):
                split_by_sentence(pairs, itemgetter(1))
            return
        parts = split_by_sentence(pairs, itemgetter(1))
        assert all(parts)
        assert Counter(pair for part in parts for pair in part) == Counter(pairs)
        keys = [{key(pair) for pair in part} for part in parts]
        assert len(set.union(*keys)) == sum(map(len, keys))

    def test_sizes_and_order(self):
        parts = split_by_sentence(PAIRS, itemgetter(1))
        assert [len(part) for part in parts] == [180, 10, 10]
        assert all(part == sorted(part, key=PAIRS.index) for part in parts)
        backwards = split_by_sentence(PAIRS[::-1], itemgetter(1))
        assert [set(part) for part in parts] == [set(part) for part in backwards]

    def test_one_sentence_nearly_everywhere(self):
        pairs = [("a", "often")] * 98 + [("b", "rare"), ("c", "seldom")]
        with pytest.raises(InputError, match="98 of the 100 sentence pairs have the same sentence, 'often'"):
            split_by_sentence(pairs, itemgetter(1))

    def test_at_most_2000(self):
        pairs = [(f"a{i}", f"b{i}") for i in range(50_000)]
        assert [len(part) for part in split_by_sentence(pairs, itemgetter(0))] == [46_000, 2_000, 2_000]

    def test_is_the_same_in_every_process_and_release(self):
        test = split_by_sentence(PAIRS, itemgetter(1))[2]
        digest = hashlib.sha256(repr(test).encode()).hexdigest()
        assert digest[:8] == "13eb69b1", "a changed split makes scores incomparable with those of older releases"


class TestPath:
    def test_prefix(self, tmp_path):
        data = load_translation_data(write_pairs(tmp_path / "c", PAIRS))
        assert sorted(data.train + data.valid + data.test, key=PAIRS.index) == PAIRS
        prefix = tmp_path / "c"
        assert data.summary() == f"{prefix}, de-en: 180 training, 10 validation and 10 test pairs (held-out sentences)"
        assert data.notes == ()

    @pytest.mark.parametrize("name", ["c.tsv", "c.tsv.gz", "c.txt", "c", "c.jsonl"])
    def test_a_table_gives_the_same_parts_as_parallel_files(self, tmp_path, name):
        rows = [f"{en}\t{de}" for de, en in [("de", "en"), *PAIRS]]
        if name == "c.jsonl":
            rows = [f'{{"de": "{de}", "en": "{en}"}}' for de, en in PAIRS]
        content = "\n".join(rows).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        table = load_translation_data(str(tmp_path / name))
        prefix = load_translation_data(write_pairs(tmp_path / "parallel", PAIRS))
        assert (table.train, table.valid, table.test) == (prefix.train, prefix.valid, prefix.test)

    def test_other_direction_languages_and_notes(self, tmp_path):
        prefix = write_pairs(tmp_path / "c", [*PAIRS, ("un", " ")], ("fr", "en"))
        data = load_translation_data(prefix, source="en", target="fr")
        assert data.train[0][0].startswith("Sentence")
        assert (data.source, data.target) == ("en", "fr")
        assert (len(data.train), len(data.valid), len(data.test)) == (180, 10, 10)
        assert data.train == sorted(data.train, key=[pair[::-1] for pair in PAIRS].index)
        assert "left out 1 pair with a blank side (line 201)" in data.notes[0]

    @pytest.mark.parametrize("own", [["valid"], ["test"], ["valid", "test"]])
    @pytest.mark.parametrize("table", [True, False])
    def test_own_held_out_files(self, tmp_path, own, table):
        def write(name, pairs):
            if not table:
                return write_pairs(tmp_path / name, pairs)
            (tmp_path / f"{name}.tsv").write_text("".join(f"{de}\t{en}\n" for de, en in pairs), encoding="utf-8")
            return str(tmp_path / f"{name}.tsv")

        path = write("c", PAIRS)
        split = load_translation_data(path)
        for part in own:
            write(f"c.{part}", [(part, "w")])
        data = load_translation_data(path)
        rest = [*data.train]
        for part in ("valid", "test"):
            assert getattr(data, part) == ([(part, "w")] if part in own else getattr(split, part))
            rest += [] if part in own else getattr(data, part)
        assert sorted(rest, key=PAIRS.index) == PAIRS
        assert ("c.test" in data.test_name) == ("test" in own)

    def test_joined_sets_train_on_no_held_out_sentence(self, tmp_path):
        first = load_translation_data(write_pairs(tmp_path / "a", PAIRS))
        other = [(f"{german} Ja", f"yes {i}") for i, (german, _) in enumerate(first.test)] + PAIRS[50:]
        second = load_translation_data(write_pairs(tmp_path / "b", [*other, (first.test[0][0].upper(), "New.")]))
        joined = load_translation_data(f"{tmp_path}/a+{tmp_path}/a+{tmp_path}/b")
        assert (joined.test, joined.valid) == (first.test, first.valid + second.valid)
        held_out = {side for pair in (*joined.valid, *first.test, *second.test) for side in pair}
        left = [pair for pair in first.train * 2 + second.train if held_out.isdisjoint(pair) and pair[1] != "New."]
        assert sorted(joined.train) == sorted(left)
        assert f"{len(first.train * 2 + second.train) - len(left)} training pairs have a" in joined.notes[-1]
        assert "neither a known data set" in refusal("embedded+")

    def test_a_name_with_a_path_is_a_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_pairs(Path("multi30k"), PAIRS)
        assert len(load_translation_data("./multi30k").train) == 180

    def test_three_pairs_are_enough_and_two_are_not(self, tmp_path):
        data = load_translation_data(write_pairs(tmp_path / "c", PAIRS[:3]))
        assert (len(data.train), len(data.valid), len(data.test)) == (1, 1, 1)
        assert "only 2 different sentences" in refusal(write_pairs(tmp_path / "d", PAIRS[:2]))


class TestMistakes:
    def test_unknown_name(self):
        message = refusal("multi_30k")
        assert f"neither a known data set ({', '.join(data_names())})" in message
        assert data_names("en", "fr") == ["embedded", "multi30k", "tatoeba"]
        assert "Did you mean multi30k?" in message
        assert "Did you mean" not in refusal("/no/such/corpus")

    def test_languages_that_are_equal(self):
        assert "both 'de'" in refusal("embedded", target="de")

    @pytest.mark.parametrize(
        ("name", "source", "target"),
        [("embedded", "de", "fr"), ("multi30k", "de", "it"), ("tatoeba", "de", "fr"), ("wmt17", "en", "fr")],
    )
    def test_languages_that_a_set_lacks(self, name, source, target):
        assert f"{name} has no {source}-{target} pairs; it has " in refusal(name, source=source, target=target)


@pytest.mark.parametrize("other", ["de", "fr"])
def test_embedded_pairs_either_way(monkeypatch, other):
    small = partial(grammar.build_corpus, train_size=2000, valid_size=50, test_size=50)
    monkeypatch.setattr(grammar, "build_corpus", small)
    forth = load_translation_data("embedded", source="en", target=other)
    back = load_translation_data("embedded", source=other, target="en")
    assert [pair[::-1] for pair in forth.train] == back.train
    assert forth.test
    assert not {english for english, _ in forth.test} & {english for english, _ in forth.train}


class TestMulti30k:
    @pytest.fixture
    def official(self, data, monkeypatch):
        """Replace the official files and checksums by small files and their checksums."""
        (data / "multi30k").mkdir()
        sums = {}
        for part, n in (("train", 5), ("val", 2), ("test_2016_flickr", 3)):
            for language in ("de", "en", "fr"):
                packed = gzip.compress("".join(f"{part} {language} {i}\n" for i in range(n)).encode(), mtime=0)
                name = f"{part}.{language}.gz"
                (data / "multi30k" / name).write_bytes(packed)
                sums[name] = hashlib.sha256(packed).hexdigest()
        monkeypatch.setattr(translation, "MULTI30K_SHA256", sums)
        return data / "multi30k"

    @pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "de"), ("en", "fr"), ("fr", "de")])
    def test_from_the_data_folder(self, official, source, target):
        data = load_translation_data("multi30k", source=source, target=target)
        assert data.train[4] == (f"train {source} 4", f"train {target} 4")
        assert (len(data.train), len(data.valid), len(data.test)) == (5, 2, 3)
        assert data.test_name == "test_2016_flickr"

    def test_no_file_and_no_network(self, tmp_path, monkeypatch):
        monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache")
        monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
        message = refusal("multi30k")
        names = "train.de.gz, train.en.gz, val.de.gz, val.en.gz, test_2016_flickr.de.gz, test_2016_flickr.en.gz"
        assert f"fetch {names} from http" in message
        assert "The data set embedded needs no download" in message


ROWS = [(f"Sentence {i // 2}.", f"Satz {i}.") for i in range(200)]


class TestTatoeba:
    def write_zip(self, data, rows, member="deu.txt"):
        (data / "tatoeba_en_de").mkdir()
        with zipfile.ZipFile(data / "tatoeba_en_de" / "deu-eng.zip", "w") as archive:
            archive.writestr("_about.txt", "about")
            archive.writestr(member, "".join("\t".join(row) + "\n" for row in rows))

    @pytest.mark.parametrize("attribution", [(), ("CC-BY 2.0 (France)",)])
    def test_official_archive_of_either_edition(self, data, attribution):
        self.write_zip(data, [row + attribution for row in ROWS])
        loaded = load_translation_data("tatoeba")
        assert Counter(loaded.train + loaded.valid + loaded.test) == Counter((de, en) for en, de in ROWS)
        archive = (data / "tatoeba_en_de" / "deu-eng.zip").read_bytes()
        assert f"the file that was read has SHA-256 {hashlib.sha256(archive).hexdigest()}" in loaded.notes[-1]

    @pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "de")])
    def test_parts_share_no_english_sentence(self, data, source, target):
        (data / "tatoeba_en_de").mkdir()
        content = "".join("\t".join(row) + "\n" for row in ROWS)
        (data / "tatoeba_en_de" / "eng-deu.tsv.gz").write_bytes(gzip.compress(content.encode()))
        loaded = load_translation_data("tatoeba", source=source, target=target)
        side = 0 if source == "en" else 1
        english = [{pair[side] for pair in part} for part in (loaded.train, loaded.valid, loaded.test)]
        assert all(sentence.startswith("Sentence") for part in english for sentence in part)
        assert [len(part) for part in english] == [90, 5, 5]
        assert len(english[0] | english[1] | english[2]) == 100

    @pytest.mark.parametrize("damage", ["no archive", "no member", "empty", "a NUL byte"])
    def test_archives_that_cannot_be_used(self, data, damage):
        rows = {"empty": [], "a NUL byte": [("\0", "x")] * 9}.get(damage, [("Sentence.", "Sätze.")] * 200)
        self.write_zip(data, rows, member="readme.txt" if damage == "no member" else "deu.txt")
        path = data / "tatoeba_en_de" / "deu-eng.zip"
        if damage == "no archive":
            path.write_bytes(b"<html>")
        other = "damaged or not the expected archive, which holds deu"
        said = "contains a NUL byte" if damage == "a NUL byte" else other
        assert said in refusal("tatoeba")


class FakeRows:
    """The methods of a data set of the `datasets` library that the loader uses."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def select(self, indices):
        return FakeRows([self.rows[i] for i in indices])

    def iter(self, batch_size):
        for start in range(0, len(self.rows), batch_size):
            yield {"translation": self.rows[start : start + batch_size]}


class TestWMT17:
    @pytest.fixture
    def hub(self, monkeypatch):
        def rows(part, n):
            return FakeRows([{"de": f"{part} deutsch {i}", "en": f"{part} english {i}"} for i in range(n)])

        library = types.ModuleType("datasets")
        library.load_dataset = lambda name, configuration: {  # type: ignore[attr-defined]
            ("wmt/wmt17", "de-en"): {
                "train": rows("train", 100),
                "validation": rows("valid", 5),
                "test": rows("test", 6),
            }
        }[name, configuration]
        monkeypatch.setitem(sys.modules, "datasets", library)
        return library

    def test_a_part_of_the_training_text(self, hub, monkeypatch):
        monkeypatch.setattr(translation, "WMT17_PAIRS", 30)
        data = load_translation_data("wmt17")
        assert (len(data.train), len(data.valid), len(data.test)) == (30, 5, 6)
        assert data.train == load_translation_data("wmt17").train
        assert data.train[-1] != ("train deutsch 29", "train english 29"), "random pairs, not the first pairs"
        assert data.test[0] == ("test deutsch 0", "test english 0")
        assert data.test_name == "newstest2017"

    def test_library_missing(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "datasets", None)
        message = refusal("wmt17")
        assert "not installed. Install it with pip install datasets" in message
        assert "The data set embedded needs no download" in message

    def test_no_network(self, hub):
        hub.load_dataset = Mock(side_effect=ConnectionError("Couldn't reach 'wmt/wmt17' on the Hub\nmore lines"))
        message = refusal("wmt17")
        assert "could not be loaded from the Hugging Face hub: Couldn't reach 'wmt/wmt17' on the Hub. Check" in message
        assert "statmt.org/wmt17" in message
        assert "The data set embedded needs no download" in message


def test_other_sets_do_not_pay_for_imports(tmp_path):
    prefix = write_pairs(tmp_path / "c", PAIRS)
    code = (
        "import sys\nfrom handloom.train.data.translation import load_translation_data\n"
        f"load_translation_data({prefix!r})\n"
        "assert not {'pooch', 'datasets', 'requests'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
