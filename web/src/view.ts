// A view from its data: runs, or many hosts; of a server also the list of runs and histories.

import { charts } from './charts/section';
import { samples } from './charts/samples';
import type { Contents } from './contents';
import { keepWords } from './contents';
import type { View } from './element';
import { element } from './element';
import type { Fleet } from './fleet';
import { fleet } from './fleet';
import type { Histories } from './history';
import { history } from './history';
import { address, identityOf, isLive, toComparison, toRuns } from './links';
import { useUnitsOfLoads } from './quantity';
import type { Runs } from './runs';
import { runs } from './runs';
import { summary, title } from './summary';
import { table } from './table';

export type Data = Contents | { fleet: Fleet } | { runs: Runs } | { history: Histories };

/** The views that need no name. */
const VIEWS: [string, string][] = [
  ['/', 'All runs'],
  ['/hosts', 'Hosts'],
  ['/history', 'Histories'],
];

/** The theme of all views of a server, in this tab. */
const THEME = 'theme';

/** Toggles light and dark; the system's setting is the default. */
function theme(): HTMLElement {
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const dark = (): boolean =>
    (root.dataset.theme ?? (system.matches ? 'dark' : 'light')) === 'dark';
  const button = element('button', { type: 'button', id: 'theme' });
  const update = (): void => button.replaceChildren(dark() ? 'Light' : 'Dark');
  const kept = isLive() && sessionStorage.getItem(THEME);
  if (kept) root.dataset.theme = kept;
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    if (isLive()) sessionStorage.setItem(THEME, root.dataset.theme);
    update();
  });
  system.addEventListener('change', update);
  update();
  return button;
}

/** The links to the sections of the page, and to the list of runs where there is one. */
export const navigation = (links: [string, string][]): HTMLElement =>
  element(
    'nav',
    { 'aria-label': 'sections' },
    isLive() ? VIEWS.map(([path, name]) => element('a', { href: address(path) }, name)) : element('strong', {}, 'Fathom'),
    links.map(([id, name]) => element('a', { href: `#${id}` }, name)),
    theme(),
  );

/** The form that compares a run with an earlier one. */
const comparing = (id: string): HTMLElement =>
  element(
    'form',
    { action: address('/compare'), method: 'get' },
    element(
      'label',
      { for: 'other' },
      'Compare with ',
      element('input', { id: 'other', name: 'a', value: 'latest~1', required: true, size: 17 }),
    ),
    element('input', { type: 'hidden', name: 'b', value: id }),
    ' ',
    element('button', { type: 'submit' }, 'Compare'),
  );

/** Where to go from a run: the runs of its host and of its label, and a comparison. */
function around({ documents }: Contents): HTMLElement | null {
  const [first, second] = documents;
  if (!isLive() || first === undefined) return null;
  const { label, id } = first.run;
  const host = first.host.name || 'this host';
  return element(
    'div',
    { class: 'around' },
    element('a', { href: toRuns({ host: identityOf(first) }) }, `Runs of ${host}`),
    label != null && element('a', { href: toRuns({ label }) }, `Runs with label ${label}`),
    second === undefined
      ? comparing(id)
      : element('a', { href: toComparison(second.run.id, id) }, 'Swap A and B'),
  );
}

/** A frame and a task later, so that what is there is drawn first. */
const drawn = (): Promise<void> =>
  new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

/** Shows the main results first: the table and the charts of a long run take longer. */
async function show(contents: Contents, place: HTMLElement, again: boolean): Promise<void> {
  // Of a load the curve says more than its rows.
  const isLoad = contents.documents.every(({ run }) => run.procedure === 'load');
  useUnitsOfLoads(isLoad);
  const links: [string, string][] = [
    ['cases', 'Cases'],
    ['charts', 'Charts'],
    ['raw', 'Raw values'],
  ];
  if (isLoad) links.unshift(...links.splice(1, 1));
  const raw = samples(contents);
  let filter: (verdict: string) => void = () => {};
  const nav = navigation(links.filter(([id]) => id !== 'raw' || raw !== null));
  const top = [nav, around(contents), summary(contents, (verdict) => filter(verdict))];
  if (!again) place.replaceChildren(...top.filter((part) => part !== null));
  await drawn();
  const cases = table(contents);
  filter = cases.show;
  const rest = [cases.section, charts(contents), ...(raw === null ? [] : [raw])];
  if (isLoad) rest.unshift(...rest.splice(1, 1));
  if (again) place.replaceChildren(...top.filter((part) => part !== null), ...rest);
  else place.append(...rest);
  // The browser looked for the target of the address before it existed, and the charts, which are
  // above it, are drawn in the next frame.
  if (location.hash === '' || again) return;
  await drawn();
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

/** Shows data in a place; `again` if it shows an older state of them. */
export async function view(data: Data, place: HTMLElement, again = false): Promise<void> {
  if ('fleet' in data || 'runs' in data || 'history' in data) {
    const of = (): View => {
      if ('fleet' in data) return fleet(data.fleet);
      return 'runs' in data ? runs(data.runs) : history(data.history);
    };
    const made = of();
    document.title = made.title;
    place.replaceChildren(navigation(made.links), ...made.sections);
    return;
  }
  keepWords(data);
  document.title = title(data);
  await show(data, place, again);
}

/** Whether a run in these data may still get results. */
export function isRunning(data: Data): boolean {
  const open = (state: string | undefined): boolean => state === 'running' || state === 'unknown';
  if ('runs' in data) return data.runs.rows.some(({ state }) => open(state));
  return 'documents' in data && data.documents.some(({ run }) => open(run.state));
}
