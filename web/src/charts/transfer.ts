// The charts of `fathom transfer`, for each set: times in the order of the terminal's table, and the
// effects of the settings.

import type { Contents } from '../contents';
import { factText, intervalOf, letter, numberOf, reasonsOf } from '../contents';
import { effectText, setText, settingsText, transferText, usualOf } from '../parameters';
import type { Ratio } from './forest';
import type { Found } from './drawn';
import { pointTip, recordsOf } from './points';
import type { DotSpec } from './specs';

/** The records of a metric for each set. */
function bySet(contents: Contents, metric: string): [string, Found[]][] {
  const all = recordsOf(contents, { metrics: [metric] });
  const sets = [...new Set(all.map(({ record }) => setText(record.params)))];
  return sets.map((set) => [set, all.filter(({ record }) => setText(record.params) === set)]);
}

/** A chart of times per set. */
export function transferSpecs(contents: Contents): DotSpec[] {
  return bySet(contents, 'transfer.time').map(([set, all], at) => {
    const usual = usualOf(all.map(({ record }) => record.params));
    return {
      kind: 'dots',
      id: `transfer-${at + 1}`,
      title: `Transfer of ${set}`,
      says: `Median time and rate, send to receive; if not named: ${settingsText(usual)}.`,
      metrics: ['transfer.time'],
      only: (params) => setText(params) === set,
      name: (params) => transferText(params, usual),
      fact: 'rate',
      measure: 'fathom transfer',
      wide: true,
    };
  });
}

function ratioOf(found: Found, contents: Contents): Ratio[] {
  const { run, document, record } = found;
  const ratio = numberOf(record, document.run);
  if (ratio === null) return [];
  const [low, high] = intervalOf(record, document.run) ?? [ratio, ratio];
  const several = contents.documents.length > 1;
  // An interaction is neither faster nor slower, and without an interval nothing is.
  const clear = !('with' in record.params) && low < high;
  const kind = clear && high < 1 ? 1 : clear && low > 1 ? 2 : 0;
  const values = (record.facts ?? []).map((fact) => `${fact.name} ${factText(fact)}`);
  return [
    {
      name: [several && letter(run), effectText(record.params)].filter(Boolean).join(' '),
      ...{ ratio, low, high, kind, hollow: record.verdict.state === 'noisy' },
      title: [pointTip(found, contents), ...values].join('\n'),
      values: values.join(', '),
      verdict: record.verdict.state,
      cause: reasonsOf(record).join('; '),
    },
  ];
}

interface Effects {
  id: string;
  title: string;
  says: string;
  ratios: Ratio[];
  head: string;
}

const INTERACTIONS =
  'The effect where another setting has the level named ÷ the effect at its reference level.';
const EFFECTS =
  'Time with a level ÷ time with the other one, all else equal; green: faster, red: slower, ' +
  'grey: inconclusive.';

/** The effects of settings on each set, and apart from them their interactions. */
export function transferEffects(contents: Contents): Effects[] {
  return bySet(contents, 'transfer.effect').flatMap(([set, all], at) =>
    [false, true].map((interact) => {
      const of = all.filter(({ record }) => 'with' in record.params === interact);
      const ratios = of.flatMap((found) => ratioOf(found, contents));
      const id = `${interact ? 'interactions' : 'effects'}-${at + 1}`;
      const title = `${interact ? 'Interactions' : 'Effects'} on ${set}`;
      const says = interact ? INTERACTIONS : EFFECTS;
      const head = interact ? 'effect ÷ effect' : 'time ×';
      return { id, title, says, ratios, head };
    }),
  );
}
