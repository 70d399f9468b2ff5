// The page: what the program put into it is read once, and everything is made from that.

import { charts } from './charts/section';
import { samples } from './charts/samples';
import type { Contents } from './contents';
import { keepWords } from './contents';
import { element } from './element';
import './page.css';
import { summary, title } from './summary';
import { table } from './table';

/** Between light and dark; before the first press the system's choice holds. */
function theme(): HTMLElement {
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const dark = (): boolean =>
    (root.dataset.theme ?? (system.matches ? 'dark' : 'light')) === 'dark';
  const button = element('button', { type: 'button', id: 'theme' });
  const say = (): void => button.replaceChildren(dark() ? 'Light' : 'Dark');
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    say();
  });
  system.addEventListener('change', say);
  say();
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
    { 'aria-label': 'parts of the page' },
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
