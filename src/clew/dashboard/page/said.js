// One short sentence at the foot of the page, read out too: what an action did. It goes away by itself.

import { useEffect, useState } from "./vendor/htm-preact.js";

const SHOWN_MILLISECONDS = 6_000;
let show = () => {};

export const say = (text) => show(text);

export function useSaid() {
  const [said, setSaid] = useState(null);
  useEffect(() => {
    let timer = 0;
    show = (text) => {
      clearTimeout(timer);
      setSaid(text);
      timer = setTimeout(() => setSaid(null), SHOWN_MILLISECONDS);
    };
  }, []);
  return said;
}
