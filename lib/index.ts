export type { AbortOptions } from "./abort.js";
// The search agent: protocol, trajectories, rollouts, masks.
export { type Action, type ActionTags, type ParsedTurn, parseTurn, type Tag } from "./agent/action.js";
export { BoundProtocol } from "./agent/bound-protocol.js";
export { countMask, countPolicyTokens, policyMask, scopeMask, type TokenScope } from "./agent/masks.js";
export type { Observation } from "./agent/observation.js";
export type { OutagePolicy, OutageProgress } from "./agent/outage.js";
export {
  numberedPassages,
  type SearchProtocol,
  type SearchProtocolOptions,
  searchR1,
  type TagPair,
} from "./agent/protocol.js";
export {
  type RolloutOptions,
  type RolloutProgress,
  type RolloutResult,
  rollout,
} from "./agent/rollout.js";
export type { SearchFailureOptions, SearchSettings } from "./agent/search-options.js";
export type { SearchQueueStatistics } from "./agent/search-queue.js";
export type { SequenceDecoder } from "./agent/segments.js";
export {
  FULL_SAMPLING,
  type SearchRecord,
  type Span,
  type SpanKind,
  type Trajectory,
  type TrajectoryStatus,
  trajectoryLength,
} from "./agent/trajectory.js";
export { trajectoryFromJson, trajectoryToJson } from "./agent/trajectory-json.js";
// The dashboard.
export { type ExportedReport, type ExportOptions, exportReport } from "./dashboard/export.js";
export { type DashboardOptions, DashboardServer, serveDashboard } from "./dashboard/server.js";
// Data.
export { type JsonlOptions, type JsonlRow, readJsonl } from "./data/jsonl.js";
export type { Question } from "./data/question.js";
export { loadQuestions, parseQuestion, type QuestionsOptions } from "./data/questions.js";
export { hashKey, type KeyPart, Random } from "./data/random.js";
export { QuestionSampler, type SamplerCursor, type SamplerOptions } from "./data/sampler.js";
export { type ErrorDetails, HindsearchError, HindsearchErrorCode } from "./errors.js";
// Evaluation and runs.
export {
  compareReports,
  type EvaluationReport,
  type EvaluationRunOptions,
  type EvaluationSettings,
  evaluate,
  protocolSettings,
  type QuestionResult,
} from "./evaluation/evaluate.js";
export { type PairedDifference, pairedDifference } from "./evaluation/paired.js";
// Judges.
export { ChatJudge, type ChatJudgeOptions } from "./judge/chat.js";
export type { CritiqueChecks } from "./judge/checks.js";
export type { Critique, CritiqueFailure } from "./judge/critique.js";
export type { CritiqueWritingOptions } from "./judge/critique-writer.js";
export { type EnsembleStats, JudgeEnsemble } from "./judge/ensemble.js";
export {
  type ChatTurn,
  type CompleteFunction,
  type CompleteOptions,
  FunctionJudge,
  type FunctionJudgeOptions,
} from "./judge/function-judge.js";
export type { JudgeInput, JudgeStep } from "./judge/input.js";
export type { Judge } from "./judge/judge.js";
export { mentionsAnswer, redactAnswers } from "./judge/leak.js";
export {
  type AskAgain,
  type LeakCounts,
  LeakGuard,
  type LeakPolicy,
  type LeakStats,
} from "./judge/leak-guard.js";
export { type ModelReply, type ParseOptions, parseCritique, type TextTokenizer } from "./judge/parse.js";
export { PolicyJudge, type PolicyJudgeOptions } from "./judge/policy-judge.js";
export {
  JUDGE_EXAMPLES,
  JUDGE_WORDING,
  type JudgeExample,
  type JudgeMessage,
  type JudgePrompt,
  type JudgePromptOptions,
  type JudgeWording,
  judgePrompt,
  promptVersion,
  type ReplyForm,
} from "./judge/prompt.js";
export type { VoteSelection } from "./judge/selection.js";
export type { JudgeStats } from "./judge/statistics.js";
export type { JudgeBudget, JudgeUsage, RequestTokens, TokenPrices } from "./judge/usage.js";
export type { MemoryUse } from "./native/addon.js";
export type { DecoderStats } from "./native/decoder.js";
export type { ComputeType, NativeModelConfig as ModelConfig, StorageType } from "./native/model.js";
// Clients of servers.
export type { BreakerOptions, BreakerStats } from "./network/breaker.js";
export type { RequestStats } from "./network/guarded-retrier.js";
export type { EndpointOptions, EndpointStats } from "./network/json-endpoint.js";
export type { LatencySummary } from "./network/latency.js";
export { type AttemptDetails, AttemptError, type RetryOptions } from "./network/retry.js";
// Policies: models, tokenizers, decoding, objectives.
export {
  type BatchTotals,
  batchTotals,
  type Mask,
  type Tokens,
  type TrainingSequence,
} from "./policy/batch.js";
export { type ChatMessage, ChatTemplate, type RenderOptions } from "./policy/chat-template.js";
export type { ModelFamily } from "./policy/config.js";
export {
  Decoder,
  type FinishReason,
  type ForkOptions,
  type RandomKey,
  type RandomStream,
  type Sampling,
  type SamplingOptions,
  type Segment,
  type SegmentOptions,
  type SubmitOptions,
} from "./policy/decoder.js";
export { engine } from "./policy/engine.js";
export type { GeneratedText, GenerateOptions } from "./policy/generate.js";
export type { JsonObject } from "./policy/json-file.js";
export { estimateMemory } from "./policy/memory/estimate.js";
export type {
  MemoryEstimate,
  MemoryEstimateOptions,
  MemoryPart,
  MemoryPhase,
  MemorySettings,
  PhaseEstimate,
  SizedModel,
} from "./policy/memory/report.js";
export { formatEstimate } from "./policy/memory/report.js";
export type { ModelTensor } from "./policy/model-tensors.js";
export type {
  Aggregation,
  CrossEntropyTerm,
  DistillNormalizer,
  DistillTerm,
  KlTerm,
  Objective,
  PolicyTerm,
} from "./policy/objective.js";
export { Policy } from "./policy/policy.js";
export type {
  Compute,
  ComputeOptions,
  DecoderOptions,
  Device,
  DeviceInfo,
  DeviceName,
  ForwardBackwardOptions,
  InitializeOptions,
  LoadOptions,
  MemoryOptions,
  ObjectiveMetrics,
  ObjectiveResult,
  SaveOptions,
  ScoredSequence,
  ScoreOptions,
  SequenceToScore,
  StepOptions,
  StepResult,
  TokenizerFiles,
} from "./policy/policy-options.js";
export type { PromptSegment } from "./policy/segment.js";
export type { TokenBytes } from "./policy/token-bytes.js";
export {
  createTokenizer,
  type DecodeOptions,
  type EncodePromptOptions,
  loadTokenizer,
  type Tokenizer,
} from "./policy/tokenizer.js";
// Record and replay.
export type { RecordKey } from "./replay/record-store.js";
export { type RecordedJudgeOptions, recordedJudge } from "./replay/recorded-judge.js";
export { type RecordedRetrieverOptions, recordedRetriever } from "./replay/recorded-retriever.js";
export {
  type ReplayAnswer,
  ReplayCache,
  type ReplayCacheOptions,
  type ReplayMode,
  type ReplayStats,
} from "./replay/replay-cache.js";
// Retrieval.
export { type Analyzer, plainAnalyzer } from "./retrieval/analyzer.js";
export { type CorpusSource, corpusChecksum } from "./retrieval/checksum.js";
export type { IndexBuildOptions } from "./retrieval/embedded/build.js";
export type { IndexProgress } from "./retrieval/embedded/builder-process.js";
export { CorpusIndex } from "./retrieval/embedded/corpus-index.js";
export type { IndexAnalyzer, IndexManifest } from "./retrieval/embedded/manifest.js";
export type { CorpusIndexOptions, FusionOptions, SearchMode } from "./retrieval/embedded/open-options.js";
export type { EmbeddingModel, TextRole } from "./retrieval/embedding/embedding-model.js";
export { HashedEmbedding } from "./retrieval/embedding/hashed.js";
export { HttpEmbedding, type HttpEmbeddingOptions } from "./retrieval/embedding/http.js";
export {
  ElasticsearchRetriever,
  type ElasticsearchRetrieverOptions,
} from "./retrieval/engines/elasticsearch.js";
export type { LuceneFields, LuceneOptions, LuceneSearch } from "./retrieval/engines/lucene.js";
export {
  type McpProgram,
  McpRetriever,
  type McpRetrieverOptions,
  type McpServer,
} from "./retrieval/engines/mcp.js";
export {
  type McpContent,
  type McpResource,
  type McpToolResult,
  mcpPassages,
} from "./retrieval/engines/mcp-passages.js";
export { OpenSearchRetriever, type OpenSearchRetrieverOptions } from "./retrieval/engines/opensearch.js";
export {
  type PostgresColumns,
  type PostgresConnection,
  PostgresRetriever,
  type PostgresRetrieverOptions,
} from "./retrieval/engines/postgres.js";
export type { PostgresSearch } from "./retrieval/engines/postgres-sql.js";
export {
  type QdrantFields,
  QdrantRetriever,
  type QdrantRetrieverOptions,
} from "./retrieval/engines/qdrant.js";
export type { EngineTls } from "./retrieval/engines/tls.js";
export { HttpRetriever, type HttpRetrieverOptions } from "./retrieval/http.js";
export { MemoryRetriever, type MemoryRetrieverOptions } from "./retrieval/memory.js";
export { formatContents, type Passage, parseContents } from "./retrieval/passage.js";
export {
  type QueryOutcome,
  type RemoteOptions,
  RemoteRetriever,
  type RemoteStats,
} from "./retrieval/remote.js";
export { RerankedRetriever, type RerankedRetrieverOptions } from "./retrieval/reranked.js";
export type { Retriever } from "./retrieval/retriever.js";
export {
  RetrieverServer,
  type ServeOptions,
  type ServeStats,
  serveRetriever,
} from "./retrieval/server/server.js";
export type { ChunkOptions } from "./retrieval/sources/chunks.js";
export { readCorpus } from "./retrieval/sources/corpus.js";
export type { CorpusOptions } from "./retrieval/sources/options.js";
// Rewards.
export { type ExtractOptions, extractAnswer } from "./reward/answer.js";
export { type FormatTags, isWellFormed, type ResponsePiece, SEARCH_R1_TAGS } from "./reward/format.js";
export { containsGold, exactMatch, f1Score } from "./reward/match.js";
export { type NormalizeOptions, normalizeAnswer } from "./reward/normalize.js";
export {
  exactMatchReward,
  type FormatRewardOptions,
  f1Reward,
  formatReward,
  type Reward,
  type RewardInput,
  type RewardResult,
  rewardInput,
} from "./reward/reward.js";
export { type CheckpointFolder, CheckpointStore } from "./runs/checkpoints.js";
export type { RunRecord } from "./runs/log-file.js";
export { RunDirectory, type RunLog } from "./runs/run.js";
export type { HttpSinkOptions } from "./runs/sinks/http-target.js";
export type { MetricPoint, MetricSink, RunOutcome, SinkRun } from "./runs/sinks/metric-sink.js";
export { MlflowSink, type MlflowSinkOptions } from "./runs/sinks/mlflow.js";
export { OpenTelemetrySink, type OpenTelemetrySinkOptions } from "./runs/sinks/open-telemetry.js";
export { PrometheusSink, type PrometheusSinkOptions } from "./runs/sinks/prometheus.js";
export { TensorBoardSink, type TensorBoardSinkOptions } from "./runs/sinks/tensorboard.js";
export { WebhookSink, type WebhookSinkOptions } from "./runs/sinks/webhook.js";

