// Values with their units, formatted by the rules of crates/record/src/quantity.rs.

import type { Unit } from './document';

/** Shown in place of a missing value. */
export const NOTHING = '–';

interface Scale {
  divisor: number;
  symbol: string;
}

const UNITS: { [unit in Unit]: [number, string[]] } = {
  ns: [1e3, ['ns', 'µs', 'ms', 's']],
  bytes: [1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']],
  'bytes/s': [1024, ['B/s', 'KiB/s', 'MiB/s', 'GiB/s', 'TiB/s']],
  '1/s': [1e3, ['ops/s', 'kops/s', 'Mops/s', 'Gops/s']],
  Hz: [1e3, ['Hz', 'kHz', 'MHz', 'GHz']],
  ratio: [1e3, ['']],
};

const OF_LOADS: typeof UNITS = { ...UNITS, '1/s': [1e3, ['requests/s']] };
let ofPage = UNITS;

/** What a page of loads counts are requests, as in its command. */
export function useUnitsOfLoads(isLoad: boolean): void {
  ofPage = isLoad ? OF_LOADS : UNITS;
}

/** The largest unit in which the rounded value is at least 1. */
export function scaleOf(value: number, unit: Unit, figures: number): Scale {
  const [step, symbols] = ofPage[unit];
  let scale: Scale = { divisor: 1, symbol: symbols[0] ?? '' };
  for (const symbol of symbols.slice(1)) {
    const scaled = value / scale.divisor;
    if (Math.abs(Number(scaled.toFixed(decimalsFor(scaled, figures)))) < step) break;
    scale = { divisor: scale.divisor * step, symbol };
  }
  return scale;
}

const magnitude = (value: number): number =>
  value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));

/** Decimals for so many significant figures: 9.9996 in four is 10.00, not 10.000. */
function decimalsFor(value: number, figures: number): number {
  const within = (decimals: number): number => Math.min(100, Math.max(0, decimals));
  const rounded = Number(value.toFixed(within(figures - 1 - magnitude(value))));
  return within(figures - 1 - magnitude(rounded));
}

const withoutZeros = (digits: string): string =>
  digits.includes('.') ? digits.replace(/\.?0+$/, '') : digits;

const withSymbol = (digits: string, { symbol }: Scale): string =>
  symbol === '' ? digits : `${digits} ${symbol}`;

/** `165.2 ns`, `4.498 GHz`; whole sizes without decimals: `32 KiB`. */
export function quantity(value: number | null | undefined, unit: Unit, figures = 4): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const scale = scaleOf(value, unit, figures);
  if (value === 0) return withSymbol('0', scale);
  const scaled = value / scale.divisor;
  const size = magnitude(scaled);
  const whole = unit === 'bytes' && Number.isInteger(scaled);
  const far = scaled !== 0 && (size < -3 || size >= 7);
  const near = scaled.toFixed(whole ? 0 : decimalsFor(scaled, figures));
  const digits = far && !whole ? scaled.toExponential(figures - 1).replace('e+', 'e') : near;
  return withSymbol(digits, scale);
}

/** No bound on a time is shown to be less than a picosecond. */
const LEAST_NS = 1e-3;

/** `≤ 0.2 ns`: two significant figures, rounded up: a bound rounded down would be wrong. */
export function atMost(least: number, unit: Unit): string {
  if (!Number.isFinite(least)) return NOTHING;
  const bound = unit === 'ns' ? Math.max(least, LEAST_NS) : least;
  const scale = scaleOf(bound, unit, 2);
  const scaled = bound / scale.divisor;
  const step = 10 ** (magnitude(scaled) - 1);
  const raised = Math.ceil((scaled / step) * (1 - 1e-12)) * step;
  const next = raised * scale.divisor;
  if (scaleOf(next, unit, 2).divisor !== scale.divisor) return atMost(next, unit);
  return withSymbol(`≤ ${withoutZeros(raised.toFixed(decimalsFor(raised, 2)))}`, scale);
}

/** `84–126 ns`, `> 16 ns`: a predicted range in three significant figures and one unit. */
export function range(
  low: number | null | undefined,
  high: number | null | undefined,
  unit: Unit,
  figures = 3,
): string {
  const limit = (sign: string, value: number): string => {
    const scale = scaleOf(value, unit, figures);
    const scaled = value / scale.divisor;
    return withSymbol(
      `${sign} ${withoutZeros(scaled.toFixed(decimalsFor(scaled, figures)))}`,
      scale,
    );
  };
  if (low != null && high != null) {
    const scale = scaleOf(high, unit, figures);
    const [from, to] = [low / scale.divisor, high / scale.divisor];
    const whole = unit === 'bytes' && Number.isInteger(from) && Number.isInteger(to);
    const decimals = Math.max(decimalsFor(to, figures), decimalsFor(from, figures - 1));
    const one = (value: number): string => {
      if (whole) return value.toFixed(0);
      const own = (): string => withoutZeros(value.toFixed(decimalsFor(value, figures)));
      return from < to / 20 ? own() : value.toFixed(decimals);
    };
    const text = one(from) === one(to) ? one(from) : `${one(from)}–${one(to)}`;
    return withSymbol(text, scale);
  }
  if (low != null) return limit('>', low);
  return high != null ? limit('<', high) : NOTHING;
}

/** A share in percent with two significant figures: `0.04 %`, `1.2 %`. Only all is `100 %`. */
export function percent(share: number): string {
  const value = share * 100;
  if (value >= 99.5 && value < 100) return `${(Math.floor(value * 10) / 10).toFixed(1)} %`;
  if (!Number.isFinite(value)) return NOTHING;
  if (Math.abs(value) >= 999.5) return '>999 %';
  return value === 0 ? '0 %' : `${value.toFixed(Math.min(2, decimalsFor(value, 2)))} %`;
}

/** A ratio in three significant figures: `1.57 ×`. */
export function factor(ratio: number): string {
  return `${ratio.toFixed(Math.min(3, decimalsFor(ratio, 3)))} ×`;
}

/** The limits of a ratio in its own decimals; with fewer it could look outside of them. */
export function factorLimits([low, high]: [number, number], ratio: number): string {
  const decimals = Math.min(3, decimalsFor(ratio, 3));
  return `${low.toFixed(decimals)}–${high.toFixed(decimals)}`;
}

/** An exact size: `64 KiB`, `1.5 MiB`, `1500 B`. */
export function binarySize(bytes: number): string {
  let [size, symbol] = [bytes, 'B'];
  for (const next of ['KiB', 'MiB', 'GiB', 'TiB']) {
    const scaled = size / 1024;
    if (Math.abs(scaled) < 1 || !Number.isInteger(scaled * 100)) break;
    [size, symbol] = [scaled, next];
  }
  return `${withoutZeros(size.toFixed(2))} ${symbol}`;
}
