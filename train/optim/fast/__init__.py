"""Quick implementations of the updates: by blocks and compiled loops on a CPU, and by flat arrays on a device.

Importing it registers them.
"""

from . import cpu, flat_adam
