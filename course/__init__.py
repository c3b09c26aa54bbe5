"""The course: a Transformer built in sixteen chapters, every step checked: `python -m handloom.course`.

course/README.md explains how to write a chapter.
"""
