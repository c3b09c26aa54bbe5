"""News loaded by name and by path."""

import gzip
import json
import os
from pathlib import Path

import pytest

from handloom.errors import InputError
from handloom.train.data.news import Article, News, denoising, load_news, read_articles, unlabelled_texts
from handloom.train.data.pairs import sentence_key


def test_no_headline_is_in_two_parts() -> None:
    news = load_news("embedded", descriptions=True)
    parts = [{article.headline for article in part} for part in (news.train, news.valid, news.test)]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    assert len(news.train) == 8100
    assert "8 categories" in news.summary()


def test_files_of_ones_own(tmp_path) -> None:
    rows = [
        {"category": "AB"[i % 2], "headline": f"h{i}", "short_description": f"d{i}" if i % 4 else ""} for i in range(80)
    ]
    both = {**rows[1], "short_description": " ", "description": "d"}
    (tmp_path / "b.jsonl").write_text(json.dumps(both))
    assert list(read_articles(tmp_path / "b.jsonl")) == [Article("B", "h1", "d")]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    text = "\n".join("\t".join(row.values()) for row in rows)
    (tmp_path / "a.tsv").write_text(f"Category\tHeadline\tDescription\n{text}")  # the first row names the columns
    json_news, table = (load_news(str(tmp_path / name), descriptions=False) for name in ("a.jsonl", "a.tsv"))
    assert (json_news.train, table.categories) == (table.train, ["A", "B"])
    assert sum(len(part) for part in (table.train, table.valid, table.test)) == 80
    told = load_news(str(tmp_path / "a.tsv"), descriptions=True)
    assert sum(len(part) for part in (told.train, told.valid, told.test)) == 60
    assert "left out 20" in told.notes[0]


def test_headlines_do_not_need_categories(tmp_path) -> None:
    """Forty categories with one article each are enough for headlines, but not for classification."""
    (tmp_path / "a.tsv").write_text("".join(f"category {i}\theadline {i}\twhat {i}\n" for i in range(40)))
    news = load_news(str(tmp_path / "a.tsv"), descriptions=True)
    assert sum(len(part) for part in (news.train, news.valid, news.test)) == 40
    assert news.notes == ()
    with pytest.raises(InputError, match="too few articles for this number of categories"):
        load_news(str(tmp_path / "a.tsv"), descriptions=True, categories=True)
    (tmp_path / "one.tsv").write_text("".join(f"A\theadline {i}\twhat happened {i}\n" for i in range(40)))
    assert load_news(str(tmp_path / "one.tsv"), descriptions=True).categories == ["A"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A\n", "category"),
        ('{"category": "A"}\n', "line 1.*headline"),
        ('{"category": "A", "headline": 3}\n', "line 1"),
        ("A\tone\nA\ttwo\n", "nothing to classify"),
        ("A\tone\twhat\tmore\n", "line 1.*neither category<TAB>headline"),
        ("[" * 10_000 + "\n", "line 1"),
        ('{"category": ' + "[" * 100_000 + "\n", "line 1.*is neither"),
        ('{"category": "A", "headline": "a\\u0000b"}\n', "line 1"),
        ('{"category": "A", "headline": "a\\ud800b"}\n', "line 1"),
    ],
    ids=range(9),
)
def test_what_is_refused(tmp_path, text, said) -> None:
    (tmp_path / "x.tsv").write_text(text)
    with pytest.raises(InputError, match=said):
        load_news(str(tmp_path / "x.tsv"), descriptions=False)
    with pytest.raises(InputError, match="neither a known set"):
        load_news("newz", descriptions=False)


@pytest.mark.skipif(not os.environ.get("HANDLOOM_DATA"), reason="HANDLOOM_DATA names no folder with real data")
def test_huffpost() -> None:
    headlines, told = load_news("news", descriptions=False), load_news("news", descriptions=True)
    assert len(headlines.categories) == 41
    assert len(told.train) > 20_000
    assert all(article.description for article in told.test)
    both = load_news("news42", descriptions=True, categories=True)
    assert len(both.categories) == 42
    assert sum(map(len, (both.train, both.valid, both.test))) == 51_829
    seen = {sentence_key(article.headline) for article in both.train}
    assert not any(sentence_key(article.headline) in seen for article in (*both.valid, *both.test, *told.test))


def test_texts_without_labels_contain_nothing_that_is_held_out(tmp_path, monkeypatch) -> None:
    """The other HuffPost articles are also read, except those whose headline or description is held out."""
    folder = tmp_path / "news_category"
    folder.mkdir()
    rows = [("A" if i % 2 else "B", f"headline {i}", f"description {i}") for i in range(60)]
    files = {"news_v3_head10k": rows[:40], "news_v2_2017_2018_resplit": rows[40:]}
    held_out = load_news_of(files, folder, monkeypatch).test[0]
    more = [("C", held_out.headline.upper() + "!", ""), ("C", "another", ""), ("C", held_out.description, "")]
    news = load_news_of({**files, "huffpost41_headlines": more}, folder, monkeypatch)
    texts = unlabelled_texts(news)
    assert sorted(texts) == sorted([*(f"{a.headline} {a.description}" for a in news.train), "another"])
    assert held_out in news.test
    made = denoising(news)
    restored = {article.headline for article in (*made.train, *made.valid, *made.test)}
    numbers = {a.headline.split()[1] for a in news.train}
    assert restored == {f"{word} {n}" for n in numbers for word in ("Headline", "Description")} | {"Another"}
    assert made == denoising(news) != denoising(news, seed=1)
    assert all(set(a.description.title().split()) <= set(a.headline.split()) for a in made.train)
    long, moves = [Article("A", " ".join(map(str, range(i, i + 100))), "") for i in range(60)], set()
    for article in denoising(News(long, [], [], "own")).train:
        kept = [int(word) for word in article.description.split()]
        assert 10 <= len(kept) <= 80
        moves |= {abs(rank - kept.index(word)) for rank, word in enumerate(sorted(kept))}
    assert moves == {0, 1, 2}


def load_news_of(files: dict[str, list[tuple[str, str, str]]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> News:
    """Write rows (category, headline, description) as files of the HuffPost set, and load "news"."""
    for name in ("news_v3_head10k", "news_v2_2017_2018_resplit", "huffpost41_headlines"):
        keys = "category", "headline", "short_description"
        lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in files.get(name, [])]
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as out:
            out.write("\n".join(lines))
    monkeypatch.setenv("HANDLOOM_DATA", str(folder.parent))
    return load_news("news", descriptions=True, categories=True)
