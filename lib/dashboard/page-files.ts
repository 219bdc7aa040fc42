import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HindsearchError } from "../errors.js";

/** The page as the build makes it; the same place seen from `lib` and from `dist`. */
const FOLDER = fileURLToPath(new URL("../../dist/dashboard/page/", import.meta.url));

/** The files of the page. */
export interface PageFiles {
  html: string;
  script: string;
  style: string;
}

/**
 * Reads the files of the page.
 *
 * @param folder - Where they are; by default where the build puts them.
 * @throws {@link HindsearchError} `IO` if they are not there.
 */
export async function readPageFiles(folder = FOLDER): Promise<PageFiles> {
  try {
    const [html, script, style] = await Promise.all(
      ["index.html", "page.js", "page.css"].map((name) => readFile(join(folder, name), "utf8")),
    );
    return { html: html as string, script: script as string, style: style as string };
  } catch (cause) {
    throw new HindsearchError(
      "IO",
      `The dashboard's page is not in ${folder}: ${(cause as Error).message}. In a checkout run "npm run build:ts"; ` +
        "otherwise install the package again.",
      { cause },
    );
  }
}
