// The framing of server-sent events: text in pieces of any size in, whole events out.

import { Unreadable } from "./api.ts";

interface ServerEvent {
  name: string;
  data: string;
}

const CHARS_MAX = 256 * 1024 * 1024;

export class SseParser {
  // The beginning of a line whose end has not come yet. It is only joined, never searched, until then: an event of
  // some megabytes comes in hundreds of pieces.
  #partial = "";
  #name = "";
  #data: string[] = [];
  #chars = 0;

  feed(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = text.split("\n");
    const last = lines.pop() ?? "";
    for (const line of lines) {
      this.#take(this.#partial + line, events);
      this.#partial = "";
    }
    this.#partial += last;
    if (this.#chars + this.#partial.length > CHARS_MAX) throw new Unreadable("an event is too long");
    return events;
  }

  #take(raw: string, events: ServerEvent[]): void {
    const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
    if (line === "") {
      if (this.#data.length > 0) events.push({ name: this.#name || "message", data: this.#data.join("\n") });
      this.#name = "";
      this.#data = [];
      this.#chars = 0;
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment, which keeps the connection alive
    const field = colon < 0 ? line : line.slice(0, colon);
    const start = line[colon + 1] === " " ? colon + 2 : colon + 1;
    const value = colon < 0 ? "" : line.slice(start);
    if (field === "event") this.#name = value;
    else if (field === "data") {
      this.#data.push(value);
      this.#chars += value.length;
    }
  }
}
