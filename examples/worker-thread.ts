/**
 * Training in a worker thread, beside a program that goes on with its own work. The engine's threads do the computing
 * either way and no call blocks the event loop; a worker also takes tokenizing, masks and logging off the main thread.
 *
 *     npx tsx examples/worker-thread.ts
 */
import { once } from "node:events";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { HindSearchTrainer } from "hindsearch";

if (isMainThread) {
  // In compiled JavaScript: new Worker(new URL(import.meta.url)). On Node 20 a worker does not inherit tsx.
  const start = `import("${import.meta.resolve("tsx/esm/api")}").then(({ register }) => (register(), import("${import.meta.url}")))`;
  const worker = new Worker(start, { eval: true });
  worker.on("message", ({ step, reward }) => console.log(`step ${step}: reward ${reward.toFixed(2)}`));
  let turns = 0;
  const timer = setInterval(() => turns++, 10);
  const [code] = await once(worker, "exit");
  clearInterval(timer);
  console.log(`The worker ended with ${code}; meanwhile the main thread had ${turns} turns of its own.`);
} else {
  // Its own copy of everything: policies, decoders and trainers are not passed between threads, files and messages are.
  const world = await import("./own-loop/tiny-world.js");
  using policy = await world.warmPolicy();
  const trainer = new HindSearchTrainer({
    policy,
    retriever: world.TINY_RETRIEVER,
    judge: world.TINY_JUDGE,
    questions: world.TINY_QUESTIONS,
    protocol: world.TINY_PROTOCOL,
    steps: 5,
    questionsPerStep: 8,
    groupSize: 4,
    learningRate: { kind: "constant", learningRate: 2e-3 },
    decoder: { cacheTokens: 8192 },
  });
  for await (const { step, metrics } of trainer) {
    parentPort?.postMessage({ step, reward: metrics.rollout.reward });
  }
}
