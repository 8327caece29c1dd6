// Makes ../built/: console.js, console.css, index.html, and LICENSES.txt with the licences of the code of others in them.
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "built");
const BUNDLED = ["preact", "uplot"];

async function licences() {
  const parts = [];
  for (const name of BUNDLED) {
    const root = join(here, "node_modules", name);
    const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf-8"));
    const text = await readFile(join(root, "LICENSE"), "utf-8");
    parts.push(`${name} ${version}\n\n${text.trim()}\n`);
  }
  return `The console contains code of others, under these licences.\n\n${parts.join(`\n${"-".repeat(72)}\n\n`)}`;
}

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const { metafile } = await build({
  entryPoints: { console: join(here, "src/main.tsx") },
  outdir: out,
  bundle: true,
  minify: true,
  metafile: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});
await build({
  entryPoints: { console: join(here, "src/styles/console.css") },
  outdir: out,
  bundle: true,
  minify: true,
  target: ["chrome110", "firefox115", "safari16"],
  logLevel: "warning",
});
// Every package whose code is in the bundle has its licence in the list.
const packages = Object.keys(metafile.inputs).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
const missing = [...new Set(packages)].filter((name) => name !== undefined && !BUNDLED.includes(name));
if (missing.length > 0) throw new Error(`no licence is listed for ${missing.join(", ")}`);
await writeFile(join(out, "LICENSES.txt"), await licences());
await copyFile(join(here, "src/index.html"), join(out, "index.html"));
