import type { Table } from "@lancedb/lancedb";
import type { LancePackage } from "./lance-package.js";
import { type IndexManifest, VECTOR } from "./manifest.js";

/** Candidates per result whose exact inner product is computed. */
export const REFINE = 10;
/** Queries of the recall measurement: at most so many, and so many multiplications in all. */
const [MOST_QUERIES, LEAST_QUERIES, MOST_PRODUCTS] = [200, 20, 2e10];
const DEPTH = 10;

interface VectorIndexShape {
  rows: number;
  dimensions: number;
  /** Whether an earlier build made it. */
  exists: boolean;
}

/**
 * Indexes the vectors: IVF_RQ (inverted lists over k-means centroids; RaBitQ codes of one bit a dimension, Gao & Long
 * 2024, arXiv:2405.12497), then measures what it finds.
 */
export async function buildVectorIndex(
  table: Table,
  lance: LancePackage,
  { rows, dimensions, exists }: VectorIndexShape,
): Promise<NonNullable<IndexManifest["vectorIndex"]>> {
  const partitions = Math.max(1, Math.round(Math.sqrt(rows) / 2));
  const probes = Math.ceil(partitions / 3);
  if (!exists) {
    await table.createIndex(VECTOR.column, {
      config: lance.Index.ivfRq({
        numPartitions: partitions,
        distanceType: "dot",
        maxIterations: 10,
        sampleRate: 64,
      }),
    });
  }
  return { partitions, probes, recall: await measureRecall(table, rows, dimensions, probes) };
}

/** Share of the exact 10 nearest passages that are found, over passages spread through the table as queries. */
async function measureRecall(
  table: Table,
  rows: number,
  dimensions: number,
  probes: number,
): Promise<number> {
  const affordable = Math.floor(MOST_PRODUCTS / (rows * dimensions));
  const queries = Math.min(rows, MOST_QUERIES, Math.max(LEAST_QUERIES, affordable));
  const offsets = Array.from({ length: queries }, (_, i) => Math.floor((i * rows) / queries));
  const sample = await table.takeOffsets(offsets).select([VECTOR.column]).toArray();
  let found = 0;
  let wanted = 0;
  // One at a time: an exact search holds all vectors in memory, and many at once hold them many times.
  for (const row of sample) {
    const vector = Float32Array.from(row[VECTOR.column]);
    const exact = await nearest(table, vector, DEPTH).bypassVectorIndex().toArray();
    const approximate = await nearest(table, vector, DEPTH).nprobes(probes).refineFactor(REFINE).toArray();
    const ids = new Set(approximate.map(({ id }) => id));
    found += exact.filter(({ id }) => ids.has(id)).length;
    wanted += exact.length;
  }
  return found / wanted;
}

/** The rows whose vectors have the largest inner products with a vector. */
export function nearest(table: Table, vector: Float32Array, limit: number) {
  return table
    .query()
    .nearestTo(vector)
    .column(VECTOR.column)
    .distanceType("dot")
    .select(["id", "contents", "_distance"])
    .limit(limit);
}
