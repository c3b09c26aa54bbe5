"""The explorer: a model's attention, searches, graph, gradients, tokens and training, live in a browser.

`python -m handloom.explorer [RUN]` serves one page on this machine. `server` answers the requests of the page, `guard`
decides which are allowed, and `subject` is the explored model; each other module computes the content and layout of one
view, and `static/` holds the page.
"""
