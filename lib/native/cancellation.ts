/** Ends the call it is handed to, which then rejects with ABORTED; at once if the engine has not begun it. */
export interface Cancellation {
  cancel(): void;
}
