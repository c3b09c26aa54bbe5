"""What is only for speed: Adam's update in compiled loops, and on a device all of it on flat arrays.

Importing it registers both.
"""

from . import adam, flat_adam
