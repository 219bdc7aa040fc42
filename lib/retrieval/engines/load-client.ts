import { HindsearchError } from "../../errors.js";

/**
 * Loads an engine's client on first use.
 *
 * @param engine - The class that needs it.
 * @param packageName - What to install, with its version.
 * @param load - The import, with a literal name.
 * @throws {@link HindsearchError} `DEPENDENCY_MISSING`.
 */
export async function loadClient<T>(engine: string, packageName: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split("\n", 1)[0] : String(cause);
    throw new HindsearchError(
      "DEPENDENCY_MISSING",
      `${engine} needs the optional package ${packageName}, which cannot be loaded (${reason}). ` +
        `Run "npm install ${packageName}".`,
      { cause },
    );
  }
}
