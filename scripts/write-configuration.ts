/** Writes what is made from the schema of configurations: docs/configuration.md and config.schema.json. */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { configurationJsonSchema } from "../lib/config/documentation.js";
import { configurationMarkdown } from "../lib/config/markdown.js";

const root = resolve(import.meta.dirname, "..");
writeFileSync(resolve(root, "docs/configuration.md"), configurationMarkdown());
writeFileSync(resolve(root, "config.schema.json"), `${JSON.stringify(configurationJsonSchema(), null, 2)}\n`);
