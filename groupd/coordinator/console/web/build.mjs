// Makes ../built/: console.js, console.css, index.html for the admin port, and LICENSES.txt with the licences of the code of others
// in them; report.js and report.css, which `groupd-pipeline report` puts into its page.
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

const SCRIPTS = {
  bundle: true,
  minify: true,
  metafile: true,
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
};

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const texts = await licences();
const made = await Promise.all([
  build({ ...SCRIPTS, entryPoints: { console: join(here, "src/main.tsx") }, outdir: out, format: "esm" }),
  build({
    ...SCRIPTS,
    entryPoints: { report: join(here, "src/report/main.ts") },
    outdir: out,
    format: "iife",
    // A report is given away as one file, so the licences are in it.
    banner: { js: `/*\n${texts}*/` },
  }),
]);
await build({
  entryPoints: { console: join(here, "src/styles/console.css"), report: join(here, "src/styles/report.css") },
  outdir: out,
  bundle: true,
  minify: true,
  target: ["chrome110", "firefox115", "safari16"],
  logLevel: "warning",
});
// Every package whose code is in a bundle has its licence in the list.
const inputs = made.flatMap(({ metafile }) => Object.keys(metafile.inputs));
const packages = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
const missing = [...new Set(packages)].filter((name) => name !== undefined && !BUNDLED.includes(name));
if (missing.length > 0) throw new Error(`no licence is listed for ${missing.join(", ")}`);
await writeFile(join(out, "LICENSES.txt"), texts);
await copyFile(join(here, "src/index.html"), join(out, "index.html"));
