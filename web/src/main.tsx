/** The page begins: who is logged in, which page the address names, and what surrounds it. */
import { type ComponentType, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { loggedOut } from "./api.ts";
import * as keyboard from "./keyboard.ts";
import * as live from "./live.ts";
import { ExecutionDetail } from "./pages/execution.tsx";
import { Executions } from "./pages/executions.tsx";
import { JobDetail } from "./pages/job.tsx";
import { Jobs } from "./pages/jobs.tsx";
import { Login } from "./pages/login.tsx";
import { Overview } from "./pages/overview.tsx";
import { Toasts } from "./parts/dialog.tsx";
import { applyTheme, Frame } from "./parts/frame.tsx";
import { Keys } from "./parts/keys.tsx";
import { Empty, Skeleton } from "./parts/notices.tsx";
import { Palette } from "./parts/palette.tsx";
import * as router from "./router.ts";
import { begin, known, session } from "./session.ts";

/** What pages get of the address: the part behind their name. */
interface PageProps {
  id?: string;
}
type Loader = () => Promise<ComponentType<PageProps>>;

/** Pages that are fetched when they are first wanted, or when the browser has nothing else to do. */
const LATER: Record<string, Loader> = {
  editor: () => import("./pages/editor.tsx").then((file) => file.Editor),
  fires: () => import("./pages/fires.tsx").then((file) => file.Fires),
  alerts: () => import("./pages/alerts.tsx").then((file) => file.Alerts),
  "dead-letters": () => import("./pages/dead_letters.tsx").then((file) => file.DeadLetters),
  operations: () => import("./pages/operations.tsx").then((file) => file.Operations),
  queues: () => import("./pages/queues.tsx").then((file) => file.Queues),
  fleet: () => import("./pages/fleet.tsx").then((file) => file.Fleet),
  workers: () => import("./pages/workers.tsx").then((file) => file.Workers),
  calendars: () => import("./pages/calendars.tsx").then((file) => file.Calendars),
  secrets: () => import("./pages/secrets.tsx").then((file) => file.Secrets),
  connections: () => import("./pages/connections.tsx").then((file) => file.Connections),
  tenants: () => import("./pages/tenants.tsx").then((file) => file.Tenants),
  keys: () => import("./pages/keys.tsx").then((file) => file.Keys),
  system: () => import("./pages/system.tsx").then((file) => file.System),
  words: () => import("./pages/words.tsx").then((file) => file.Words),
  audit: () => import("./pages/audit.tsx").then((file) => file.Audit),
};

function App() {
  if (!known.value) return <Skeleton />;
  if (loggedOut.value || !session.value) return <Login />;
  return (
    <>
      <Frame>
        <Page />
      </Frame>
      <Palette />
      <Keys />
      <Toasts />
    </>
  );
}

function Page() {
  const [page, id, more] = router.segments.value;
  switch (page) {
    case undefined:
      return <Overview />;
    case "jobs":
      if (id === "new") return <Later key="new" page="editor" />;
      if (id && more === "edit") return <Later key={id} page="editor" id={id} />;
      return id ? <JobDetail key={id} id={id} /> : <Jobs />;
    case "executions":
      return id ? <ExecutionDetail key={id} id={id} /> : <Executions />;
    default:
      return page in LATER && page !== "editor" ? (
        <Later key={page + id} page={page} {...(id ? { id } : {})} />
      ) : (
        <NoSuchPage />
      );
  }
}

function Later({ page, id }: { page: string } & PageProps) {
  const [loaded, arrived] = useState<{ page: ComponentType<PageProps> } | null>(null);
  useEffect(() => {
    void LATER[page]?.().then((found) => arrived({ page: found }));
  }, [page]);
  if (!loaded) return <Skeleton />;
  return <loaded.page {...(id ? { id } : {})} />;
}

function NoSuchPage() {
  return (
    <>
      <h1>Not found</h1>
      <Empty title="There is no such page">
        <p>
          <a href={router.address("/")}>To the overview</a>, or Ctrl-K to find something.
        </p>
      </Empty>
    </>
  );
}

applyTheme();
router.start();
keyboard.start();
render(<App />, document.getElementById("app")!);
void begin().then(() => {
  live.start();
  const whenIdle = globalThis.requestIdleCallback ?? ((act: () => void) => setTimeout(act, 2000));
  whenIdle(() => Object.values(LATER).forEach((load) => void load()));
});
