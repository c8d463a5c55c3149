/** Dialogs that say what will happen, and toasts that say what did. */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Refused } from "../api.ts";
import { Trouble } from "./notices.tsx";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const toasts = signal<Toast[]>([]);
let next = 0;

export function say(text: string, bad = false): void {
  const id = next++;
  toasts.value = [...toasts.value, { id, text, bad }].slice(-3);
  setTimeout(() => (toasts.value = toasts.value.filter((toast) => toast.id !== id)), 6000);
}

/** Do something and say how it went. */
export async function attempt<T>(
  work: Promise<T>,
  done: string | ((answer: T) => string),
): Promise<T | null> {
  try {
    const answer = await work;
    say(typeof done === "string" ? done : done(answer));
    return answer;
  } catch (error) {
    say(error instanceof Refused ? error.problem.detail : String(error), true);
    return null;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <p key={toast.id} class={toast.bad ? "bad" : ""}>
          {toast.text}
        </p>
      ))}
    </div>
  );
}

interface DialogProps {
  title: string;
  close: () => void;
  action?: string;
  danger?: boolean;
  /** The word of the one button of a dialog that only tells. */
  only?: string;
  wide?: boolean;
  /** Whether the button has to wait for something; or in words why it cannot act. */
  not?: boolean | string;
  /** What the button does. The dialog closes when it is done, unless the answer is "stay", and stays with a refusal's problem. */
  act?: () => Promise<unknown>;
  children: ComponentChildren;
}

export function Dialog({ title, close, action, danger, only, wide, not, act, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, fail] = useState<Refused | null>(null);
  const [busy, work] = useState(false);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!act) return close();
    work(true);
    try {
      if ((await act()) === "stay") work(false);
      else close();
    } catch (caught) {
      if (!(caught instanceof Refused)) throw caught;
      fail(caught);
      work(false);
    }
  };
  return (
    <dialog ref={dialog} class={wide ? "wide" : undefined} onClose={close} aria-labelledby="dialog-title">
      <form onSubmit={submit}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        {error && <Trouble error={error} />}
        <footer>
          <button type="button" onClick={close}>
            {only ?? "Close"}
          </button>
          {typeof not === "string" && (
            <small id="why-not" class="grow">
              {not}
            </small>
          )}
          {!only && (
            <button
              type="submit"
              class={danger ? "danger" : "primary"}
              disabled={busy || Boolean(not)}
              aria-describedby={typeof not === "string" ? "why-not" : undefined}
            >
              {action ?? "OK"}
            </button>
          )}
        </footer>
      </form>
    </dialog>
  );
}
