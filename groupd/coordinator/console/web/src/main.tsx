import { render } from "preact";
import { App } from "./app.tsx";
import { startRouter } from "./router.ts";
import { startTheme } from "./theme.ts";

startTheme();
startRouter();
const root = document.getElementById("console");
if (root !== null) {
  root.replaceChildren();
  render(<App />, root);
}
