/** Records without what a clock says, and without the versions that the engine counts anew in every process. */
export function timeless(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, inner) =>
      /milliseconds|latency|weightsVersion/i.test(key)
        ? undefined
        : typeof inner === "bigint"
          ? `${inner}`
          : inner,
    ),
  );
}
