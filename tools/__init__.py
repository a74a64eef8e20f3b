"""Tools for developers of the library. They are not installed with the package."""
