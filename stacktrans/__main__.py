"""The entry point of `stacktrans` and `python -m stacktrans`.

All imports are in a function that handles interrupts.
"""


def main() -> None:
    """Run the command line; exit with 130 if it is interrupted."""
    try:
        from stacktrans.common.messages import handle_interrupts

        handle_interrupts()
        from stacktrans import cli

        cli.main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
