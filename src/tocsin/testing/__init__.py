"""Tools for the tests of programs that use Tocsin: a fleet on virtual time, and eager tasks without one."""
