// Asks for a token of the admin port. It stays in this tab and goes into the Authorization header only.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { cancelSignIn, signIn } from "../data/session.ts";

export function SignIn(props: { why: string; optional: boolean }): JSX.Element {
  const [token, setToken] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (token.trim() !== "") signIn(token.trim());
  };
  return (
    <form class="card sign-in" onSubmit={submit} aria-labelledby="sign-in-title">
      <h1 id="sign-in-title">Sign in</h1>
      <p role="status">{props.why}</p>
      <label>
        Token
        <input
          ref={field}
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      <p class="soft">
        The role <code>read</code> shows everything; <code>admin</code> can also change offsets. This tab keeps the token until it
        is closed.
      </p>
      <div class="actions">
        <button type="submit" class="primary" disabled={token.trim() === ""}>
          Sign in
        </button>
        {props.optional && (
          <button type="button" onClick={cancelSignIn}>
            Go on as before
          </button>
        )}
      </div>
    </form>
  );
}
