"""Jobs as other schedulers write them. Each module reads one form and is pure: text in, a `Reading` out."""
