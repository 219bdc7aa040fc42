import type { AbortOptions } from "../abort.js";
import type { SearchProtocol } from "../agent/protocol.js";
import { ChatJudge } from "../judge/chat.js";
import { JudgeEnsemble } from "../judge/ensemble.js";
import type { Judge } from "../judge/judge.js";
import { PolicyJudge } from "../judge/policy-judge.js";
import { Policy } from "../policy/policy.js";
import { defined } from "./defined.js";
import { modelOptions } from "./open-policy.js";
import { protocolOf } from "./protocol.js";
import type { ReadConfiguration } from "./read.js";
import type { JudgeConfig, SingleJudgeConfig } from "./schema/judge.js";

/** A judge of a configuration, with the models that it holds. */
export class OpenJudge implements Disposable {
  private constructor(
    /** Writes critiques; `undefined` if there is none. */
    readonly judge: Judge | undefined,
    private readonly policies: readonly Policy[],
  ) {}

  /**
   * Opens the judge. A judge behind a service is not asked yet.
   *
   * @param policy - The initial policy: its tokenizer counts critiques, and it is the judge where no other model is named.
   * @throws {@link HindsearchError} What `Policy.load` throws; `INVALID_ARGUMENT`, `CHAT_TEMPLATE`.
   */
  static async open(
    configuration: ReadConfiguration,
    policy: Policy,
    { signal }: AbortOptions = {},
  ): Promise<OpenJudge> {
    configuration.requireVariables("judge");
    const { judge, protocol } = configuration.values;
    const opener = new Opener(configuration, policy, protocolOf(protocol), signal);
    try {
      return new OpenJudge(await opener.open(judge), opener.policies);
    } catch (error) {
      for (const held of opener.policies) held.dispose();
      throw error;
    }
  }

  /** Frees the models. */
  [Symbol.dispose](): void {
    for (const policy of this.policies) policy.dispose();
  }
}

class Opener {
  readonly policies: Policy[] = [];

  constructor(
    private readonly configuration: ReadConfiguration,
    private readonly policy: Policy,
    private readonly protocol: SearchProtocol,
    private readonly signal: AbortSignal | undefined,
  ) {}

  async open(config: JudgeConfig): Promise<Judge | undefined> {
    if (config.kind === "none") return undefined;
    if (config.kind !== "ensemble") return this.#single(config);
    const judges: Judge[] = [];
    for (const one of config.judges) judges.push(await this.#single(one));
    return new JudgeEnsemble(judges);
  }

  async #single(config: SingleJudgeConfig): Promise<Judge> {
    const common = { tokenizer: this.policy.tokenizer, tags: this.#tags() };
    if (config.kind === "chat") {
      const { kind: _, ...options } = config;
      return new ChatJudge({ ...common, ...defined(options) });
    }
    const { kind: _, folder, ...options } = config;
    const policy = await this.#model(folder);
    return new PolicyJudge({ ...common, name: folder ?? "initial policy", ...defined(options), policy });
  }

  async #model(folder: string | undefined): Promise<Policy> {
    const { configuration, signal } = this;
    if (folder === undefined) return this.#keep(await this.policy.snapshot());
    using loaded = await Policy.load(configuration.resolve(folder), {
      ...modelOptions(configuration),
      signal,
    });
    return this.#keep(await loaded.snapshot());
  }

  #keep(policy: Policy): Policy {
    this.policies.push(policy);
    return policy;
  }

  /** Bare names of the protocol's tags, `think` among them. */
  #tags(): string[] {
    const { tags } = this.protocol;
    const names = Object.values(tags).map(({ open }) => open.replaceAll(/^<|>$/g, ""));
    return ["think", ...names];
  }
}
