// One answer of the server for a page: loading, there, or an error in words.
import { useEffect, useState } from "preact/hooks";
import { statusOf, told } from "../data/api.ts";
import { session } from "../data/session.ts";
import { useStore } from "../data/store.ts";

interface Loaded<T> {
  value: T | null;
  error: string | null;
  // The status code, if the error is a refusal of the server.
  status: number | null;
  loading: boolean;
}

const WELL = { error: null, status: null };

// `key` null: nothing to load yet. Another key, or another sign-in, loads again.
export function useLoad<T>(key: string | null, load: (key: string, signal: AbortSignal) => Promise<T>): Loaded<T> {
  const { round } = useStore(session);
  const [found, setFound] = useState<Loaded<T> & { key: string | null }>({ ...WELL, key: null, value: null, loading: true });
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    setFound((before) => ({ ...WELL, key, value: before.value, loading: true }));
    load(key, abort.signal).then(
      (value) => setFound({ ...WELL, key, value, loading: false }),
      (error: unknown) => {
        // The page asks for a token, with which this is loaded again; what is there stays until then.
        const status = statusOf(error);
        if (abort.signal.aborted || status === 401) return;
        setFound({ key, value: null, error: told(error), status, loading: false });
      },
    );
    return () => abort.abort();
  }, [key, round, load]);
  return found;
}
