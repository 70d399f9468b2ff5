// Writes src/document.ts, the types of a run's JSON, from ../docs/run.schema.json.
import { readFileSync, writeFileSync } from 'node:fs';
import { compile } from 'json-schema-to-typescript';

const schema = JSON.parse(readFileSync(new URL('../../docs/run.schema.json', import.meta.url)));
const bannerComment = '// Generated from docs/run.schema.json; change the Rust types instead.';
const text = await compile(schema, 'Document', { bannerComment, additionalProperties: false });
writeFileSync(new URL('../src/document.ts', import.meta.url), text);
