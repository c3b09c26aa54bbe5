"""The course: a Transformer built in fourteen chapters, every step checked: `python -m handloom.course`.

How a chapter is written stands in course/README.md.
"""
