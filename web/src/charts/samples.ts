// The raw values of one case, process by process, in the order measured.

import * as Plot from '@observablehq/plot';
import type { Contents, Process } from '../contents';
import { intervalOf, letter, numberOf, reasonsOf, hasNumber, titleOf, wordsOf } from '../contents';
import { element } from '../element';
import { quantity } from '../quantity';
import { LOOKS, closeAxis, scale, upright, valueAxis } from './axes';
import type { Found } from './drawn';
import { figure } from './figure';
import { colour } from './marks';

const SAYS =
  'Each raw value, hollow if its round was disturbed (counters); ' +
  'line: headline, band: its confidence interval.';

interface Value {
  process: number;
  at: number;
  value: number;
  disturbed: boolean;
}

/** A case with raw values on the page. */
interface Sampled extends Found {
  processes: Process[];
  name: string;
}

function sampled(contents: Contents): Sampled[] {
  return contents.documents.flatMap((document, run) =>
    document.records.flatMap((record, at) => {
      const processes = contents.samples[run]?.[at] ?? [];
      const before = contents.documents.length > 1 ? `${letter(run)}: ` : '';
      const name = before + titleOf(record);
      if (processes.length === 0 || !hasNumber(record)) return [];
      return [{ run, document, record, processes, name }];
    }),
  );
}

/** Values in order, one process after another. */
function valuesOf({ processes }: Sampled): Value[] {
  return processes.flatMap((process, number) => {
    const disturbed = new Set(process.disturbed ?? []);
    return process.values.map((value, index) => ({
      process: number + 1,
      at: number + 0.6 + (0.8 * (index + 0.5)) / process.values.length,
      value,
      disturbed: disturbed.has(index),
    }));
  });
}

function draw(of: Sampled, width: number): SVGSVGElement[] {
  const { run } = of.document;
  const values = valuesOf(of);
  const { unit } = of.record;
  const all = values.map(({ value }) => value);
  const [median, ends] = [numberOf(of.record, run), intervalOf(of.record, run)];
  const log = Math.min(...all) > 0 && Math.max(...all) > 3 * Math.min(...all);
  const height = 320;
  const whole = [...all, ...(ends ?? [])];
  // An axis from zero would hide the differences between raw values.
  const axis = log ? valueAxis(whole, unit, true, height - 60) : closeAxis(whole, unit);
  const count = of.processes.length;
  const numbers = [...Array(count).keys()].map((at) => at + 1);
  const every = Math.max(1, Math.ceil((count * 22) / (width - 80)));
  const plot = Plot.plot({
    width,
    height,
    marginLeft: 78,
    marginRight: 12,
    marginTop: 28,
    marginBottom: 42,
    ...LOOKS,
    x: { type: 'linear', domain: [0.5, count + 0.5], axis: null },
    y: scale(axis),
    marks: [
      ...upright(axis, unit),
      Plot.axisX(
        numbers.filter((number) => (number - 1) % every === 0),
        {
          text: String,
          label: 'processes, each with its values in order',
          labelAnchor: 'center',
          labelArrow: 'none',
          tickSize: 0,
        },
      ),
      ends &&
        Plot.rectY([ends], {
          x1: 0.5,
          x2: count + 0.5,
          y1: ([from]: [number, number]) => from,
          y2: ([, to]: [number, number]) => to,
          fill: 'var(--faint)',
          fillOpacity: 0.13,
          className: 'interval',
        }),
      median !== null && Plot.ruleY([median], { stroke: 'var(--faint)', className: 'headline' }),
      Plot.dot(values, {
        x: 'at',
        y: 'value',
        r: 2.2,
        stroke: colour(of.run),
        fill: ({ disturbed }: Value) => (disturbed ? 'var(--paper)' : colour(of.run)),
        className: 'values',
        title: ({ process, value, disturbed }: Value) =>
          [
            `process ${process}: ${quantity(value, unit)}`,
            ...(disturbed ? ['disturbed (counters)'] : []),
          ].join('\n'),
        tip: { maxRadius: 16 },
      }),
    ].filter((mark) => mark !== null && mark !== false),
  });
  return [plot as SVGSVGElement];
}

function drawn(of: Sampled): HTMLElement {
  const every = Math.max(...of.processes.map((process) => process.every));
  const thinned = every === 1 ? [] : [`Every ${every}th value of a process is shown.`];
  const words = wordsOf(of.record).join(', ');
  const verdict = `${[words, ...reasonsOf(of.record)].join(': ')}.`;
  return figure({
    id: 'samples',
    title: of.name,
    says: SAYS,
    notes: [verdict, ...thinned],
    wide: true,
    draw: (width) => draw(of, width),
    head: ['process', 'value', 'disturbed'],
    rows: () =>
      valuesOf(of).map(({ process, value, disturbed }) => [
        String(process),
        quantity(value, of.record.unit),
        disturbed ? 'yes' : '',
      ]),
    csv: () => [
      ['process', 'value', 'unit', 'disturbed'],
      ...valuesOf(of).map(({ process, value, disturbed }) =>
        [process, value, of.record.unit, disturbed].map(String),
      ),
    ],
  });
}

/** A selection of cases, and the values of the selected one; null without any. */
export function samples(contents: Contents): HTMLElement | null {
  const all = sampled(contents);
  const head = element('h2', { id: 'raw' }, 'Raw values');
  if (contents.left_out) {
    const why =
      'The raw values of these runs are too large for one page; a page of one run may have room.';
    return element('section', { 'aria-labelledby': 'raw' }, head, element('p', {}, why));
  }
  if (all.length === 0) return null;
  const place = element('div', { class: 'charts' });
  const choice = element('select', { id: 'sampled' });
  choice.append(element('option', { value: '' }, 'choose a case'));
  all.forEach(({ name }, at) => choice.append(element('option', { value: at }, name)));
  choice.addEventListener('change', () => {
    const of = choice.value === '' ? undefined : all[Number(choice.value)];
    place.replaceChildren(...(of ? [drawn(of)] : []));
  });
  return element(
    'section',
    { 'aria-labelledby': 'raw' },
    head,
    element('p', { class: 'filters' }, element('label', { for: 'sampled' }, 'Case '), choice),
    place,
  );
}
