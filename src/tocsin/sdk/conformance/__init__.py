"""Does a worker in some language keep to the worker protocol? A gateway in memory that can misbehave, the
program under test, and scenarios that judge it by what it sends."""
