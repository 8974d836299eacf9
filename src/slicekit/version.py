"""The version, for those who may not import the whole package."""

__version__ = "0.1.0"
