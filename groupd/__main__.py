"""`python -m groupd` is the `groupd` command."""

from groupd.coordinator.cli.main import main

if __name__ == "__main__":
    main()
