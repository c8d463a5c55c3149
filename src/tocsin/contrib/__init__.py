"""Tocsin in other frameworks. Nothing here is imported unless the framework is there."""
