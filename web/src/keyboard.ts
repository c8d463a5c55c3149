/** Keys: `/` filters, Ctrl-K finds, g and a letter goes, j and k move, Enter opens, p pauses live updates. */
import { wanted } from "./live.ts";
import { NAV } from "./parts/frame.tsx";
import { openPalette } from "./parts/palette.tsx";
import { go, visit } from "./router.ts";

let going = 0;

const rows = () => [...document.querySelectorAll<HTMLElement>("tr[data-href]")];

function move(step: number): void {
  const all = rows();
  const at = all.indexOf(document.activeElement as HTMLElement);
  all[Math.max(0, Math.min(all.length - 1, at + step))]?.focus();
}

export function start(): void {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      return openPalette();
    }
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName))
      return;
    if (document.querySelector("dialog[open]")) return;
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
      going = Date.now() + 1500;
      break;
    case "j":
      move(1);
      break;
    case "k":
      move(-1);
      break;
    case "Enter":
      if (target.dataset.href) visit(target.dataset.href);
      break;
    case "p":
      wanted.value = !wanted.value;
      break;
  }
}
