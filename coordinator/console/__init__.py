"""The console: the web page on the admin port, and what it is told live (docs/console.md).

`web/` has its sources in TypeScript, `built/` what is made of them and served."""
