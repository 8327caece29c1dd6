// One answer of the server for a page: loading, there, or an error in words.
import { useEffect, useState } from "preact/hooks";
import { ServerError, told } from "../data/api.ts";
import { session } from "../data/session.ts";
import { useStore } from "../data/store.ts";

interface Loaded<T> {
  value: T | null;
  error: string | null;
  // The error is that there is no such thing.
  unknown: boolean;
  loading: boolean;
}

// `key` null: nothing to load yet. Another key, or another sign-in, loads again.
export function useLoad<T>(key: string | null, load: (key: string, signal: AbortSignal) => Promise<T>): Loaded<T> {
  const { round } = useStore(session);
  const [found, setFound] = useState<Loaded<T> & { key: string | null }>({ key: null, value: null, error: null, unknown: false, loading: true });
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    setFound((before) => ({ key, value: before.value, error: null, unknown: false, loading: true }));
    load(key, abort.signal).then(
      (value) => setFound({ key, value, error: null, unknown: false, loading: false }),
      (error: unknown) => {
        // The page asks for a token, with which this is loaded again; what is there stays until then.
        const status = error instanceof ServerError ? error.status : null;
        if (abort.signal.aborted || status === 401) return;
        setFound({ key, value: null, error: told(error), unknown: status === 404, loading: false });
      },
    );
    return () => abort.abort();
  }, [key, round, load]);
  return found;
}
