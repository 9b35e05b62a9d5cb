class Refused(Exception):
    """Why weft does not take an operation, which therefore stays with torch."""
