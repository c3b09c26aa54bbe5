"""Quick implementations of the updates: blocks and compiled loops on a CPU, flat arrays on a device.

Importing it registers them.
"""

from . import adam, blocks, flat_adam
