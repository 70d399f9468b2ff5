#!/usr/bin/env bash
# The dashboard has the fields that Grafana's own types know, and no others; Grafana itself, which
# Debian does not have, is not started:
#   grafana.sh [FATHOM]
. "$(dirname "$0")/../failures.sh"
here=$(realpath "$(dirname "$0")")
skip() { echo "skipped: $1"; exit 0; }
command -v npm >/dev/null || skip "no npm (package npm)"
folder=${CARGO_TARGET_DIR:-$here/../../target}/lab-grafana
mkdir -p "$folder"
cd "$folder"
npm install --silent --no-audit --no-fund @grafana/schema@13.2.3 typescript@7.0.2 || skip "npm cannot install @grafana/schema"
checked() { # a dashboard
  {
    echo "import { type Dashboard, ThresholdsMode } from '@grafana/schema';"
    echo "export const dashboard: Dashboard ="
    # A member of an enumeration is no text to TypeScript.
    sed 's/"mode": "absolute"/"mode": ThresholdsMode.Absolute/' "$1"
  } >dashboard.ts
  npx tsc --noEmit --strict --skipLibCheck --moduleResolution bundler --module esnext \
    --target es2022 dashboard.ts
}
recipe=$here/../../docs/recipes/grafana-dashboard.json
checked "$recipe"
sed '0,/"gridPos"/s//"gridPosition"/' "$recipe" >wrong.json
! checked wrong.json >/dev/null || { echo "grafana: a wrong field passes"; exit 1; }
echo "grafana-dashboard.json: valid by the types of @grafana/schema 13.2.3"
