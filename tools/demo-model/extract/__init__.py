"""Parts of extract.py: reading packages, cleaning, filtering and splitting."""
