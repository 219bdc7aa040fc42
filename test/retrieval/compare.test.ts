import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { findPostgres } from "../../examples/engines/postgres-server.js";
import { describeShared, sharedPath } from "../support/shared.js";

describeShared("examples/compare-retrieval.ts on the real corpus", () => {
  test.skipIf(findPostgres() === undefined)(
    "50 multi-hop questions through three engines (needs PostgreSQL: apt-get install postgresql)",
    async () => {
      const sets = ["hotpotqa", "2wikimultihopqa", "musique"];
      const questions = sets.map((set) => sharedPath("data", "qa", set, "dev_with_passages.jsonl")).join();
      const corpus = sharedPath("data", "corpus", "multihop.jsonl.gz");
      const args = [
        "--import",
        "tsx",
        "examples/compare-retrieval.ts",
        "--corpus",
        corpus,
        "--questions",
        questions,
      ];
      const { stdout } = await promisify(execFile)(process.execPath, args, {
        cwd: resolve(import.meta.dirname, "../.."),
      });
      const rows = stdout.matchAll(
        /^(embedded index|Search-R1 server|PostgreSQL) +(\d\.\d{3}) +(\d\.\d\d) /gm,
      );
      const [embedded, served, postgres] = [...rows].map(([, , recall, complete]) => [
        Number(recall),
        Number(complete),
      ]);
      expect(embedded?.[0]).toBeGreaterThan(0.6);
      expect(served).toEqual(embedded);
      expect(postgres?.[0]).toBeGreaterThan(0.5);
    },
    180_000,
  );
});
