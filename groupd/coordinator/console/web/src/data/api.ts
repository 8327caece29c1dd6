// Requests that have one answer. Addresses are relative, so the console also works below a path of a proxy.
import { askForToken, session } from "./session.ts";

const MESSAGE_CHARS_MAX = 500;
const PAGES_MAX = 20;

// An answer other than 2xx. `message` is what the server said.
export class ServerError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

// The status code of a refusal; null: the error is another one.
export function statusOf(error: unknown): number | null {
  return error instanceof ServerError ? error.status : null;
}

// An answer that is not what this page expects.
export class Unreadable extends Error {}

// No client leaves these as a segment of a path, so they have a form of their own (groupd/coordinator/admin/http_messages.py).
const UNSPEAKABLE = ["", ".", ".."];

export function groupPath(groupId: string, rest = ""): string {
  const path = UNSPEAKABLE.includes(groupId) ? `groups-named/=${groupId}` : `groups/${encodeURIComponent(groupId)}`;
  return path + rest;
}

export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const { token } = session.value;
  const headers = new Headers(init.headers);
  if (token !== null) headers.set("Authorization", `Bearer ${token}`);
  const reply = await fetch(path, { ...init, headers, cache: "no-store", credentials: "omit", redirect: "manual" });
  if (reply.ok) return reply;
  if (reply.type === "opaqueredirect")
    throw new ServerError(307, "Another node serves this group. Open the console on that node's admin port.");
  if (reply.status === 401) askForToken(token);
  throw new ServerError(reply.status, await messageOf(reply));
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return readJson(await send(path, { signal: signal ?? null, headers: { Accept: "application/json" } }));
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  return readJson(await send(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

// Every page of an answer whose next page is named by its Link header, up to a limit.
export async function getPages<T>(path: string, signal: AbortSignal): Promise<T[]> {
  const found: T[] = [];
  for (let next: string | null = path; next !== null && found.length < PAGES_MAX; ) {
    const reply: Response = await send(next, { signal });
    found.push(await readJson<T>(reply));
    next = nextPage(reply.headers.get("Link"));
  }
  return found;
}

export function nextPage(link: string | null): string | null {
  const found = link === null ? null : /<([^>]*)>\s*;\s*rel="?next"?/.exec(link);
  return found === null ? null : (found[1] ?? "").replace(/^\/+/, "");
}

export function told(error: unknown): string {
  if (error instanceof ServerError) return error.message;
  // All else is about the connection, whose errors have no words for people.
  return error instanceof Unreadable
    ? `This page cannot read what the admin port sends: ${error.message}`
    : "The admin port does not answer.";
}

async function readJson<T>(reply: Response): Promise<T> {
  try {
    return (await reply.json()) as T;
  } catch (error) {
    throw error instanceof SyntaxError ? new Unreadable(error.message) : error;
  }
}

async function messageOf(reply: Response): Promise<string> {
  const text = (await reply.text().catch(() => "")).trim().slice(0, MESSAGE_CHARS_MAX);
  return text === "" ? `The server answered ${reply.status}.` : text;
}
