import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { crc32c, encodeRecord } from "../../../lib/runs/sinks/event-file.js";
import { TensorBoardSink } from "../../../lib/runs/sinks/tensorboard.js";
import { describeShared, sharedPath } from "../../support/shared.js";
import { readEvents } from "./event-reader.js";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "hindsearch-tensorboard-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test("CRC-32C has the published check value", () => {
  expect(crc32c(Buffer.from("123456789")).toString(16)).toBe("e3069283");
});

describeShared("a file that TensorBoard's own writer wrote", () => {
  test("is read, and written again byte for byte", async () => {
    const name = "events.out.tfevents.1622543341.host.1.0";
    const file = await readFile(sharedPath("data", "golden", "tensorboard", name));
    const { events, records } = readEvents(file);
    expect(events.length).toBe(101);
    expect(events[0]).toMatchObject({ fileVersion: "brain.Event:2" });
    expect(events[100]?.scalars).toEqual([{ tag: "strict/foo", value: expect.any(Number) }]);
    for (const [i, event] of events.entries()) expect(encodeRecord(event)).toEqual(records[i]);
  });
});

describe("the sink", () => {
  const run = { id: "id", name: "run", step: 0, config: {} };

  test("writes a file for each start, with a session's start and points by step", async () => {
    const sink = new TensorBoardSink();
    const place = join(folder, "run");
    await sink.start({ ...run, folder: place });
    const time = 1_700_000_000_123;
    await sink.write([
      { name: "rollout/reward", value: 0.1, step: 1, time },
      { name: "größe", value: -1e30, step: 1, time },
      { name: "rollout/reward", value: 0.5, step: 300, time: time + 1 },
    ]);
    await sink.write([{ name: "rollout/reward", value: 1, step: 2 ** 40, time }]);
    await sink.start({ ...run, folder: place, step: 7 });
    const names = (await readdir(join(place, "tensorboard"))).sort();
    expect(names.length).toBe(2);
    for (const name of names) expect(name).toMatch(/^events\.out\.tfevents\.\d{10}\.hindsearch\./);
    const read = async (name: string) => readEvents(await readFile(join(place, "tensorboard", name))).events;
    const [first, second] = await Promise.all(names.map(read));
    const wallTime = expect.any(Number);
    expect(first).toEqual([
      { wallTime, fileVersion: "brain.Event:2" },
      { wallTime, sessionStart: true },
      {
        wallTime: time / 1000,
        step: 1,
        scalars: [
          { tag: "rollout/reward", value: Math.fround(0.1) },
          { tag: "größe", value: Math.fround(-1e30) },
        ],
      },
      { wallTime: (time + 1) / 1000, step: 300, scalars: [{ tag: "rollout/reward", value: 0.5 }] },
      { wallTime: time / 1000, step: 2 ** 40, scalars: [{ tag: "rollout/reward", value: 1 }] },
    ]);
    expect(second).toEqual([
      { wallTime, fileVersion: "brain.Event:2" },
      { wallTime, step: 8, sessionStart: true },
    ]);
  });

  test("has a folder of its own if it is told one, and needs one without a run folder", async () => {
    const place = join(folder, "own");
    await new TensorBoardSink({ folder: place }).start({ ...run, folder: undefined });
    expect((await readdir(place)).length).toBe(1);
    await expect(new TensorBoardSink().start({ ...run, folder: undefined })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    expect(() => new TensorBoardSink({ dir: "x" } as never)).toThrow(/dir/);
  });
});
