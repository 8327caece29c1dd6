// Live streams as hooks of components. The page's stream also tells the header how it is.
import { useEffect, useState } from "preact/hooks";
import { Store } from "./store.ts";
import { IDLE, LiveStream, type StreamStatus } from "./stream.ts";

// null: the page has no stream.
export const pageStatus = new Store<StreamStatus | null>(null);

export interface Live<T> {
  data: T | null;
  status: StreamStatus;
  // The server says that what was asked for is gone; it may come back.
  gone: boolean;
  // Where else it is served now, when the server says so.
  elsewhere: Elsewhere | null;
}

export interface Elsewhere {
  told: string;
  admin_url: string | null;
}

// `fold` makes the data of an event and what was known before; null: the event changes nothing.
type Fold<T> = (before: T | null, name: string, data: unknown) => T | null;

export function useLive<T>(path: string, fold: Fold<T>): Live<T> {
  const nothing = { path, data: null, gone: false, elsewhere: null };
  const [found, setFound] = useState<{ path: string; data: T | null; gone: boolean; elsewhere: Elsewhere | null }>(nothing);
  const [status, setStatus] = useState<StreamStatus>(IDLE);
  useEffect(() => {
    let data: T | null = null;
    const stream = new LiveStream(path, (name, event) => {
      if (name === "stale" || name === "fresh") return; // the status of the stream says it
      if (name !== "gone" && name !== "elsewhere") data = fold(data, name, event) ?? data;
      setFound({ path, data, gone: name === "gone", elsewhere: name === "elsewhere" ? (event as Elsewhere) : null });
    });
    const unwatch = stream.status.watch(() => {
      setStatus(stream.status.value);
      pageStatus.set(stream.status.value);
    });
    setStatus(IDLE);
    pageStatus.set(IDLE);
    stream.start();
    return () => {
      stream.stop();
      unwatch();
      pageStatus.set(null);
    };
  }, [path, fold]);
  // The first rendering for another path still has what the path before had.
  const current = found.path === path ? found : nothing;
  return { data: current.data, gone: current.gone, elsewhere: current.elsewhere, status };
}
