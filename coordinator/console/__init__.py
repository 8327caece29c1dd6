"""The console, a web page on the admin port: its sources are in `web/`, what browsers get is made
into `built/` (see the Makefile and setup.py)."""
