"""`python -m groupd.pipeline`, and what `spark-submit` takes."""

from groupd.pipeline.cli import main

if __name__ == "__main__":
    main()
