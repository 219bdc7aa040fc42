import { basename, resolve } from "node:path";
import type { Command } from "commander";
import { defined } from "../../config/defined.js";
import { Held } from "../../config/held.js";
import { openPolicy } from "../../config/open-policy.js";
import { openRetriever } from "../../config/open-training.js";
import { protocolOf } from "../../config/protocol.js";
import { servePolicy } from "../../serving/server.js";
import { type CommandContext, onRun, withModel } from "../context.js";
import { port } from "../options.js";
import type { OutputStreams } from "../output.js";
import { readTarget, type TargetOptions } from "../run-folder.js";

interface ServeCommandOptions extends TargetOptions {
  name?: string;
  host: string;
  port: number;
  agent: boolean;
}

/** `hindsearch serve`. */
export function serveCommand(program: Command, streams: OutputStreams): void {
  const command = withModel(program.command("serve"))
    .description("serve a model over the HTTP interface of OpenAI's clients")
    .argument("<run>", "a run folder, whose latest checkpoint is served; or a configuration")
    .option("--checkpoint <steps>", "the checkpoint after so many steps, latest, best, or initial")
    .option("--model <folder>", "a model folder instead")
    .option("--name <name>", "what clients call the model; default: the name of the run or file")
    .option(
      "--host <address>",
      "where to listen; others than this machine need HINDSEARCH_SERVER_TOKEN",
      "127.0.0.1",
    )
    .option("--port <number>", "0 takes a free one", port, 8080)
    .option("--no-agent", "without the search agent, and so without opening the retriever");
  onRun(command, streams, serve);
}

async function serve(context: CommandContext, options: ServeCommandOptions, path: string): Promise<void> {
  const { output, interrupt } = context;
  const { configuration, model } = await readTarget(context, path, options);
  const { training, protocol } = configuration.values;
  const signal = interrupt.stop;
  const held = new Held();
  try {
    const opened = options.agent ? held.add(await openRetriever(configuration, { signal })) : undefined;
    const policy = held.add(await openPolicy(configuration, { folder: model, signal }));
    const { name = basename(resolve(path)).replace(/\.ya?ml$/, ""), host, port } = options;
    const agent = opened && { retriever: opened.retriever, protocol: protocolOf(protocol) };
    const server = held.add(
      await servePolicy(policy, {
        name,
        host,
        port,
        agent,
        decoder: defined(training.decoder),
        onError: (error) => output.warn(error instanceof Error ? error.message : String(error)),
      }),
    );
    const names = agent ? `${name} and ${name}-search` : name;
    output.line(`${names} at ${server.url}/v1; Ctrl-C ends.`);
    output.event("serving", { url: `${server.url}/v1`, models: agent ? [name, `${name}-search`] : [name] });
    await new Promise<void>((done) => {
      if (signal.aborted) done();
      signal.addEventListener("abort", () => done(), { once: true });
    });
  } finally {
    await held.release();
  }
}
