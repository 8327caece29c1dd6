// Pages by the fragment of the address: #/, #/group/ID, #/group/ID/what-if, #/group/ID/offsets, #/health.
import { Store } from "./data/store.ts";

export type Route =
  | { page: "groups" }
  | { page: "health" }
  | { page: "group" | "what-if" | "offsets"; groupId: string }
  | { page: "unknown" };

export function parse(hash: string): Route {
  const parts = hash.replace(/^#\/?/, "").split("/");
  const [first, id, rest] = parts;
  if (parts.length === 1 && first === "") return { page: "groups" };
  if (parts.length === 1 && first === "health") return { page: "health" };
  if (first !== "group" || id === undefined || parts.length > 3) return { page: "unknown" };
  const groupId = decoded(id);
  if (groupId === null) return { page: "unknown" };
  if (rest === undefined || rest === "") return { page: "group", groupId };
  return rest === "what-if" || rest === "offsets" ? { page: rest, groupId } : { page: "unknown" };
}

export function groupHash(groupId: string, page: "" | "what-if" | "offsets" = ""): string {
  return `#/group/${encodeURIComponent(groupId)}${page === "" ? "" : `/${page}`}`;
}

export const route = new Store<Route>({ page: "groups" });

export function startRouter(): void {
  const read = () => route.set(parse(location.hash));
  window.addEventListener("hashchange", read);
  read();
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
