export { HindsearchError, HindsearchErrorCode } from "./errors.js";
