"""What a browser shows of a model: its attention, searches, graph, gradients, tokens and training, live.

`python -m handloom.explorer [RUN]` serves one page on this machine. `server` answers its requests, `guard` decides who
may ask, `subject` is the model that is looked at; the other modules compute what one view shows, layouts included, and
`static/` holds the page.
"""
