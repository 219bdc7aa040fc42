import { z } from "zod";

/** How a server's certificate is checked. */
export interface EngineTls {
  /** Certificates to trust, as PEM. Default: those of Node. */
  ca?: string | undefined;
  /** Default true. */
  rejectUnauthorized?: boolean | undefined;
}

/** Schema of {@link EngineTls}. */
export const tls = z.strictObject({ ca: z.string().optional(), rejectUnauthorized: z.boolean().optional() });
