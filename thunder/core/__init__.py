"""Names that printed traces import."""
