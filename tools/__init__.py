"""Commands for those who work on the library itself; nothing here is installed with it."""
