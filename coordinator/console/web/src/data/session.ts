// The token of this tab, and whether the server asks for one. sessionStorage forgets it with the tab.
import { Store } from "./store.ts";

const KEY = "groupd.token";

export interface Session {
  token: string | null;
  // Why the server wants a token, in a sentence for people; null: it does not.
  asked: string | null;
  // What this session may already see does without another token.
  optional: boolean;
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null; // a browser that keeps nothing
  }
}

export const session = new Store<Session>({ token: stored(), asked: null, optional: false });

export function signIn(token: string): void {
  keep(token);
  session.set({ token, asked: null, optional: false });
}

export function signOut(): void {
  keep(null);
  session.set({ token: null, asked: "You have signed out.", optional: false });
}

// The server has answered 401 to a request that carried `token`.
export function askForToken(token: string | null): void {
  if (token !== session.value.token) return; // an older request: the token has changed since
  const why = token === null ? "This admin port asks for a token." : "The server does not accept this token.";
  session.set({ token, asked: why, optional: false });
}

export function askAgain(why: string): void {
  session.set({ ...session.value, asked: why, optional: true });
}

export function cancelSignIn(): void {
  session.set({ ...session.value, asked: null, optional: false });
}

function keep(token: string | null): void {
  try {
    if (token === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // The token then lasts as long as the page.
  }
}
