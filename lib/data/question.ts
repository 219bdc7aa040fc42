/** A question to search for, with the answers that count as right. Its text comes from a data set: never trusted. */
export interface Question {
  /** From the data set, or `line <n>`. Need not be unique: merged sets count their rows anew. */
  id: string;
  /** The question itself, trimmed, not empty. */
  question: string;
  /** Accepted answers, aliases included; at least one, none blank. */
  goldAnswers: string[];
  /** What else the data set says, e.g. the ids of supporting passages. Not interpreted. */
  metadata?: Record<string, unknown>;
}
