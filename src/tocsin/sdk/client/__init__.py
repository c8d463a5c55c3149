"""The client in two faces over one pure core."""
