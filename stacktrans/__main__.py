"""`python -m stacktrans`."""

from stacktrans.cli import main

main()
