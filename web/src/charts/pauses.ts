// Pauses of a server: slices of time without a response.

/** At a low rate a slice without a response is chance: so many are to be expected in a pause. */
const EXPECTED_MIN = 10;

/** The slices of pauses in which responses were to be expected. */
export function silentOf<T extends { responses: number; first: boolean }>(slices: T[]): T[] {
  const all = slices.reduce((sum, { responses }) => sum + responses, 0);
  const pauses: T[][] = [[]];
  for (const slice of slices) {
    if (slice.first || slice.responses > 0) pauses.push([]);
    if (slice.responses === 0) pauses.at(-1)?.push(slice);
  }
  const isLong = (pause: T[]): boolean => (pause.length * all) / slices.length >= EXPECTED_MIN;
  return pauses.filter(isLong).flat();
}
