"""The chapters: of each the text, the solution that the learner's file is cut from, its exercises and its pictures."""
