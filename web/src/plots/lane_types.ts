/** Lanes of the timeline and days of the calendar, as the API answers them. */
export interface LaneFire {
  at: string;
  state: string;
  late_ms: number | null;
  run_ms: number | null;
  reason: string | null;
  until: string | null;
  count: number;
}
export interface Band {
  at: string;
  counts: Record<string, number>;
}
export interface Lane {
  job: string;
  name: string | null;
  queue: string;
  tags: string[];
  fires: LaneFire[] | null;
  bands: Band[] | null;
  covers_from: string;
  expected_to: string;
}
export interface Timeline {
  now: string;
  step_s: number;
  lanes: Lane[];
  next_cursor: string | null;
}
export interface DayCounts {
  ran: number;
  dead: number;
  skipped: Record<string, number>;
  cancelled: number;
  expired: number;
  expected: number;
  backfilled: number;
}
export interface CalendarHour extends DayCounts {
  at: string;
}
export interface CalendarDay extends DayCounts {
  date: string;
  begins: string;
  hour_count: number;
  hours: CalendarHour[] | null;
}
export interface JobCalendar {
  zone: string;
  covers_from: string;
  days: CalendarDay[];
}
