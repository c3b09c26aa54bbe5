"""Quick implementations of Adam: compiled loops on a CPU, flat arrays on a device.

Importing it registers both.
"""

from . import adam, flat_adam
