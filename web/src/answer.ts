// The answer of a load, before anything else: requests per second, what limits them, and the knee.

import type { Document, Result } from './contents';
import {
  edgeOf,
  factsOf,
  hasNumber,
  nameOf,
  numberOf,
  shown,
  whyOf,
  widthText,
} from './contents';
import { element } from './element';
import { parametersText, words } from './parameters';
import { quantity, range } from './quantity';
import { cards, statusWord } from './tiles';

/** The steps of a case differ in these. */
const OF_STEP = ['clients', 'rate'];

const caseOf = ({ params }: Result): string =>
  JSON.stringify(Object.entries(params).filter(([name]) => !OF_STEP.includes(name)));

const perSecond = (value: number, noisy = false): string =>
  `${noisy ? '~' : ''}${Number(value.toPrecision(3)).toLocaleString('en')} requests/s`;

interface Answer {
  title: string;
  /** What it rests on, itself included. */
  of: Result[];
  value: string;
  width?: string;
  notes: (string | null | undefined | false)[];
}

/** Nothing that rests on a noisy step is valid. */
function stateOf(of: Result[]): string {
  const without = of.find((record) => !hasNumber(record));
  if (without) return without.verdict.state;
  return of.some(({ verdict }) => verdict.state === 'noisy') ? 'noisy' : 'valid';
}

function tile({ title, of, value, width = '', notes }: Answer): HTMLElement {
  const state = value === 'undetermined' ? 'inconclusive' : stateOf(of);
  return element(
    'li',
    { class: 'tile', title: of[0] ? nameOf(of[0]) : title },
    statusWord(value === 'undetermined' ? value : state, state),
    element('strong', { class: 'name' }, title),
    value !== 'undetermined' &&
      element(
        'span',
        { class: 'value' },
        value,
        width !== '' && ' ',
        width !== '' && element('span', { class: 'width' }, width),
      ),
    notes.filter((note) => note).map((note) => element('small', {}, note || '')),
  );
}

/** `2 of 8 steps noisy: CPU contention`, and those without a number. */
function stepNotes(steps: Result[]): string[] {
  const noisy = steps.filter(({ verdict }) => verdict.state === 'noisy');
  const without = steps.filter((step) => !hasNumber(step));
  return [noisy, without].flatMap((some) => {
    const first = some[0];
    if (first === undefined) return [];
    const which = steps.length > 1 ? `${some.length} of ${steps.length} steps ` : '';
    return [`${which}${first.verdict.state}: ${whyOf(first)[0]?.text ?? ''}`];
  });
}

/** `median 1.20 ms, p99 9.00 ms at 8 clients`. */
function timesOf(step: Result, { records, run }: Document): string | undefined {
  const params = JSON.stringify(step.params);
  const times = records.find(
    (record) =>
      record.metric === 'load.response_time' && JSON.stringify(record.params) === params,
  );
  const median = times && numberOf(times, run);
  if (times === undefined || median == null) return undefined;
  const p99 = times.summary?.quantiles?.find(({ q }) => q === 0.99);
  const all = [`median ${quantity(median, 'ns', 3)}`, p99 && `p99 ${quantity(p99.value, 'ns', 3)}`];
  const at = OF_STEP.flatMap((name) => {
    const value = step.params[name];
    return value === undefined ? [] : [words(name, value)];
  });
  return `${all.filter(Boolean).join(', ')} at ${at.join()}`;
}

/** No step has a number. */
const none = (steps: Result[]): Answer[] => [
  { title: 'Throughput', of: steps, value: 'none', notes: stepNotes(steps) },
];

