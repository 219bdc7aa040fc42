/** Writes docs/licences.md. */
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { licencesMarkdown } from "./licences.js";

writeFileSync(resolve(import.meta.dirname, "../docs/licences.md"), licencesMarkdown());
