"""The entry point of `python -m groupd.pipeline` and of `spark-submit`."""

from groupd.pipeline.cli import main

if __name__ == "__main__":
    main()
