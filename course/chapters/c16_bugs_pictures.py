"""Chapter 16, the picture: the mistakes that each tool finds."""

from typing import Any

import numpy as np

from ..drawing import heat, new_figure
from .c16_bugs import models, tokens
from .c16_bugs_solution import mixes_the_batch, new_weights, sees_the_future, unused


def draw_tools() -> Any:
    w, ids = new_weights(), tokens()
    tools = {"future": sees_the_future, "batch": mixes_the_batch, "unused": unused}
    found = [[float(bool(tool(model, w, ids))) for tool in tools.values()] for model in models().values()]
    figure, axes = new_figure(3.0)
    heat(axes, np.array(found), rows=list(models()), columns=list(tools), numbers="{:.0f}", top=2)
    return figure
