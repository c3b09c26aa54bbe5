"""Redraw the pictures of the chapters: python -m handloom.course.draw [CHAPTER ...]"""

import argparse

from .chapter import IMAGES, chapters
from .drawing import save


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m handloom.course.draw", description=__doc__)
    parser.add_argument("chapter", type=int, nargs="*", help="1, 2, ... (default: all)")
    wanted = parser.parse_args().chapter
    for chapter in chapters():
        if not wanted or chapter.number in wanted:
            for name, draw in chapter.drawings.items():
                save(draw(), IMAGES / name)
                print(IMAGES / name)


if __name__ == "__main__":
    main()
