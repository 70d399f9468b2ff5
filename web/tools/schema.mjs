// Writes src/document.ts from ../docs/run.schema.json; with --check only says whether it is fresh.
import { readFileSync, writeFileSync } from 'node:fs';
import { compile } from 'json-schema-to-typescript';

const schema = JSON.parse(readFileSync(new URL('../../docs/run.schema.json', import.meta.url)));
const place = new URL('../src/document.ts', import.meta.url);
const bannerComment =
  '// Generated from docs/run.schema.json by `npm run schema`; change the Rust types instead.';
const text = await compile(schema, 'Document', { bannerComment, additionalProperties: false });
if (!process.argv.includes('--check')) {
  writeFileSync(place, text);
} else if (readFileSync(place, 'utf8') !== text) {
  console.error(
    'web/src/document.ts: is not up to date; run `npm run schema` and commit the result',
  );
  process.exitCode = 1;
}
