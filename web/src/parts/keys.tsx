/** All keys on one sheet. */
import { keysShown } from "../keyboard.ts";
import { visible } from "../nav.ts";
import { Dialog } from "./dialog.tsx";

const KEYS: [string, string][] = [
  ["Ctrl K", "find a page, a job, an id"],
  ["/", "go to the filter"],
  ["j k", "next, previous row"],
  ["x", "select the row"],
  ["Enter", "open the row"],
  ["r s", "run, pause or resume the job, or the row's"],
  ["e", "explain the execution, or the job's last one"],
  ["n", "back to now, on Fires"],
  ["p", "live updates on or off"],
  ["?", "this sheet"],
];

export function Keys() {
  if (!keysShown.value) return null;
  return (
    <Dialog title="Keyboard" wide close={() => (keysShown.value = false)} only="Close">
      <div class="keys">
        <dl>
          {KEYS.map(([key, does]) => (
            <div key={key}>
              <dt>
                {key.split(" ").map((one) => (
                  <kbd key={one}>{one}</kbd>
                ))}
              </dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
        <dl>
          {visible().map((item) => (
            <div key={item.path}>
              <dt>
                <kbd>g</kbd>
                <kbd>{item.key}</kbd>
              </dt>
              <dd>{item.name}</dd>
            </div>
          ))}
        </dl>
      </div>
    </Dialog>
  );
}
