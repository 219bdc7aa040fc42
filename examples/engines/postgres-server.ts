/** A PostgreSQL of one's own, in a temporary folder, gone when closed. Needs the server's programs, no running server. */
import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { accessSync, chownSync, constants, readdirSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Where `initdb` and `postgres` are, or `undefined`. Debian keeps them out of the path. */
export function findPostgres(): string | undefined {
  const debian = "/usr/lib/postgresql";
  let versions: string[] = [];
  try {
    versions = readdirSync(debian).sort((x, y) => Number(y) - Number(x));
  } catch {
    // Not a Debian, or nothing installed.
  }
  const folders = [
    ...(process.env.PATH ?? "").split(":"),
    ...versions.map((version) => join(debian, version, "bin")),
  ];
  return folders.find((folder) =>
    ["initdb", "postgres"].every((program) => isExecutable(join(folder, program))),
  );
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** How to reach a {@link PostgresServer}: over a socket in its folder, so that no port is taken. */
export interface PostgresAddress {
  host: string;
  user: string;
  password: string;
  database: string;
}

/** A running server. */
export class PostgresServer implements AsyncDisposable {
  private constructor(
    readonly address: PostgresAddress,
    readonly folder: string,
    readonly close: () => Promise<void>,
  ) {}

  /**
   * Takes a second or two. PostgreSQL refuses to run as root: it is started as the user `postgres` then.
   *
   * @throws Error if the programs are absent, or with what they complained of.
   */
  static async start(): Promise<PostgresServer> {
    const programs = findPostgres();
    if (programs === undefined) {
      throw new Error(
        "PostgreSQL's initdb and postgres were not found; on Debian: apt-get install postgresql",
      );
    }
    const folder = await mkdtemp(join(tmpdir(), "hindsearch-pg-"));
    try {
      const account = process.getuid?.() === 0 ? await unprivileged() : undefined;
      if (account !== undefined) chownSync(folder, account.uid, account.gid);
      const password = randomBytes(18).toString("base64url");
      const passwordFile = join(folder, "password");
      await writeFile(passwordFile, password, { mode: 0o600 });
      if (account !== undefined) chownSync(passwordFile, account.uid, account.gid);
      const data = join(folder, "data");
      const options = { cwd: folder, ...account };
      const init = ["-D", data, "-U", "hindsearch", "--pwfile", passwordFile, "--auth", "scram-sha-256"];
      await run(
        join(programs, "initdb"),
        [...init, "-E", "UTF8", "--locale", "C.UTF-8", "--no-sync"],
        options,
      );
      await rm(passwordFile);
      const settings = { listen_addresses: "", unix_socket_directories: folder, fsync: "off" };
      const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
      const server = spawn(join(programs, "postgres"), ["-D", data, ...flags], {
        ...options,
        stdio: ["ignore", "ignore", "pipe"],
      });
      const gone = new Promise<void>((done) => server.once("exit", () => done()));
      // An interrupted program must not leave a server behind.
      const kill = () => server.kill("SIGQUIT");
      process.once("exit", kill);
      const close = async () => {
        process.off("exit", kill);
        server.kill("SIGINT");
        await gone;
        await rm(folder, { recursive: true, force: true });
      };
      await ready(server.stderr, gone).catch(async (error) => {
        await close();
        throw error;
      });
      return new PostgresServer(
        { host: folder, user: "hindsearch", password, database: "postgres" },
        folder,
        close,
      );
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** Stops the server and deletes its folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function unprivileged(): Promise<{ uid: number; gid: number }> {
  const id = async (flag: string) => Number((await run("id", [flag, "postgres"])).stdout);
  return { uid: await id("-u"), gid: await id("-g") };
}

async function ready(log: NodeJS.ReadableStream, gone: Promise<void>): Promise<void> {
  let said = "";
  await new Promise<void>((done, failed) => {
    log.on("data", (chunk) => {
      said = (said + chunk).slice(-4000);
      if (said.includes("database system is ready to accept connections")) done();
    });
    gone.then(() => failed(new Error(`PostgreSQL did not start: ${said}`)));
  });
}
