import { expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";

const built = builtPackage();

const worker = `
  import { Worker } from "node:worker_threads";
  import { once } from "node:events";
  const inWorker = (body) => new Worker(
    \`import("./dist/native/load.js").then(({ loadAddon }) => { const addon = loadAddon(); \${body} });\`,
    { eval: true });
  const mapped = () => process.report.getReport().sharedObjects.some((name) => name.endsWith("hindsearch.node"));
`;

test("a worker that alone loaded the addon may end: the code stays mapped", async () => {
  // Node unloads an addon with the last thread that used it, which would pull the code from under our own threads.
  const result = await built.run(`${worker}
    const before = mapped();
    await once(inWorker(""), "exit");
    console.log(JSON.stringify({ before, after: mapped() }));
  `);
  expect(result).toMatchObject({ code: 0, signal: null, stderr: "" });
  expect(JSON.parse(result.stdout)).toEqual({ before: false, after: true });
});

test("several workers load it at once and again after they ended", async () => {
  const result = await built.run(`${worker}
    const exits = [];
    for (let round = 0; round < 3; round++) {
      const group = Array.from({ length: 4 }, () => once(inWorker("addon.version"), "exit"));
      exits.push(...(await Promise.all(group)).flat());
    }
    console.log(exits.join(""));
  `);
  expect(result).toMatchObject({ code: 0, signal: null, stdout: "000000000000\n", stderr: "" });
});
