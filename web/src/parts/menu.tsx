/** A button that opens a short list of further actions. Closes by Escape, by a click elsewhere, and by a choice. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  face?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}

export function Menu({ label, face = "⋯", class: more = "", children }: Props) {
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (event: Event) => {
      if (!box.current?.open) return;
      if (
        event instanceof KeyboardEvent ? event.key === "Escape" : !box.current.contains(event.target as Node)
      )
        box.current.open = false;
    };
    addEventListener("click", close);
    addEventListener("keydown", close);
    return () => {
      removeEventListener("click", close);
      removeEventListener("keydown", close);
    };
  }, []);
  return (
    <details ref={box} class={`menu ${more}`}>
      <summary aria-label={label} title={label}>
        {face}
      </summary>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a choice inside closes it, by any key or pointer */}
      <div onClick={() => box.current?.removeAttribute("open")} onKeyDown={() => undefined}>
        {children}
      </div>
    </details>
  );
}
