"""`python -m promptmill.workers.cli`: how a job starts on a cluster."""

from promptmill.workers.cli.app import main

if __name__ == "__main__":
    main()
