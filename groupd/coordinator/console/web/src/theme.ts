// Light, dark, or what the system says. Charts on canvas hear of a change, since they have to be drawn again.
import { Store } from "./data/store.ts";

export type Theme = "auto" | "light" | "dark";
export const THEMES: readonly Theme[] = ["auto", "light", "dark"];
const KEY = "groupd.theme";

export const theme = new Store<Theme>("auto");
// Counts changes of the colours in force.
export const colours = new Store(0);

export function startTheme(): void {
  const kept = recall();
  apply(kept);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
}

export function chooseTheme(wanted: Theme): void {
  try {
    localStorage.setItem(KEY, wanted);
  } catch {
    // The choice then lasts as long as the page.
  }
  apply(wanted);
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function calm(): boolean {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

function apply(wanted: Theme): void {
  document.documentElement.dataset["theme"] = wanted;
  theme.set(wanted);
  changed();
}

function changed(): void {
  colours.set(colours.value + 1);
}

function recall(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.find((one) => one === kept) ?? "auto";
  } catch {
    return "auto";
  }
}
