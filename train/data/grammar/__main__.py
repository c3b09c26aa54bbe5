"""Write sentence pairs of the grammar to a file: python -m handloom.train.data.grammar FILE

Each line is a German sentence, a tab and its translation. In each of the last four lines, words are combined that occur
only apart in the lines before.
"""

import sys
from pathlib import Path

from ....arguments import Parser, positive, print_error
from ....errors import InputError
from ....files import write_text
from .corpus import build_corpus


def main() -> None:
    parser = Parser(prog="python -m handloom.train.data.grammar", description=__doc__)
    parser.add_argument("file", metavar="FILE", type=Path, help="the file to write, which must not exist")
    parser.add_argument("--pairs", type=positive, default=20_000, help="number of pairs before them (default: 20000)")
    options = parser.parse_args()
    try:
        if options.file.exists():
            raise InputError(f"{options.file} exists: choose another name, or remove it.")
        corpus = build_corpus(train_size=options.pairs, valid_size=0, test_size=4)
        write_text(options.file, "".join(f"{german}\t{english}\n" for german, english in [*corpus.train, *corpus.test]))
    except InputError as error:
        print_error(error)
        sys.exit(2)


if __name__ == "__main__":
    main()
