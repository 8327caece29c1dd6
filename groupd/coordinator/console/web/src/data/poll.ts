// Asks the same thing again and again, each time some while after the answer.
import { session } from "./session.ts";

// `ask` is given a signal that ends with the polling; what it throws is passed over. Nothing is asked while the page asks
// for a token, since every refused one counts against this address, nor while nobody sees the tab. Returns the function
// that ends it.
export function poll(ask: (signal: AbortSignal) => Promise<void>, pauseMs: number): () => void {
  const abort = new AbortController();
  let timer: ReturnType<typeof setTimeout>;
  const next = async (): Promise<void> => {
    if (session.value.asked === null && !document.hidden) await ask(abort.signal).catch(() => undefined);
    if (!abort.signal.aborted) timer = setTimeout(() => void next(), pauseMs);
  };
  void next();
  return () => {
    abort.abort();
    clearTimeout(timer);
  };
}
