/** The page begins: who is logged in, which page the address names, and what surrounds it. */
import { render } from "preact";
import { loggedOut } from "./api.ts";
import * as keyboard from "./keyboard.ts";
import * as live from "./live.ts";
import { DeadLetters } from "./pages/dead_letters.tsx";
import { Editor } from "./pages/editor.tsx";
import { ExecutionDetail } from "./pages/execution.tsx";
import { Executions } from "./pages/executions.tsx";
import { Fleet } from "./pages/fleet.tsx";
import { JobDetail } from "./pages/job.tsx";
import { Jobs } from "./pages/jobs.tsx";
import { Login } from "./pages/login.tsx";
import { Overview } from "./pages/overview.tsx";
import { Toasts } from "./parts/dialog.tsx";
import { applyTheme, Frame } from "./parts/frame.tsx";
import { Empty, Skeleton } from "./parts/notices.tsx";
import { Palette } from "./parts/palette.tsx";
import * as router from "./router.ts";
import { begin, known, session } from "./session.ts";

function App() {
  if (!known.value) return <Skeleton />;
  if (loggedOut.value || !session.value) return <Login />;
  return (
    <>
      <Frame>
        <Page />
      </Frame>
      <Palette />
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
      if (id === "new") return <Editor key="new" />;
      if (id) return more === "edit" ? <Editor key={id} id={id} /> : <JobDetail key={id} id={id} />;
      return <Jobs />;
    case "executions":
      return id ? <ExecutionDetail key={id} id={id} /> : <Executions />;
    case "dead-letters":
      return <DeadLetters />;
    case "fleet":
      return <Fleet />;
    default:
      return (
        <Empty title="There is no such page">
          <p>
            <a href={router.address("/")}>To the overview</a>, or Ctrl-K to find something.
          </p>
        </Empty>
      );
  }
}

applyTheme();
router.start();
keyboard.start();
render(<App />, document.getElementById("app")!);
void begin().then(live.start);
