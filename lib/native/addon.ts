/** What the binary exports, in TypeScript's words. The exports are not enumerable: call them by name. */
export interface Addon {
  /** Version of the package that the binary was built from. */
  readonly version: string;
}
