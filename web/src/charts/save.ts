// Saves a chart as a standalone SVG or PNG, in which colours and fonts are embedded so that it
// looks the same everywhere, and its data as CSV.

import { svgElement } from '../element';

const SPACE = 'http://www.w3.org/2000/svg';

/** The light colours of the page, as a style attribute. */
function colours(): string {
  const style = getComputedStyle(document.documentElement);
  const names = [...Array(8).keys()].map((at) => `--s${at}`);
  const kinds = [...Array(4).keys()].map((at) => `--k${at}`);
  const all = [...names, ...kinds, '--paper', '--ink', '--line', '--faint', '--published'];
  const light = (value: string): string => value.trim().replace(/^light-dark\(([^,]+),.*\)$/, '$1');
  return all.map((name) => `${name}:${light(style.getPropertyValue(name))}`).join(';');
}

const LOOK = 'color:var(--ink);background:var(--paper);font-family:system-ui,sans-serif';

/** All drawings of a figure below its title, as one SVG. */
function standalone(drawing: Element, title: string): string {
  const all = [...drawing.querySelectorAll<SVGSVGElement>(':scope > svg')];
  const head = 34;
  const width = Math.max(...all.map((svg) => Number(svg.getAttribute('width'))));
  const heights = all.map((svg) => Number(svg.getAttribute('height')));
  const height = heights.reduce((sum, each) => sum + each, head);
  const whole = svgElement(
    'svg',
    {
      ...{ xmlns: SPACE, role: 'img', 'aria-label': title, width, height },
      viewBox: `0 0 ${width} ${height}`,
      style: `${colours()};${LOOK}`,
    },
    svgElement(
      'text',
      { x: 8, y: 22, style: 'font-size:15px;font-weight:600;fill:var(--ink)' },
      title,
    ),
  );
  let top = head;
  all.forEach((svg, at) => {
    const copy = svg.cloneNode(true) as SVGSVGElement;
    copy.querySelectorAll('[aria-label="tip"]').forEach((tip) => tip.remove());
    copy.setAttribute('y', String(top));
    top += heights[at] ?? 0;
    whole.append(copy);
  });
  return new XMLSerializer().serializeToString(whole);
}

/** Pixels of a PNG per pixel of the page. */
const DENSITY = 2;

function save(file: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function saveSvg(drawing: Element, id: string, title: string): void {
  save(new Blob([standalone(drawing, title)], { type: 'image/svg+xml' }), `${id}.svg`);
}

export async function savePng(drawing: Element, id: string, title: string): Promise<void> {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(standalone(drawing, title))}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width * DENSITY, image.height * DENSITY];
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((file) => file && save(file, `${id}.png`), 'image/png');
}

/** A cell of a CSV table; quoted where it must be. */
const cell = (text: string): string =>
  /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

export function saveCsv(rows: string[][], id: string): void {
  const text = rows.map((row) => `${row.map(cell).join(',')}\n`).join('');
  save(new Blob([text], { type: 'text/csv' }), `${id}.csv`);
}
