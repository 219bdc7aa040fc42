/** Which other programs are there to be measured beside ours. */
import { execFile } from "node:child_process";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { program } from "../native.js";

/** What was found; every peer is optional. */
export interface Peers {
  /** Whether `onednn_bench` was built. */
  oneDnn?: true;
  /** A Python that has torch. */
  torch?: string;
  /** Another PyTorch program of the training step. */
  torchScript?: string;
  /** Folder of llama-bench and llama-batched-bench. */
  llama?: string;
  /** Folder in which node-llama-cpp is installed. */
  nodeLlama?: string;
}

/** Where to look. */
export interface PeerPaths {
  python: string;
  torchScript: string | undefined;
  llama: string | undefined;
  nodeLlama: string | undefined;
}

/** Finds the peers. A path that was given and holds nothing is an error; what was not given may be missing. */
export async function findPeers(paths: PeerPaths): Promise<Peers> {
  const { python, torchScript, llama, nodeLlama } = paths;
  for (const path of [
    ...(torchScript === undefined ? [] : [torchScript]),
    ...(llama === undefined ? [] : [join(llama, "llama-bench"), join(llama, "llama-batched-bench")]),
    ...(nodeLlama === undefined ? [] : [join(nodeLlama, "node_modules/node-llama-cpp/package.json")]),
  ]) {
    await access(path).catch(() => {
      throw new Error(`${path} is not there.`);
    });
  }
  const hasTorch = await promisify(execFile)(python, ["-c", "import torch"]).then(
    () => true,
    () => false,
  );
  return {
    ...(program("onednn_bench") && { oneDnn: true as const }),
    ...(hasTorch && { torch: python }),
    ...(hasTorch && torchScript !== undefined && { torchScript }),
    ...(llama !== undefined && { llama }),
    ...(nodeLlama !== undefined && { nodeLlama }),
  };
}
