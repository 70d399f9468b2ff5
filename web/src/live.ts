// The page of `fathom ui`: fetches the data of its address, says in one line what is wrong, and
// fetches again while a run is measured, or until the store can be read.

import { element } from './element';
import { dataPath, setLive } from './links';
import { ask, takeToken } from './server';
import type { Data } from './view';
import { isRunning, navigation, view } from './view';

/** Between two requests for the data of a run that is measured: each takes CPU time of its host,
 * which may be this one. */
const POLL_MS = 5_000;
/** Between two requests after one that failed. */
const RETRY_MS = 3_000;
/** Between two looks at whether somebody still works with the page. */
const USE_MS = 250;

const RUNNING = 'A run is being measured; this page shows what it has so far.';

/** Waits, and as long as nobody can see the page. */
async function pause(time: number): Promise<void> {
  await new Promise((done) => setTimeout(done, time));
  while (document.hidden)
    await new Promise((done) =>
      document.addEventListener('visibilitychange', done, { once: true }),
    );
}

/** Whether somebody works with the page, which new contents would undo. */
function isInUse(place: HTMLElement): boolean {
  const { activeElement: active } = document;
  const isFocused = active !== null && place.contains(active);
  return isFocused || place.querySelector('input:checked') !== null;
}

/** The fields of a page, which new contents keep. */
const fields = (place: HTMLElement): (HTMLInputElement | HTMLSelectElement)[] =>
  Array.from(place.querySelectorAll('input:not([type=radio]), select'));

/** Shows new contents, as soon as nobody works with the old ones or the button is pressed. */
async function renew(data: Data, place: HTMLElement, bar: HTMLElement): Promise<void> {
  let pressed = false;
  const press = (): void => {
    pressed = true;
  };
  if (isInUse(place))
    bar.replaceChildren(element('button', { type: 'button', onclick: press }, 'Show new results'));
  while (isInUse(place) && !pressed) await pause(USE_MS);
  const kept = new Map(fields(place).map(({ id, value }) => [id, value]));
  const { scrollX: x, scrollY: y } = window;
  await view(data, place, true);
  for (const field of fields(place)) {
    const value = kept.get(field.id);
    if (value === undefined || value === field.value) continue;
    field.value = value;
    field.dispatchEvent(new Event(field instanceof HTMLSelectElement ? 'change' : 'input'));
  }
  scrollTo(x, y);
}

export async function live(place: HTMLElement): Promise<void> {
  setLive();
  takeToken();
  const bar = element('p', { id: 'state', role: 'status' });
  place.before(bar);
  const path = dataPath();
  let shown: string | null = null;
  for (;;) {
    const answer = await ask(path);
    if ('error' in answer) {
      if (shown === null) place.replaceChildren(navigation([]), element('h1', {}, 'No data'));
      bar.className = 'warn';
      bar.replaceChildren(answer.error);
      if (!answer.retry) return;
      await pause(RETRY_MS);
      continue;
    }
    const data = JSON.parse(answer.text) as Data;
    const running = isRunning(data);
    if (shown === null) await view(data, place);
    else if (answer.text !== shown) await renew(data, place, bar);
    shown = answer.text;
    bar.className = '';
    bar.replaceChildren(running ? RUNNING : '');
    if (!running) return;
    await pause(POLL_MS);
  }
}
