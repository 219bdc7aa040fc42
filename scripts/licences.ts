/** The licences of what `npm install hindsearch` brings, from the lock file: docs/licences.md. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

interface LockedPackage {
  license?: string;
  /** Of npm's marks: for development alone, or for a package that may be left out. */
  dev?: boolean;
  devOptional?: boolean;
  optional?: boolean;
  peer?: boolean;
}

/** Licences of what nobody can leave out: they ask for a notice and no more. */
export const PERMISSIVE = [
  "0BSD",
  "Apache-2.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "BlueOak-1.0.0",
  "ISC",
  "MIT",
  "(BSD-2-Clause OR MIT OR Apache-2.0)",
];

/** Names of packages by licence, both in order. */
export type Licences = ReadonlyMap<string, readonly string[]>;

/** What an install brings always, and what it brings unless optional packages are left out. */
export function shippedLicences(): { always: Licences; optional: Licences } {
  const lock = readFileSync(resolve(import.meta.dirname, "../package-lock.json"), "utf8");
  const packages = Object.entries((JSON.parse(lock) as { packages: Record<string, LockedPackage> }).packages);
  const shipped = packages.filter(
    ([path, { dev, devOptional, peer }]) => path && !dev && !devOptional && !peer,
  );
  return {
    always: byLicence(shipped.filter(([, { optional }]) => !optional)),
    optional: byLicence(shipped.filter(([, { optional }]) => optional)),
  };
}

function byLicence(packages: readonly [string, LockedPackage][]): Licences {
  const names = new Map<string, Set<string>>();
  for (const [path, { license = "said in the package" }] of packages) {
    const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
    names.set(license, (names.get(license) ?? new Set()).add(name));
  }
  return new Map(
    [...names].sort(([x], [y]) => (x < y ? -1 : 1)).map(([licence, of]) => [licence, [...of].sort()]),
  );
}

/** The page. */
export function licencesMarkdown(): string {
  const { always, optional } = shippedLicences();
  const table = (licences: Licences) =>
    ["| licence | packages |", "|---|---|"]
      .concat([...licences].map(([licence, names]) => `| ${licence} | ${names.join(", ")} |`))
      .join("\n");
  return `# Licences

hindsearch is under Apache-2.0. The package holds code of one other project: the dashboard's page draws with uPlot (MIT), whose licence is in the page
and beside it. What an install brings is listed here, from
\`package-lock.json\`, by \`npx tsx scripts/write-licences.ts\`; a test keeps it true.

## Always installed

${table(always)}

## Installed unless \`--omit=optional\`

The embedded index needs them. Those under the LGPL are a library for images, which one of these packages asks for and hindsearch never
loads.

${table(optional)}
`;
}
