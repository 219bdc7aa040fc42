import { createRequire } from "node:module";
import { availableParallelism, cpus, release, totalmem } from "node:os";
import { HindsearchError } from "../errors.js";
import type { DeviceInfo, DeviceName } from "../native/addon.js";
import { addonPath } from "../native/load.js";
import type { ComputeType } from "../native/model.js";
import { logProbTolerance } from "../policy/device.js";
import { engine } from "../policy/engine.js";
import { availableMemory } from "../policy/memory/available.js";
import { formatBytes } from "../policy/memory/report.js";
import type { Check, Finding } from "./check.js";
import { selfTest } from "./self-test.js";

const require = createRequire(import.meta.url);

/** Packages that not every user needs, and what for. */
const OPTIONAL: Readonly<Record<string, string>> = {
  "@lancedb/lancedb": "index",
  "apache-arrow": "index",
  hyparquet: "Parquet",
  "llm-splitter": "folders of text",
  pg: "PostgreSQL",
  "@elastic/elasticsearch": "Elasticsearch",
  "@opensearch-project/opensearch": "OpenSearch",
  "@qdrant/js-client-rest": "Qdrant",
  "@modelcontextprotocol/sdk": "MCP",
};

/** What can be said about the machine and the package without a configuration. */
export function machineChecks(): Check[] {
  return [
    { name: "versions", run: versions },
    {
      name: "processor",
      run: () => `${cpus()[0]?.model ?? "unknown"}, ${availableParallelism()} threads for this process`,
    },
    {
      name: "memory",
      run: () => `${formatBytes(availableMemory())} available of ${formatBytes(totalmem())}`,
    },
    { name: "engine", run: () => `${engine.instructionSet}, ${engine.threads} threads, ${addonPath("cpu")}` },
    { name: "numerics f32", run: () => numerics("f32", "cpu") },
    { name: "numerics bf16", run: () => numerics("bf16", "cpu") },
    { name: "engine of the GPU", run: () => onGpu(describeGpu) },
    { name: "numerics f32 on the GPU", run: () => onGpu(() => numerics("f32", "cuda")) },
    { name: "numerics bf16 on the GPU", run: () => onGpu(() => numerics("bf16", "cuda")) },
    { name: "optional packages", run: optionalPackages },
  ];
}

function versions(): string {
  const { version } = require("../../package.json") as { version: string };
  return `hindsearch ${version}, Node ${process.version}, ${process.platform}-${process.arch} ${release()}, ${cLibrary()}`;
}

function cLibrary(): string {
  if (process.platform !== "linux") return "no C library asked";
  const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime === undefined
    ? "musl or another C library"
    : `glibc ${header.glibcVersionRuntime}`;
}

/** A machine without a GPU lacks nothing. */
async function onGpu(run: (info: DeviceInfo) => Promise<Finding> | Finding): Promise<Finding> {
  let info: DeviceInfo;
  try {
    info = await engine.device("cuda");
  } catch (error) {
    if (error instanceof HindsearchError && error.code === "DEVICE_UNAVAILABLE") {
      return { status: "skipped", detail: error.message };
    }
    throw error;
  }
  if (info.available) return run(info);
  return { status: "skipped", detail: info.reason ?? "the GPU cannot be used" };
}

function describeGpu({ description, totalBytes, freeBytes }: DeviceInfo): string {
  return `${description}; ${formatBytes(freeBytes)} free of ${formatBytes(totalBytes)}, ${addonPath("cuda")}`;
}

async function numerics(compute: ComputeType, device: DeviceName): Promise<string> {
  const { logProb, gradient } = await selfTest(compute, device);
  const tolerance = logProbTolerance({ compute, device });
  return (
    `log-probs within ${logProb.toExponential(1)} nats of float64, gradients within ${gradient.toExponential(1)} of their ` +
    `largest; decoded and scored ${tolerance === 0 ? "bits are equal" : `log-probs are within ${tolerance} nats`}`
  );
}

function optionalPackages(): string {
  return Object.entries(OPTIONAL)
    .map(([name, purpose]) => `${name} ${isInstalled(name) ? "yes" : "no"} (${purpose})`)
    .join(", ");
}

/** By its entry, which some packages have none of for `require`; else by its package.json, which some hide. */
function isInstalled(name: string): boolean {
  try {
    require.resolve(name);
    return true;
  } catch (error) {
    if ((error as { code?: unknown }).code === "ERR_PACKAGE_PATH_NOT_EXPORTED") return true;
  }
  return (require.resolve.paths(name) ?? []).some((folder) => {
    try {
      require.resolve(`${folder}/${name}/package.json`);
      return true;
    } catch {
      return false;
    }
  });
}
