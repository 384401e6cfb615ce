// Figures for people: counts, tokens, shares, money and times. The same words as the terminal prints.

export const NO_PRICE = "no price";

export const count = (value) => Math.round(value).toLocaleString("en");

export const plural = (value, noun, many = noun + "s") => `${count(value)} ${value === 1 ? noun : many}`;

/** Tokens in at most five characters or so: 812, 9,120, 68.1K, 1.24M. */
export function short(tokens) {
  if (tokens < 10_000) return count(tokens);
  if (tokens < 999_500) return tokens < 99_950 ? (tokens / 1e3).toFixed(1) + "K" : (tokens / 1e3).toFixed(0) + "K";
  return tokens < 999_500_000 ? (tokens / 1e6).toFixed(2) + "M" : (tokens / 1e9).toFixed(2) + "G";
}

/** A share of a whole as a number between 0 and 1; 0 where there is no whole. */
export const share = (part, whole) => (whole > 0 ? Math.max(0, Math.min(1, part / whole)) : 0);

export function percent(ratio) {
  if (ratio === null || ratio === undefined) return "–";
  const value = 100 * ratio;
  return value > 0 && value < 1 ? "<1%" : value < 100 && value > 99 ? "99%" : Math.round(value) + "%";
}

/** Money: up to four digits behind the point where it is less than a dollar. Null is a price that is not known. */
export function dollars(amount) {
  if (amount === null || amount === undefined) return NO_PRICE;
  const size = Math.abs(amount), sign = amount < 0 ? "−" : "";
  if (size === 0 || size >= 1) return sign + "$" + size.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return size >= 0.0001 ? sign + "$" + size.toFixed(4).replace(/0{1,2}$/, "") : sign + "<$0.0001";
}

const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hour12: false });
const dayAndClock = new Intl.DateTimeFormat("en", {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false,
});
const dayOfUtc = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });
const shortDay = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" });
const longDay = new Intl.DateTimeFormat("en", { year: "numeric", month: "short", day: "numeric" });

export const fullTime = (at) => dayAndClock.format(new Date(at));
/** A day as the store groups by it, which is a day of UTC: it is shown as it is called there, in whatever zone. */
export const dayName = (day) => dayOfUtc.format(new Date(day + "T00:00:00Z"));

/** When something was, in the fewest words that still say it: `now`, `5 min ago`, `14:02`, `Nov 3`. */
export function when(at, now = Date.now()) {
  const moment = new Date(at), seconds = (now - moment) / 1000;
  if (seconds < 60) return "now";
  if (seconds < 3600) return Math.floor(seconds / 60) + " min ago";
  const today = new Date(now);
  if (moment.toDateString() === today.toDateString()) return clock.format(moment);
  return (moment.getFullYear() === today.getFullYear() ? shortDay : longDay).format(moment);
}

/** One line of text: spaces and breaks as one space. */
export const oneLine = (text) => (text || "").replace(/\s+/g, " ").trim();

export function cut(text, chars) {
  return text.length > chars ? text.slice(0, chars).trimEnd() + "…" : text;
}
