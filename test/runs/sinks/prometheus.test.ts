import { afterEach, expect, test } from "vitest";
import { PrometheusSink } from "../../../lib/runs/sinks/prometheus.js";

const run = { id: "id", folder: undefined, step: 0, config: {} };
let sink: PrometheusSink;
afterEach(() => sink.end());

const scrape = async () => {
  const response = await fetch(sink.url ?? "");
  return { type: response.headers.get("content-type"), text: await response.text() };
};

test("the latest values in the text format, names and labels made safe", async () => {
  sink = new PrometheusSink({ port: 0 });
  await sink.start({ ...run, name: 'a "b" \\ c\nd' });
  expect(sink.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
  expect((await scrape()).text).toBe("");
  await sink.write([
    { name: "rollout/reward", value: 0.25, step: 1, time: 0 },
    { name: "rollout/statuses/no answer", value: 3, step: 1, time: 0 },
  ]);
  await sink.write([{ name: "rollout/reward", value: 1e-12, step: 2, time: 0 }]);
  const label = '{run="a \\"b\\" \\\\ c\\nd"}';
  expect(await scrape()).toEqual({
    type: "text/plain; version=0.0.4; charset=utf-8",
    text: [
      "# TYPE hindsearch_rollout_reward gauge",
      `hindsearch_rollout_reward${label} 1e-12`,
      "# TYPE hindsearch_step gauge",
      `hindsearch_step${label} 2`,
      "# TYPE hindsearch_rollout_statuses_no_answer gauge",
      `hindsearch_rollout_statuses_no_answer${label} 3`,
      "",
    ].join("\n"),
  });
});

test("nothing but a GET of /metrics, and nothing after the end", async () => {
  sink = new PrometheusSink({ port: 0 });
  expect(sink.url).toBeUndefined();
  await sink.start({ ...run, name: "n" });
  const url = sink.url ?? "";
  expect((await fetch(url.replace("metrics", ""))).status).toBe(404);
  expect((await fetch(url, { method: "POST", body: "x" })).status).toBe(404);
  const other = new PrometheusSink({ port: Number(new URL(url).port) });
  await expect(other.start({ ...run, name: "n" })).rejects.toMatchObject({ code: "IO" });
  await sink.end();
  await expect(fetch(url)).rejects.toThrow();
  expect(sink.url).toBeUndefined();
});
