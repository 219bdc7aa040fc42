import { HINT_LABEL, type SearchProtocol, type SearchProtocolOptions, searchR1 } from "../agent/protocol.js";
import { defined } from "./defined.js";
import type { ProtocolConfig } from "./schema/protocol.js";

/**
 * The protocol of a configuration.
 *
 * @throws {@link HindsearchError} `INVALID_ARGUMENT` for tags that are equal.
 */
export function protocolOf(config: ProtocolConfig): SearchProtocol {
  const { prompt, hintLabel, ...rest } = config;
  const options: SearchProtocolOptions = defined(rest);
  if (hintLabel !== undefined) options.hintLabel = hintLabel;
  if (prompt !== undefined) options.prompt = promptOf(prompt, hintLabel ?? HINT_LABEL);
  return searchR1(options);
}

function promptOf(template: string, label: string): SearchProtocol["prompt"] {
  const [before = "", after = ""] = template.split("{question}");
  return (question, hint) => [
    ...(hint === undefined
      ? []
      : [
          { text: label, trusted: true },
          { text: hint, trusted: false },
          { text: "\n\n", trusted: true },
        ]),
    { text: before, trusted: true },
    { text: question.trim(), trusted: false },
    { text: after, trusted: true },
  ];
}
