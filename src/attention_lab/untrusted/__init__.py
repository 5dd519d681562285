"""Files from others: read as plain values, and checked before anything in them is used."""
