"""The explorer, which shows a model's attention, searches, graph, gradients, tokens and training in a browser.

`python -m handloom.explorer [RUN]` starts a web server for one page on this machine. `server` answers the page's
requests, and `subject` contains the explored model. Each view has a module that computes its content and layout, and
`static/` contains the page.
"""
