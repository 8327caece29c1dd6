"""The console: the web page on the admin port, and what it is told live (ADR 43).

`web/` has its sources in TypeScript, `built/` what is made of them and served."""
