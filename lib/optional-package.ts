import { HindsearchError } from "./errors.js";

/**
 * Loads packages that not every user needs, on first use.
 *
 * @param feature - What needs them, as the beginning of a sentence.
 * @param packages - What to install, with versions.
 * @param load - The imports, with literal names.
 * @throws {@link HindsearchError} `DEPENDENCY_MISSING`.
 * @internal
 */
export async function loadOptional<T>(
  feature: string,
  packages: readonly string[],
  load: () => Promise<T>,
): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split("\n", 1)[0] : String(cause);
    throw new HindsearchError(
      "DEPENDENCY_MISSING",
      `${feature} needs the optional ${packages.join(" and ")}, which cannot be loaded (${reason}). ` +
        `Run "npm install ${packages.join(" ")}" without "--omit=optional".`,
      { cause },
    );
  }
}
