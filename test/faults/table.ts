import { CLIENTS, type ClientName } from "./clients.js";
import { ENDPOINTS, REDIRECTS } from "./endpoints.js";
import { JUDGE_FAULTS, type JudgeFault } from "./judge-faults.js";
import { clientsOf, RETRIEVAL_FAULTS, type RetrievalFault } from "./retrieval-faults.js";

/** The tables of docs/faults.md, by their names there. */
export const TABLES = {
  retrieval: () =>
    markdownTable(
      ["fault", "seen by", "repeated", "the call", "the trajectory", "counted"],
      RETRIEVAL_FAULTS.map((row) => [
        row.together ?? row.fault,
        seenBy(clientsOf(row)),
        ...retrievalCells(row),
      ]),
    ),
  judge: () =>
    markdownTable(
      ["fault", "repeated", "the critique", "used up"],
      JUDGE_FAULTS.map((row) => [row.together ?? row.fault, ...judgeCells(row)]),
    ),
  credentials: () =>
    markdownTable(
      [
        "client",
        "variable",
        "sent as",
        `redirects (${REDIRECTS.join(", ")}) within the origin`,
        "to another",
      ],
      ENDPOINTS.map(({ name, variable, header, sent, follows = [] }) => [
        name,
        `\`${variable}\``,
        `\`${header}: ${sent("…").replace(/^(Basic) .*/, "$1 …")}\``,
        follows.length > 0 ? `${follows.join(" and ")} followed` : "not followed",
        "not followed",
      ]),
    ),
} satisfies Record<string, () => string>;

function seenBy(clients: readonly ClientName[]): string {
  const rest = CLIENTS.filter((name) => !clients.includes(name));
  if (rest.length === 0) return "all";
  return rest.length < clients.length ? `all but ${rest.join(", ")}` : clients.join(", ");
}

function retrievalCells({ fate, wait, says }: RetrievalFault): string[] {
  switch (fate) {
    case "repeated":
      return [
        `${wait?.words}`,
        failure(says),
        'waits; with `outage: "fail"` `search failed` if it lasts',
        "`retries`; `failures` if it lasts",
      ];
    case "later":
      return ["no", failure(says), 'waits; with `outage: "fail"` `search failed`', "`failures`"];
    case "final":
      return ["no", failure(says), "`search failed`", "`failures`"];
    case "halved":
      return [
        "at once, in halves",
        `the one: ${failure(says)}`,
        "the one: `search failed`",
        "`requests`, `failures`",
      ];
    case "passes":
      return ["no", says, "goes on", "–"];
  }
}

const failure = (says: string) => `\`RETRIEVAL_FAILED\`, "${shown(says)}"`;
/** Codes and figures of the one case that is tested stand for all of their row. */
const shown = (says: string) => says.replace(/^status \d+$/, "status …").replace(/\d+ s$/, "… s");

function judgeCells({ fate, wait, status, says, charge }: JudgeFault): string[] {
  const critique = status === "ok" ? `\`ok\`: ${says}` : `\`${status}\`, "${shown(says)}"`;
  const again = {
    repeated: `${wait?.words}`,
    final: "no",
    passes: "no",
    "asked once more": "asked once more",
    "not asked": "not asked",
  }[fate];
  return [again, critique, charge];
}

/** A table in Markdown; of equal rows that follow each other one is shown. */
function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const lines = rows.map(line).filter((row, i, all) => row !== all[i - 1]);
  return [line(head), line(head.map(() => "---")), ...lines].join("\n");
}

/** The table of that name in a document. */
export function tableIn(document: string, name: string): string {
  const [, rest = ""] = document.split(`<!-- table: ${name} -->\n`);
  return rest.split("\n<!-- end -->")[0] ?? "";
}