/** The answers of the steps of a closed loop. */
function closed(steps: Result[], document: Document): Answer[] {
  const { records, run } = document;
  const number = (record: Result | undefined): number | null =>
    record ? numberOf(record, run) : null;
  const best = steps
    .filter((step) => number(step) !== null)
    .sort((a, b) => (number(b) ?? 0) - (number(a) ?? 0))[0];
  if (best === undefined) return none(steps);
  const measured = steps.filter(hasNumber);
  const key = caseOf(best);
  const found = (metric: string): Result | undefined =>
    records.find((record) => record.metric === metric && caseOf(record) === key);
  const [saturation, limit] = [found('load.saturation'), found('load.bottleneck')];
  const [knee, most] = [found('load.knee'), found('load.clients_95')];
  const level = number(saturation);
  const at = words('clients', best.params.clients ?? '');
  const noisy = stateOf(measured) === 'noisy';
  const answers: Answer[] = [
    {
      title: level === null ? 'Highest throughput' : 'Throughput at saturation',
      of: [...(level !== null && saturation ? [saturation] : [best]), ...measured],
      value: perSecond(level ?? number(best) ?? 0, noisy),
      width: widthText(level !== null && saturation ? saturation : best, run),
      notes: [
        level === null && `at ${at}`,
        level === null && saturation && whyOf(saturation)[0]?.text,
        timesOf(best, document),
        ...stepNotes(steps),
      ],
    },
  ];
  const name = limit && shown(limit, run);
  if (limit && name?.kind === 'text') {
    const text = name.text === 'serial' ? 'one request at a time' : words('of', name.text);
    const proof = factsOf(limit, 'proof').map((word) => `added load: ${word}`);
    const notes = [...whyOf(limit).map((why) => why.text), ...proof];
    answers.push({ title: 'Limit', of: [limit, ...measured], value: text, notes });
  }
  const at95 = most && edgeOf(most, run);
  const clients = number(knee);
  if (knee && clients !== null)
    answers.push({
      title: 'Knee',
      of: [knee, ...measured],
      value: `${quantity(clients, 'ratio', 3)} clients`,
      width: widthText(knee, run),
      notes: [at95 && `95 % of saturation at ${range(at95[0], at95[1], 'ratio')} clients`],
    });
  return answers;
}

/** The answer of the steps of an open loop. */
function open(steps: Result[], document: Document): Answer[] {
  const rate = ({ params }: Result): number => Number(params.rate);
  const ascending = [...steps].sort((a, b) => rate(a) - rate(b));
  const best = ascending.filter(hasNumber).at(-1);
  const beyond = ascending.find((step) => !hasNumber(step));
  const reason = (step: Result): string => whyOf(step)[0]?.text ?? step.verdict.state;
  const why = beyond && `${perSecond(rate(beyond))}: ${reason(beyond)}`;
  if (best === undefined) return none(steps);
  const noisy = best.verdict.state === 'noisy' && reason(best);
  const notes = [timesOf(best, document), why, noisy];
  return [{ title: 'Highest rate sustained', of: [best], value: perSecond(rate(best)), notes }];
}

/** The answer of a search. */
const searched = (record: Result, { run }: Document): Answer[] => {
  const value = numberOf(record, run);
  if (value === null) return [];
  const facts = ['limits', 'beyond'].flatMap((name) => factsOf(record, name));
  const noisy = record.verdict.state === 'noisy';
  return [
    {
      title: 'Highest rate within limits',
      of: [record],
      value: perSecond(value, noisy),
      width: widthText(record, run),
      notes: [...facts, ...whyOf(record).map(({ text }) => text)],
    },
  ];
};

/** The answers of each case of a load; nothing of other runs. */
export function answers(document: Document): HTMLElement[] {
  const steps = document.records.filter(({ metric }) => metric === 'load.throughput');
  const keys = [...new Set(steps.map(caseOf))];
  const cases = keys.map((key) => steps.filter((step) => caseOf(step) === key));
  const found = cases.map((of): [Result | undefined, Answer[]] => [
    of[0],
    of[0] && 'rate' in of[0].params ? open(of, document) : closed(of, document),
  ]);
  const max = document.records.filter(({ metric }) => metric === 'load.max_rate');
  const all = [...found, ...max.map((one): [Result, Answer[]] => [one, searched(one, document)])];
  return all
    .filter(([, answers]) => answers.length > 0)
    .flatMap(([step, answers]) => {
      const name = parametersText(step?.params ?? {}, (name) => !OF_STEP.includes(name));
      const made = cards(`answer: ${name}`, answers.map(tile));
      const title = all.length > 1 && element('p', {}, name);
      return [element('div', { class: 'answer' }, title, made)];
    });
}
