"""The chapters of the course, each with its text, its solution, its exercises and its pictures."""
