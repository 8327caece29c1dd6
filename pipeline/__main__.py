"""`python -m pipeline`, and what `spark-submit` takes."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
