"""Builds in a temporary folder: `pip install .` leaves no files in the checkout, and installs no old files from build/.

Everything else is in pyproject.toml.
"""

import atexit
import shutil
import tempfile

from setuptools import setup

base = tempfile.mkdtemp()
atexit.register(shutil.rmtree, base, ignore_errors=True)
# The package's folder is the root: this name keeps setuptools from installing the script as one of its modules.
setup(script_name="setup.py", options={"build": {"build_base": base}, "egg_info": {"egg_base": base}})
