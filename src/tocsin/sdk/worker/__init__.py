"""The worker that runs an app's tasks over the worker protocol."""
