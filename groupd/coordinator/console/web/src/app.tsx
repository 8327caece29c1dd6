// The frame of all pages: header, sign-in, and the page that the address names.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { pageStatus } from "./data/live.ts";
import { session, signOut } from "./data/session.ts";
import { useStore } from "./data/store.ts";
import { ago, idText } from "./format.ts";
import { GroupPage } from "./pages/group/page.tsx";
import { GroupsPage } from "./pages/groups.tsx";
import { HealthPage } from "./pages/health.tsx";
import { OffsetsPage } from "./pages/offsets.tsx";
import { SignIn } from "./pages/sign_in.tsx";
import { WhatIfPage } from "./pages/what_if.tsx";
import { type Route, route } from "./router.ts";
import { chooseTheme, THEMES, theme } from "./theme.ts";
import { useNow } from "./ui/now.ts";

export function App(): JSX.Element {
  const at = useStore(route);
  const { asked, optional, signedOut } = useStore(session);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  const key = JSON.stringify(at);
  useEffect(() => {
    document.title = `${titleOf(at)} · groupd`;
    window.scrollTo(0, 0);
    // After the first page, readers of the screen are taken to the new one.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [key]);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault(); // the fragment of the address names the page
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <Header at={at} />
      <main id="main" tabIndex={-1} ref={main}>
        {!signedOut && <Page key={key} at={at} />}
      </main>
      {asked !== null && <SignIn why={asked} optional={optional} />}
    </>
  );
}

function titleOf(at: Route): string {
  if ("groupId" in at) return at.page === "group" ? idText(at.groupId) : `${idText(at.groupId)}: ${at.page}`;
  return { groups: "Groups", health: "Health", unknown: "No such page" }[at.page];
}

function Page(props: { at: Route }): JSX.Element {
  const { at } = props;
  switch (at.page) {
    case "groups":
      return <GroupsPage />;
    case "health":
      return <HealthPage />;
    case "group":
      return <GroupPage groupId={at.groupId} />;
    case "what-if":
      return <WhatIfPage groupId={at.groupId} />;
    case "offsets":
      return <OffsetsPage groupId={at.groupId} />;
    case "unknown":
      return (
        <div class="page">
          <h1>There is no such page</h1>
          <p>
            <a href="#/">All groups</a>
          </p>
        </div>
      );
  }
}

function Header(props: { at: Route }): JSX.Element {
  const chosen = useStore(theme);
  const { token } = useStore(session);
  const inGroups = props.at.page !== "health" && props.at.page !== "unknown";
  const next = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length] ?? "auto";
  return (
    <header class="top">
      <a class="brand" href="#/">
        <svg width="18" height="18" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
          <path d="M2 3h5v4H2zM9 3h5v4H9zM2 9h5v4H2z" />
          <path d="M9 9h5v4H9z" class="faint" />
        </svg>
        groupd
      </a>
      <nav aria-label="Pages">
        <a href="#/" aria-current={props.at.page === "groups" ? "page" : inGroups ? "true" : undefined}>
          Groups
        </a>
        <a href="#/health" aria-current={props.at.page === "health" ? "page" : undefined}>
          Health
        </a>
      </nav>
      <StreamState />
      <button type="button" class="quiet" onClick={() => chooseTheme(next)} title={`Change to ${next}`}>
        <span class="theme-word">Theme: </span>
        {chosen}
      </button>
      {token !== null && (
        <button type="button" class="quiet" onClick={signOut}>
          Sign out
        </button>
      )}
    </header>
  );
}

const PHASES = {
  connecting: "Connecting",
  live: "Live",
  reconnecting: "Reconnecting",
  paused: "Paused",
  outdated: "Out of date",
  "signed-out": "Signed out",
} as const;

function StreamState(): JSX.Element | null {
  const status = useStore(pageStatus);
  const now = useNow();
  if (status === null) return null;
  const age = status.at === null ? null : ago(Math.max(0, now - status.at));
  const verb = status.phase === "live" ? "changed" : "data from";
  return (
    <div class={`stream ${status.phase}`} title={status.trouble ?? undefined}>
      <span class="dot" aria-hidden="true" />
      <span role="status">{PHASES[status.phase]}</span>
      {age !== null && (
        <span class="soft age">
          {verb} {age}
        </span>
      )}
    </div>
  );
}
