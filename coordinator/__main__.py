"""`python -m coordinator` is the `groupd` command."""

from coordinator.cli.main import main

if __name__ == "__main__":
    main()
