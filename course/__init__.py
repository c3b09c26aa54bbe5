"""The course `python -m handloom.course`: the learner builds a Transformer in sixteen chapters and checks each step.

course/README.md explains how to write a chapter.
"""
