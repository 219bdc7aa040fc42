/**
 * How many critiques in a file of failed attempts state the gold answer.
 *
 *     npx tsx scripts/leaks.ts trajectories/reflexion_hotpotqa.jsonl
 *
 * Every line is a JSON object with `question`, `golden_answers` and `reflection_after`; those without the last are skipped.
 */
import { mentionsAnswer, normalizeAnswer, readJsonl, redactAnswers } from "hindsearch";

interface Row {
  question: string;
  golden_answers: string[];
  reflection_after: string | null;
}

const [file] = process.argv.slice(2);
if (file === undefined) throw new Error("Give the file: npx tsx scripts/leaks.ts FILE");
let checked = 0;
let stated = 0;
let asNormalised = 0;
for await (const { value } of readJsonl(file)) {
  const { question, golden_answers: golds, reflection_after: critique } = value as Row;
  if (critique === null) continue;
  checked++;
  const plain = ` ${normalizeAnswer(critique)} `;
  if (golds.some((gold) => plain.includes(` ${normalizeAnswer(gold)} `))) asNormalised++;
  if (!mentionsAnswer(critique, golds, question)) continue;
  stated++;
  console.log(`${JSON.stringify(golds)}: ${redactAnswers(critique, golds, question)}\n`);
}
console.log(
  `${stated} of ${checked} critiques state a gold answer that their question does not (${((100 * stated) / checked).toFixed(1)} %).`,
);
console.log(`${asNormalised} hold one as exact match normalises it, those of the question included.`);
