/** Keys: `/` filters, Ctrl-K finds, g and a letter goes, j k x Enter are for rows, p pauses live updates, ? shows them all. */
import { signal } from "@preact/signals";
import { wanted } from "./live.ts";
import { NAV } from "./nav.ts";
import { openPalette } from "./parts/palette.tsx";
import { go, visit } from "./router.ts";

export const keysShown = signal(false);
export const showKeys = () => {
  keysShown.value = true;
};

const GO_WITHIN = 1500;
let going = 0;
const bound = new Map<string, () => void>();

/**
 * Give keys a meaning for as long as a page is there; the answer takes it away again. Pages do so in a layout effect: other effects
 * come later than the first frame, and a key that was pressed before them would be lost.
 */
export function bind(keys: Record<string, () => void>): () => void {
  for (const [key, act] of Object.entries(keys)) bound.set(key, act);
  return () => {
    for (const [key, act] of Object.entries(keys)) if (bound.get(key) === act) bound.delete(key);
  };
}

/** The row that has the focus. */
export const focused = (): HTMLElement | null =>
  (document.activeElement as HTMLElement | null)?.closest<HTMLElement>("tr[data-id]") ?? null;

const rows = () => [...document.querySelectorAll<HTMLElement>("tr[data-href]")];

function move(step: number): void {
  const all = rows();
  const at = all.indexOf(focused() as HTMLElement);
  all[Math.max(0, Math.min(all.length - 1, at + step))]?.focus();
}

export function start(): void {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      return openPalette();
    }
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (/^(SELECT|TEXTAREA)$/.test(target.tagName)) return;
    if (target instanceof HTMLInputElement && target.type !== "checkbox") return;
    if (Date.now() < going) {
      going = 0;
      const page = NAV.find((item) => item.key === event.key);
      if (page) go(page.path);
      return;
    }
    press(event, target);
  });
}

function press(event: KeyboardEvent, target: HTMLElement): void {
  switch (event.key) {
    case "/": {
      const filter = document.querySelector<HTMLInputElement>("input[data-filter]");
      event.preventDefault();
      if (filter) filter.focus();
      else openPalette();
      break;
    }
    case "g":
      going = Date.now() + GO_WITHIN;
      break;
    case "j":
      move(1);
      break;
    case "k":
      move(-1);
      break;
    case "x":
      focused()?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click();
      break;
    case "Enter":
      if (target.dataset.href) visit(target.dataset.href);
      break;
    case "e": {
      const row = focused();
      if (row?.dataset.href && row.dataset.id?.startsWith("exec_")) visit(row.dataset.href);
      else bound.get("e")?.();
      break;
    }
    case "p":
      wanted.value = !wanted.value;
      break;
    case "?":
      showKeys();
      break;
    default:
      bound.get(event.key)?.();
  }
}
