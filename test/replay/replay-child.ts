/** One of several processes that record the same calls at once, each with answers of its own. */
import { ReplayCache } from "../../lib/replay/replay-cache.js";

const [folder = "", who = "", count = ""] = process.argv.slice(2);
const cache = new ReplayCache({ folder, mode: "replay-else-record" });
const keys = Array.from({ length: Number(count) }, (_, i) => ["call", i]);
const answers = await Promise.all(
  keys.map(async (key, i) => {
    const [found] = await cache.answers("test", [key], async () => [`${who} says ${i} ${"x".repeat(5000)}`]);
    return String(found?.answer).split(" x")[0];
  }),
);
process.stdout.write(JSON.stringify(answers));
