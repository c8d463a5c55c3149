"""``python -m tocsin``."""

from tocsin.cli.main import main

main()
