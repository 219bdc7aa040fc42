import { configurationSections, type KeyRow } from "./documentation.js";

const INTRODUCTION = `# Configuration

<!-- Made by \`npm run docs:configuration\` from the schema in lib/config/schema. A test checks that it is current. -->

\`hindsearch train\` and most other commands read a YAML file. \`hindsearch init\` writes one with comments;
[command-line.md](command-line.md) has a small one. This page lists all keys; \`hindsearch config training\` prints a part of it, and
\`config.schema.json\` in the package is the same as a JSON Schema: editors complete and check by it if the first line of the file is
\`# yaml-language-server: $schema=node_modules/hindsearch/config.schema.json\`.

- A key that is not listed here, a value of another type and one out of range are refused, with line, key, what was found and what was expected.
- Relative paths count from the folder of the file, or from \`base\`.
- \`--set training.steps=100\` on the command line sets one value; the value is read as YAML.
- \`\${NAME}\` in a text stands for an environment variable, \`$\${\` for itself. What a variable holds is never written to the run folder: the
  record of the configuration there (\`training.yaml\`) has the reference. Keys that look secret and are written out are left out there.
`;

/** docs/configuration.md. */
export function configurationMarkdown(): string {
  const sections = configurationSections().map(({ title, text, rows }) => {
    const heading = title === "" ? "## The file" : `## ${title}`;
    return [heading, text, rows.length > 0 ? table(rows) : ""].filter((part) => part !== "").join("\n\n");
  });
  return `${[INTRODUCTION.trimEnd(), ...sections].join("\n\n")}\n`;
}

function table(rows: readonly KeyRow[]): string {
  const lines = rows.map(({ key, expected, text, ...row }) => {
    const preset = row.required
      ? "**required**"
      : row.default === undefined
        ? ""
        : `\`${JSON.stringify(row.default)}\``;
    return `| \`${key}\` | ${cell(expected)} | ${preset} | ${cell(text)} |`;
  });
  return ["| key | value | default | what |", "|---|---|---|---|", ...lines].join("\n");
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "\\<");
}
