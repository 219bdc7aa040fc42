import { Socket as UdpSocket } from "node:dgram";
import dns from "node:dns";
import { Socket } from "node:net";
import { vi } from "vitest";

/**
 * Runs something and counts the connections that are opened meanwhile, whichever client opens them, the datagrams that
 * are sent and the names that are looked up.
 */
export async function connectionsOf<T>(run: () => Promise<T>): Promise<{ result: T; connections: number }> {
  const spies = [
    vi.spyOn(Socket.prototype, "connect"),
    vi.spyOn(UdpSocket.prototype, "send"),
    vi.spyOn(dns, "lookup"),
  ];
  try {
    const result = await run();
    return { result, connections: spies.reduce((sum, { mock }) => sum + mock.calls.length, 0) };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}
