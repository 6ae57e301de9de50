"""`python -m slowstep`, where the command is not on the path."""

from slowstep.cli.main import main

if __name__ == "__main__":
    main()
