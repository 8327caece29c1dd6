// Asks for a token of the admin port, over the page, which stays as it is. The token stays in this tab and goes into the
// Authorization header only.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { cancelSignIn, session, signIn } from "../data/session.ts";

export function SignIn(props: { why: string; optional: boolean }): JSX.Element {
  const [token, setToken] = useState("");
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const show = () => {
    dialog.current?.showModal();
    field.current?.focus();
  };
  useEffect(() => {
    show();
    return () => dialog.current?.close();
  }, []);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (token.trim() !== "") signIn(token.trim());
  };
  // The Escape key: browsers close a dialog at the second one, whatever it says to the first.
  const leave = (event: Event) => {
    event.preventDefault();
    if (props.optional) cancelSignIn();
  };
  const closed = () => {
    if (session.value.asked === null || dialog.current?.isConnected !== true) return;
    if (props.optional) cancelSignIn();
    else show();
  };
  return (
    <dialog ref={dialog} aria-labelledby="sign-in-title" onCancel={leave} onClose={closed}>
      <form class="sign-in" onSubmit={submit}>
        <h2 id="sign-in-title">Sign in</h2>
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
          The role <code>read</code> shows everything; <code>admin</code> can also change offsets. This tab keeps the token until
          it is closed.
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
    </dialog>
  );
}
