"""``python -m tocsin``."""

from tocsin.command import main

main()
