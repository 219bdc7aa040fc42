/**
 * Tells of what is odd but no error: the default of every `onWarning`.
 *
 * @internal
 */
export function emitWarning(message: string): void {
  process.emitWarning(message, "HindsearchWarning");
}
