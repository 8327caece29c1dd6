// The token of this tab, and whether the server asks for one. sessionStorage forgets it with the tab.
import { Store } from "./store.ts";

const KEY = "groupd.token";

interface Session {
  token: string | null;
  // Why the server wants a token, in a sentence for people; null: it does not.
  asked: string | null;
  // What this session may already see does without another token: it can go on with `former`.
  optional: boolean;
  former: string | null;
  // Nothing is shown any more.
  signedOut: boolean;
  // Counts sign-ins: with each of them what could not be loaded is loaded again.
  round: number;
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null; // a browser that keeps nothing
  }
}

export const session = new Store<Session>({ token: stored(), asked: null, optional: false, former: null, signedOut: false, round: 0 });

export function signIn(token: string): void {
  keep(token);
  session.set({ ...session.value, token, asked: null, signedOut: false, round: session.value.round + 1 });
}

export function signOut(): void {
  keep(null);
  const asked = "You have signed out.";
  session.set({ ...session.value, token: null, asked, optional: false, former: null, signedOut: true });
}

// The server has answered 401 to a request that carried `token`.
export function askForToken(token: string | null): void {
  if (token !== session.value.token) return; // an older request: the token has changed since
  const why = token === null ? "This admin port asks for a token." : "The server does not accept this token.";
  session.set({ ...session.value, asked: why });
}

export function askAgain(why: string): void {
  const { optional, former, token } = session.value;
  session.set({ ...session.value, asked: why, optional: true, former: optional ? former : token });
}

export function cancelSignIn(): void {
  const { former, round } = session.value;
  keep(former);
  session.set({ token: former, asked: null, optional: false, former: null, signedOut: false, round: round + 1 });
}

function keep(token: string | null): void {
  try {
    if (token === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // The token then lasts as long as the page.
  }
}
