// A live stream over fetch, since EventSource cannot send a token. It connects again after growing pauses, rests while
// nobody looks at the tab, and waits for a token when the server asks for one.
import { send, statusOf, told, Unreadable } from "./api.ts";
import { session } from "./session.ts";
import { SseParser } from "./sse.ts";
import { Store } from "./store.ts";

// "outdated": the stream is there, but the server cannot look at what it tells of.
type Phase = "connecting" | "live" | "outdated" | "reconnecting" | "paused" | "signed-out";

export interface StreamStatus {
  phase: Phase;
  // What went wrong last; null while all is well.
  trouble: string | null;
  // Status code of the last refusal; null: none, or no answer at all.
  code: number | null;
  // When the last news came, by this machine's clock.
  at: number | null;
}

export const IDLE: StreamStatus = { phase: "connecting", trouble: null, code: null, at: null };

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
// A connection that has lasted so long was a good one. Where there are more pages than places for streams, they take each
// other's place, and the pauses grow.
const GOOD_MS = 60_000;
// The server sends at least a comment every 15 s.
const SILENCE_MS = 45_000;
const HIDDEN_MS = 60_000;

export class LiveStream {
  readonly status = new Store<StreamStatus>(IDLE);
  #abort = new AbortController();
  #stopped = false;
  #hidden = false;
  #wake: () => void = () => undefined;
  #hiddenTimer = 0;
  #pause = FIRST_PAUSE_MS;
  #unwatch: () => void = () => undefined;

  constructor(
    private readonly path: string,
    private readonly onEvent: (name: string, data: unknown) => void,
  ) {}

  start(): void {
    document.addEventListener("visibilitychange", this.#seen);
    window.addEventListener("pagehide", this.#left);
    window.addEventListener("pageshow", this.#seen);
    this.#unwatch = session.watch(() => this.#again());
    this.#seen();
    void this.#run();
  }

  stop(): void {
    this.#stopped = true;
    document.removeEventListener("visibilitychange", this.#seen);
    window.removeEventListener("pagehide", this.#left);
    window.removeEventListener("pageshow", this.#seen);
    this.#unwatch();
    window.clearTimeout(this.#hiddenTimer);
    this.#again();
  }

  #again(): void {
    this.#pause = FIRST_PAUSE_MS;
    this.#abort.abort();
    this.#wake();
  }

  readonly #seen = (): void => {
    window.clearTimeout(this.#hiddenTimer);
    if (document.hidden) {
      this.#hiddenTimer = window.setTimeout(() => {
        this.#hidden = true;
        this.#again();
      }, HIDDEN_MS);
    } else if (this.#hidden) {
      this.#hidden = false;
      this.#again();
    }
  };

  // A page that the browser keeps for the way back must not hold one of its few connections to this host.
  readonly #left = (): void => {
    this.#hidden = true;
    this.#again();
  };

  async #run(): Promise<void> {
    while (!this.#stopped) {
      if (this.#hidden || session.value.asked !== null) {
        this.#say({ phase: this.#hidden ? "paused" : "signed-out" });
        await this.#rest(null);
        continue;
      }
      this.#abort = new AbortController();
      const since = Date.now();
      const trouble = await this.#connection(this.#abort.signal);
      if (this.#stopped || this.#abort.signal.aborted) continue;
      this.#say({ phase: "reconnecting", ...trouble });
      if (Date.now() - since >= GOOD_MS) this.#pause = FIRST_PAUSE_MS;
      await this.#rest(this.#pause * (0.8 + 0.4 * Math.random()));
      this.#pause = Math.min(LONGEST_PAUSE_MS, this.#pause * 2);
    }
  }

  // One connection to its end; how it ended.
  async #connection(signal: AbortSignal): Promise<Partial<StreamStatus>> {
    const silence = new AbortController();
    let timer = 0;
    const heard = () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => silence.abort(), SILENCE_MS);
    };
    heard();
    try {
      const init = { signal: AbortSignal.any([signal, silence.signal]), headers: { Accept: "text/event-stream" } };
      const reply = await send(this.path, init);
      if (reply.body === null) return { trouble: "The answer is empty.", code: null };
      await this.#read(reply.body.getReader(), heard);
      return { trouble: "The connection has ended.", code: null };
    } catch (error) {
      return { trouble: told(error), code: statusOf(error) };
    } finally {
      window.clearTimeout(timer);
      silence.abort(); // an event that cannot be read ends the connection, too
    }
  }

  async #read(reader: ReadableStreamDefaultReader<Uint8Array>, heard: () => void): Promise<void> {
    const parser = new SseParser();
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.#stopped) return;
      heard();
      for (const { name, data } of parser.feed(decoder.decode(value, { stream: true }))) {
        this.#take(name, data);
        if (this.#stopped) return;
      }
    }
  }

  // Throws Unreadable: an event that this page cannot make sense of is no trouble of the connection.
  #take(name: string, data: string): void {
    let value: unknown;
    try {
      value = JSON.parse(data);
      this.onEvent(name, value);
    } catch (error) {
      throw new Unreadable(String(error));
    }
    if (name === "stale" || name === "elsewhere")
      this.#say({ phase: "outdated", trouble: (value as { told: string }).told, code: null });
    else this.status.set({ phase: "live", trouble: null, code: null, at: Date.now() });
  }

  #say(change: Partial<StreamStatus>): void {
    this.status.set({ ...this.status.value, ...change });
  }

  // Until woken, or until the time is over.
  #rest(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === null ? 0 : window.setTimeout(resolve, ms);
      this.#wake = () => {
        window.clearTimeout(timer);
        resolve();
      };
    });
  }
}
