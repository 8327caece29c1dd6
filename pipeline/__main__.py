"""`python -m pipeline`, and what `spark-submit` takes."""

from pipeline.cli import main

main()
