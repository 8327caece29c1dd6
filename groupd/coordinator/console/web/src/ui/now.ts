// One clock for all that counts: components that show times are drawn again every second, at the same moment.
import { useEffect, useState } from "preact/hooks";

const watchers = new Set<(now: number) => void>();
let timer = 0;

function tick(): void {
  const now = Date.now();
  for (const watcher of [...watchers]) watcher(now);
}

export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    watchers.add(setNow);
    if (watchers.size === 1) timer = window.setInterval(tick, 1000);
    return () => {
      watchers.delete(setNow);
      if (watchers.size === 0) window.clearInterval(timer);
    };
  }, []);
  return now;
}
