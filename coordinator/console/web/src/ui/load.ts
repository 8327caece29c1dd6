// One answer of the server for a page: loading, there, or an error in words.
import { useEffect, useState } from "preact/hooks";
import { ServerError, told } from "../data/api.ts";
import { session } from "../data/session.ts";
import { useStore } from "../data/store.ts";

interface Loaded<T> {
  value: T | null;
  error: string | null;
  loading: boolean;
}

// `key` null: nothing to load yet. Another key, or another sign-in, loads again.
export function useLoad<T>(key: string | null, load: (key: string, signal: AbortSignal) => Promise<T>): Loaded<T> {
  const { round } = useStore(session);
  const [found, setFound] = useState<Loaded<T> & { key: string | null }>({ key: null, value: null, error: null, loading: true });
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    setFound((before) => ({ key, value: before.value, error: null, loading: true }));
    load(key, abort.signal).then(
      (value) => setFound({ key, value, error: null, loading: false }),
      (error: unknown) => {
        // The page asks for a token, with which this is loaded again; what is there stays until then.
        const asksForToken = error instanceof ServerError && error.status === 401;
        if (!abort.signal.aborted && !asksForToken) setFound({ key, value: null, error: told(error), loading: false });
      },
    );
    return () => abort.abort();
  }, [key, round, load]);
  return found;
}
