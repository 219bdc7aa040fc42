import { expect, test } from "vitest";
import { builtPackage } from "../support/built-package.js";
import { smallConfigs } from "../support/small-policy.js";

const built = builtPackage();

const script = (rounds: number, body: string) => `
  import { Policy } from "hindsearch";
  const config = ${JSON.stringify({ ...smallConfigs.qwen2, hidden_size: 128, intermediate_size: 256, vocab_size: 2000 })};
  const tokens = Array.from({ length: 40 }, (_, index) => (index * 37) % 2000);
  const weights = tokens.map((_, index) => Math.sign(index));
  const resident = () => process.memoryUsage().rss / 2 ** 20;
  const warm = ${rounds / 5};
  let early = 0;
  for (let round = 0; round < ${rounds}; round++) {
    if (round === warm) early = resident();
    ${body}
  }
  console.log(JSON.stringify({ early, late: resident() }));
`;

/** Everything a trainer holds: about 17 MiB of weights, gradients, moments and cache. */
const trainer = `
  const policy = await Policy.initialize({ config, compute: "f32" });
  const reference = await policy.snapshot();
  const decoder = await policy.createDecoder({ cacheTokens: 4096 });
  decoder.submit(tokens, { maxNewTokens: 4, endTokens: [] });
  await decoder.next();
  await policy.forwardBackward([{ tokens, weights }], { crossEntropy: {} });
  await policy.step({ learningRate: 1e-3 });
`;

test("a hundred trainers, disposed of: memory returns to where it was", async () => {
  const result = await built.run(
    script(100, `${trainer} decoder.dispose(); reference.dispose(); policy.dispose();`),
  );
  expect(result).toMatchObject({ code: 0, stderr: "" });
  const { early, late } = JSON.parse(result.stdout);
  expect(late - early).toBeLessThan(60);
});

test("a hundred trainers, forgotten: the garbage collector keeps up", async () => {
  const result = await built.run(script(100, `${trainer} await new Promise((done) => setImmediate(done));`));
  expect(result).toMatchObject({ code: 0, stderr: "" });
  // All of them together would be 1.7 GiB.
  expect(JSON.parse(result.stdout).late).toBeLessThan(700);
});
