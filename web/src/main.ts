// The page: reads the data once, and creates everything from it.

import { charts } from './charts/section';
import { samples } from './charts/samples';
import type { Contents } from './contents';
import { keepWords } from './contents';
import { element } from './element';
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

function page(contents: Contents): Node[] {
  const cases = table(contents);
  const links: [string, string][] = [
    ['cases', 'Cases'],
    ['charts', 'Charts'],
    ['raw', 'Raw values'],
  ];
  const raw = samples(contents);
  const nav = element(
    'nav',
    { 'aria-label': 'sections' },
    element('strong', {}, 'Fathom'),
    links
      .filter(([id]) => id !== 'raw' || raw !== null)
      .map(([id, name]) => element('a', { href: `#${id}` }, name)),
    theme(),
  );
  const parts = [summary(contents, cases.show), cases.section, charts(contents), raw];
  return [nav, ...parts.filter((part) => part !== null)];
}

const contents = JSON.parse(document.getElementById('runs')?.textContent ?? '') as Contents;
keepWords(contents);
document.title = title(contents);
document.getElementById('page')?.replaceChildren(...page(contents));
