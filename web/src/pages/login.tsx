import { useState } from "preact/hooks";
import { Bell } from "../parts/frame.tsx";
import { logIn, refusal } from "../session.ts";

export function Login() {
  const [key, type] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    const given = key.trim();
    type("");
    await logIn({ key: given });
  };
  return (
    <main class="login">
      <form onSubmit={submit}>
        <Bell />
        <h1>Tocsin</h1>
        <p>Log in with an API key. The page hands it over and forgets it.</p>
        {refusal.value && (
          <p class="trouble" role="alert">
            {refusal.value}
          </p>
        )}
        <label>
          API key
          <input
            type="password"
            value={key}
            onInput={(event) => type(event.currentTarget.value)}
            placeholder="tocsin_…"
            autocomplete="off"
            required
          />
        </label>
        <button type="submit" class="primary">
          Log in
        </button>
        <p class="hint">
          Or run <code>tocsin dashboard</code>: it prints a link that logs in.
        </p>
      </form>
    </main>
  );
}
