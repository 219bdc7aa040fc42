/** Takes a lock and keeps it until it is killed. */
import { FolderLock } from "../../lib/runs/lock.js";

await FolderLock.acquire(process.argv[2] ?? "", () => {});
console.log("locked");
setInterval(() => {}, 1_000);
