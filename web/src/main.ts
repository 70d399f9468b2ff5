// The page: creates everything from the data that are in it, or from those of its server.

import { live } from './live';
import './page.css';
import type { Data } from './view';
import { view } from './view';

function main(place: HTMLElement): void {
  const text = document.getElementById('runs')?.textContent ?? '';
  const data = JSON.parse(text) as Data | null;
  void (data === null ? live(place) : view(data, place));
}

const place = document.getElementById('page');
if (place !== null) main(place);
