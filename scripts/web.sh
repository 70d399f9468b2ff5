#!/usr/bin/env bash
# Builds the page of `fathom report` and packages it as web/packaged/report.html, beside the licences
# of what is in it, unless that is up to date. Exits with 3 if Node or the packages are missing. `web.sh packages` only installs the npm
# packages.
set -euo pipefail
cd "$(dirname "$0")/../web"
cannot() {
  echo "web: $1" >&2
  exit 3
}
command -v node >/dev/null 2>&1 || cannot "node not found; Node 20.19 or newer is required"
command -v npm >/dev/null 2>&1 || cannot "npm not found"
node -e 'const [a, b] = process.versions.node.split(".").map(Number);
         process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
  cannot "Node $(node --version) is too old; 20.19 or newer is required"
lock=node_modules/.package-lock.json
if [ ! -e "$lock" ] || [ package-lock.json -nt "$lock" ]; then
  npm ci --silent --no-audit --no-fund || cannot "npm ci failed"
fi
[ "${1:-}" = packages ] && exit 0
page=dist/report.html
newer() {
  find src tools index.html package-lock.json tsconfig.json vite.config.mjs ../docs/run.schema.json \
    -type f -newer "$page" -print -quit
}
if [ ! -e "$page" ] || [ -n "$(newer)" ]; then
  npm run --silent check
  npm run --silent build -- --logLevel warn
fi
# An equal page is left alone: cargo would build the program again.
for file in report.html licences.md; do
  cmp -s "dist/$file" "packaged/$file" || cp "dist/$file" packaged/
done
