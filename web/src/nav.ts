/** The pages, in the order of the menu. What a key may not see is left out; the server refuses it in any case. */
import { operator } from "./session.ts";

export interface Item {
  path: string;
  name: string;
  group: "Now" | "Work" | "Places" | "Admin";
  /** The letter after `g`. */
  key: string;
  icon: string;
  operators?: boolean;
}

export const NAV: Item[] = [
  { path: "/", name: "Overview", group: "Now", key: "o", icon: "M3 13h8V3H3zm0 8h8v-6H3zm10 0h8V11h-8zm0-18v6h8V3z" },
  { path: "/fires", name: "Fires", group: "Now", key: "f", icon: "M3 6h6v3H3zm8 0h4v3h-4zm6 0h4v3h-4zM3 11h3v3H3zm5 0h8v3H8zm-5 5h9v3H3zm11 0h7v3h-7z" },
  { path: "/alerts", name: "Alerts", group: "Now", key: "l", icon: "M12 2a6 6 0 0 0-6 6v5l-2 3h16l-2-3V8a6 6 0 0 0-6-6zM9.5 18a2.5 2.5 0 0 0 5 0z" },
  { path: "/jobs", name: "Jobs", group: "Work", key: "j", icon: "M4 5h2v2H4zm4 0h12v2H8zM4 11h2v2H4zm4 0h12v2H8zM4 17h2v2H4zm4 0h12v2H8z" },
  { path: "/executions", name: "Executions", group: "Work", key: "e", icon: "M6 3.5v17L20 12z" },
  { path: "/dead-letters", name: "Dead letters", group: "Work", key: "d", icon: "M12 2 2 20h20zm-1 7h2v5h-2zm0 6.5h2v2h-2z" },
  { path: "/operations", name: "Operations", group: "Work", key: "b", icon: "M4 6h16v4H4zm0 8h10v4H4zm13-1 5 3-5 3z" },
  { path: "/queues", name: "Queues", group: "Places", key: "q", icon: "M3 5h14v3H3zm0 5.5h18v3H3zM3 16h10v3H3z" },
  { path: "/fleet", name: "Workers & shards", group: "Places", key: "w", icon: "M4 4h16v6H4zm0 10h16v6H4zM7 6v2h2V6zm0 10v2h2v-2z", operators: true },
  { path: "/workers", name: "Task workers", group: "Places", key: "r", icon: "M9 3h6v3h3v4h3v4h-3v4h-3v3H9v-3H6v-4H3v-4h3V6h3zm1 7v4h4v-4z" },
  { path: "/calendars", name: "Calendars", group: "Places", key: "c", icon: "M5 4h2V2h2v2h6V2h2v2h2a1 1 0 0 1 1 1v15a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1zm1 6v9h12v-9z" },
  { path: "/secrets", name: "Secrets", group: "Places", key: "s", icon: "M7 10V8a5 5 0 0 1 10 0v2h1v11H6V10zm2 0h6V8a3 3 0 0 0-6 0z" },
  { path: "/connections", name: "Connections", group: "Places", key: "n", icon: "M7 2h2v5h6V2h2v5h2v4a7 7 0 0 1-6 6.9V22h-2v-4.1A7 7 0 0 1 5 11V7h2z" },
  { path: "/tenants", name: "Tenants", group: "Admin", key: "t", icon: "M4 21V7l8-4 8 4v14h-6v-5h-4v5zM8 9v2h2V9zm6 0v2h2V9zm-6 4v2h2v-2zm6 0v2h2v-2z", operators: true },
  { path: "/keys", name: "Keys", group: "Admin", key: "k", icon: "M8 7a5 5 0 1 0 4.6 7H16v3h3v-3h2v-4h-8.4A5 5 0 0 0 8 7zm0 3a2 2 0 1 1 0 4 2 2 0 0 1 0-4z", operators: true },
  { path: "/audit", name: "Audit", group: "Admin", key: "a", icon: "M5 3h10l4 4v14H5zm3 6v2h8V9zm0 4v2h8v-2zm0 4v2h5v-2z" },
  { path: "/system", name: "System", group: "Admin", key: "y", icon: "M12 2 3 6v6c0 5 4 9 9 10 5-1 9-5 9-10V6zm-1 13-4-4 1.5-1.5L11 12l5-5L17.5 8.5z", operators: true },
]; // biome-ignore format: a table

/** The pages that the key which is logged in has something to see on. */
export const visible = () => NAV.filter((item) => !item.operators || operator.value);
