"""The console: the web page on the admin port, and the events that keep it up to date (ADR 43).
`web/` has its sources in TypeScript; `built/` has the files that are built from them and served."""
