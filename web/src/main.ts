// The page: reads the data once, and creates everything from it.

import { charts } from './charts/section';
import { samples } from './charts/samples';
import type { Contents } from './contents';
import { keepWords } from './contents';
import { element } from './element';
import type { Fleet } from './fleet';
import { fleet } from './fleet';
import './page.css';
import { summary, title } from './summary';
import { table } from './table';

/** Toggles light and dark; the system's setting is the default. */
function theme(): HTMLElement {
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const dark = (): boolean =>
    (root.dataset.theme ?? (system.matches ? 'dark' : 'light')) === 'dark';
  const button = element('button', { type: 'button', id: 'theme' });
  const update = (): void => button.replaceChildren(dark() ? 'Light' : 'Dark');
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    update();
  });
  system.addEventListener('change', update);
  update();
  return button;
}

/** The links to the sections of the page. */
const navigation = (links: [string, string][]): HTMLElement =>
  element(
    'nav',
    { 'aria-label': 'sections' },
    element('strong', {}, 'Fathom'),
    links.map(([id, name]) => element('a', { href: `#${id}` }, name)),
    theme(),
  );

/** Shows the main results first: the table and the charts of a long run take longer. */
function show(contents: Contents, place: HTMLElement): void {
  const links: [string, string][] = [
    ['cases', 'Cases'],
    ['charts', 'Charts'],
    ['raw', 'Raw values'],
  ];
  const raw = samples(contents);
  let filter: (verdict: string) => void = () => {};
  const nav = navigation(links.filter(([id]) => id !== 'raw' || raw !== null));
  place.replaceChildren(nav, summary(contents, (verdict) => filter(verdict)));
  const rest = (): void => {
    const cases = table(contents);
    filter = cases.show;
    place.append(cases.section, charts(contents), ...(raw === null ? [] : [raw]));
    // The browser looked for the target of the address before it existed, and the charts, which are
    // above it, are drawn in the next frame.
    const jump = (): void => document.getElementById(location.hash.slice(1))?.scrollIntoView();
    if (location.hash !== '') requestAnimationFrame(() => setTimeout(jump));
  };
  requestAnimationFrame(() => setTimeout(rest));
}

/** Shows the runs of one or a few machines, or many hosts. */
function main(place: HTMLElement): void {
  const data = document.getElementById('runs')?.textContent ?? '';
  const contents = JSON.parse(data) as Contents | { fleet: Fleet };
  if ('fleet' in contents) {
    const { title, links, sections } = fleet(contents.fleet);
    document.title = title;
    place.replaceChildren(navigation(links), ...sections);
    return;
  }
  keepWords(contents);
  document.title = title(contents);
  show(contents, place);
}

const place = document.getElementById('page');
if (place !== null) main(place);
