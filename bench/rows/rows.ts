import type { Row } from "../row.js";
import { decode, decodeTiny } from "./decode.js";
import { gemm } from "./gemm.js";
import { head } from "./head.js";
import { hindsight } from "./hindsight.js";
import { prompt } from "./prompt.js";
import { retriever } from "./retriever.js";
import { sharing } from "./sharing.js";
import { train, trainTiny } from "./train.js";

/** In the order of the table. */
export const ROWS: readonly Row[] = [
  gemm,
  decode,
  prompt,
  decodeTiny,
  trainTiny,
  train,
  head,
  hindsight,
  sharing,
  retriever,
];
