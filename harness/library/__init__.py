"""The Arduino library under test: from a checkout, a folder, a zip, or the executorch wheel."""