// Serving.
export type { ServedAgentOptions } from "./serving/served-agent.js";
export { PolicyServer, type ServePolicyOptions, servePolicy } from "./serving/server.js";
// Training.
export { type AdvantageOptions, groupAdvantages, rewardsEqual } from "./training/advantages.js";
export { totalsOf, trainingBatch } from "./training/batch.js";
export {
  type CritiqueOptions,
  type CritiqueStatistics,
  critiqueSamples,
  inScope,
  judgeInput,
  type TrajectoryScope,
} from "./training/critiques.js";
export { Teacher } from "./training/distillation.js";
export { type GapHealth, gapHealth } from "./training/gap.js";
export { type HintControl, hintsOf } from "./training/hints.js";
export {
  type ByHint,
  evaluateJudge,
  type JudgeQuality,
  type JudgeQualityOptions,
} from "./training/judge-quality.js";
export type {
  BestScore,
  DistillationOptions,
  EvaluationMode,
  EvaluationOptions,
  HindSearchOptions,
  StartupCheckOptions,
} from "./training/options.js";
export type { TrainingPhase, TrainingProgress } from "./training/progress.js";
export type { StepMetrics, StepTimes, TrainingEvaluation, TrainingStepResult } from "./training/record.js";
export {
  type GroupOutcome,
  type ScoringOptions,
  scoreGroups,
  type TrainingSample,
} from "./training/samples.js";
export { checkTrainingSampling } from "./training/sampling-check.js";
export {
  type LearningRateSchedule,
  learningRateAt,
  type WeightSchedule,
  weightFactorAt,
} from "./training/schedule.js";
export type { DistillationSettings, Participants, TrainerSettings } from "./training/settings.js";
export {
  type DistillationHealth,
  type GradientHealth,
  type JudgeHealth,
  judgeHealth,
  type ReferenceHealth,
  type RolloutHealth,
  referenceHealth,
  rolloutHealth,
} from "./training/signal.js";
export { checkLogProbs } from "./training/startup-check.js";
export {
  type SupervisedExample,
  type SupervisedOptions,
  type SupervisedStepResult,
  SupervisedTrainer,
} from "./training/supervised.js";
export {
  type HintedOptions,
  type HintedScores,
  scoreHinted,
  scorePlain,
  scoreReference,
  type TeacherOptions,
} from "./training/teacher.js";
export { HindSearchTrainer } from "./training/trainer.js";
export {
  measureGradients,
  type ObjectiveTerms,
  splitGroups,
  type UpdateOptions,
  type UpdateResult,
  updatePolicy,
} from "./training/update.js";

// The generated world of the demo.
export { DEMO_HABITS, type FindEntity, type Habits, tabulateSearches } from "./worlds/demonstrations.js";
export { type CritiqueScope, ScriptedJudge } from "./worlds/judge.js";
export { worldModel } from "./worlds/model.js";
export { worldProtocol } from "./worlds/protocol.js";
export type { Kind as EntityKind, Relation as EntityRelation } from "./worlds/vocabulary.js";
export { DEMO_MIXTURE, Demonstrations, type WarmStartMixture } from "./worlds/warm-start.js";
export {
  byHops,
  drawPath,
  type Entity as WorldEntity,
  type HopShares,
  type Path as WorldPath,
  World,
  type WorldOptions,
} from "./worlds/world.js";
