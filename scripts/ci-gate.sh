#!/usr/bin/env bash
# Builds two commits, measures them in turn by `fathom bench --fail-on`, and reports the verdict: as a
# job summary, as one comment on the pull or merge request, and as a folder. action.yml and
# templates/fathom-gate/template.yml call it. All is set by the environment:
#   GATE_BUILD      command by which each commit is built, in its folder (bash -e)
#   GATE_RUN        command that is measured, in the same folder, without a shell
#   GATE_FAIL_ON    loss above which the gate fails, such as 3%
#   GATE_BASE       commit or branch to compare with; empty: the target of the request, else the parent
#   GATE_SETUP GATE_WARMUP GATE_TIME GATE_UNDECIDED   as the options of fathom bench; or empty
#   GATE_FATHOM     a fathom that is there; or the static program, downloaded and checked:
#   GATE_RELEASES GATE_VERSION GATE_SHA256            its folder (URL), version and checksum
#   GATE_NAME       tells gates of one request apart [default: gate]
#   GATE_FOLDER     folder of the report [default: fathom-NAME, in RUNNER_TEMP if there is one]
#   GATE_TOKEN      token that may comment; without one there is a warning
# Exit status: 0 pass, 3 fail, 5 undecided, 1 a command failed, 2 a setting or a program is missing or
# wrong, 6 the base cannot be built, 7 the head cannot be built, 130 interrupted.
set -euo pipefail
token=${GATE_TOKEN:-} child='' work='' report=''
# Of no interest to what is built and measured.
unset GATE_TOKEN

say() { echo "ci-gate: $*" >&2; }
warn() { if [ -n "${GITHUB_ACTIONS:-}" ]; then echo "::warning::ci-gate: $*"; else say "warning: $*"; fi; }
die() { say "${*:2}"; exit "$1"; }

# Ends what runs, and leaves the repository without worktrees of this script.
end() {
  trap '' INT TERM HUP
  if [ -n "$child" ] && kill -INT -- "-$child" 2>/dev/null; then
    for _ in {1..50}; do kill -0 -- "-$child" 2>/dev/null || break; sleep 0.1; done
    kill -KILL -- "-$child" 2>/dev/null || true
  fi
  if [ -n "$work" ]; then
    for side in base head; do
      [ ! -e "$work/$side" ] || git worktree remove --force "$work/$side" 2>/dev/null || true
    done
    rm -rf "$work"
    git worktree prune
  fi
}
trap end EXIT
trap 'exit 130' INT TERM HUP

# Runs a command in a process group of its own, all of which a signal then ends.
apart() {
  local status=0
  set -m
  "$@" </dev/null &
  child=$!
  set +m
  wait "$child" || status=$?
  child=
  return $status
}

api() { # method, URL, file of the answer, then arguments of curl: prints the status
  local field='Authorization: Bearer'
  [ -z "${CI_API_V4_URL:-}" ] || field='PRIVATE-TOKEN:'
  # The token comes through a pipe: arguments are public.
  curl -sS --max-time 30 -X "$1" -o "$3" -w '%{http_code}' -H 'Content-Type: application/json' "${@:4}" \
    --config <(printf 'header = "%s %s"\n' "$field" "$token") -- "$2" 2>"$work/curl" ||
    say "$(head -n 1 "$work/curl")"
}

# The comment that begins with the marker is changed, else one is added.
comment() {
  local list item change=PATCH
  if [ -n "${CI_API_V4_URL:-}" ]; then
    list=$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$number/notes item=$list change=PUT
  else
    item=${GITHUB_API_URL:-https://api.github.com}/repos/$GITHUB_REPOSITORY/issues
    list=$item/$number/comments item=$item/comments
  fi
  [ -n "$token" ] || { warn "no token: no comment"; return; }
  [[ $token =~ ^[A-Za-z0-9_.=-]+$ ]] || { warn "the token has characters of no token: no comment"; return; }
  local page own='' status count
  for page in {1..50}; do
    status=$(api GET "$list?per_page=100&page=$page" "$work/comments")
    [ "$status" = 200 ] || { warn "comments cannot be read (HTTP status $status): no comment"; return; }
    # Anybody can write the marker: on GitHub only comments of members and programs are taken.
    own=$(jq -r --arg marker "$marker" --arg own "$own" '[.[] | select(.body | startswith($marker))
      | select(.user == null or .user.type == "Bot" or
        (.author_association | IN("OWNER", "MEMBER", "COLLABORATOR"))) | .id] | last // $own' "$work/comments")
    count=$(jq length "$work/comments")
    [ "$count" = 100 ] || break
  done
  jq -n --rawfile body "$report/summary.md" '{$body}' >"$work/body"
  if [ -n "$own" ]; then
    status=$(api $change "$item/$own" "$work/answer" --data-binary "@$work/body")
    [[ $status != 2* ]] || return 0
  fi
  status=$(api POST "$list" "$work/answer" --data-binary "@$work/body")
  [[ $status == 2* ]] || warn "no comment: HTTP status $status"
}

# Ends with a status, after the answer is where people look. Letters that mean something in Markdown
# or HTML are written as numbers.
# shellcheck disable=SC2016 # these are variables of jq
letters='def plain: explode | map(if (. > 127) or ([.] | implode | test("[A-Za-z0-9 ./,:;()%=+-]"))
  then [.] | implode else "&#\(.);" end) | join("");'
finish() { # status, verdict, sentence, lines after it
  { echo "$marker"
    jq -nr --arg verdict "$2" --arg text "$3" "$letters"' "**\($verdict)**: \($text | plain)"'
    printf '\n%s\n' "${4:-}"; } >"$report/summary.md"
  say "$2: $3"
  [ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$report/summary.md" >>"$GITHUB_STEP_SUMMARY"
  [ -z "${GITHUB_OUTPUT:-}" ] || echo "verdict=$2" >>"$GITHUB_OUTPUT"
  [ -z "$number" ] || comment
  exit "$1"
}

for program in git curl jq sha256sum; do
  command -v $program >/dev/null || die 2 "$program is missing on this runner; install it before this step"
done
for setting in GATE_BUILD GATE_RUN GATE_FAIL_ON; do
  [ -n "${!setting:-}" ] || die 2 "$setting is empty; see the head of scripts/ci-gate.sh"
done
name=${GATE_NAME:-gate}
[[ $name =~ ^[A-Za-z0-9._-]+$ ]] || die 2 "GATE_NAME: letters, digits, '.', '_' and '-' only"
marker="<!-- fathom-gate:$name -->"
event() { jq -r "$1 // empty" "${GITHUB_EVENT_PATH:-/dev/null}"; }
number=${CI_MERGE_REQUEST_IID:-$(event .pull_request.number)}
[[ $number =~ ^[0-9]*$ ]] || die 2 "the number of the request is none"

report=${GATE_FOLDER:-${RUNNER_TEMP:-$PWD}/fathom-$name}
mkdir -p "$report" && report=$(cd "$report" && pwd)
rm -f "$report"/{build-base.log,build-head.log,bench.log,run.json,summary.md,fathom.db*}
[ -z "${GITHUB_OUTPUT:-}" ] || echo "report=$report" >>"$GITHUB_OUTPUT"
work=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/fathom-gate.XXXXXX")

fathom=${GATE_FATHOM:-}
if [ -n "${GATE_VERSION:-}" ]; then
  [[ $GATE_VERSION =~ ^[0-9A-Za-z.+-]+$ ]] || die 2 "GATE_VERSION: not a version"
  [[ ${GATE_SHA256:-} =~ ^[0-9a-f]{64}$ ]] || die 2 "GATE_SHA256: must be the 64 digits of the program's SHA-256"
  file=fathom-$GATE_VERSION-linux-$(uname -m) fathom=$work/fathom
  curl -fsSL --retry 2 --max-time 300 -o "$fathom" -- "${GATE_RELEASES%/}/$file" 2>"$work/curl" ||
    die 2 "$file: $(head -n 1 "$work/curl")"
  found=$(sha256sum <"$fathom")
  [ "${found%% *}" = "$GATE_SHA256" ] || die 2 "$file: SHA-256 is ${found%% *}, not GATE_SHA256; not executed"
  chmod +x "$fathom"
fi
fathom=$(command -v "${fathom:-fathom}") || die 2 "no fathom; set GATE_VERSION and GATE_SHA256, or GATE_FATHOM"
fathom=$(realpath "$fathom")

head=$(git rev-parse --verify HEAD) || die 2 "not in a git repository with a commit"
base=${GATE_BASE:-${CI_MERGE_REQUEST_TARGET_BRANCH_SHA:-${CI_MERGE_REQUEST_DIFF_BASE_SHA:-}}}
if [ -z "$base" ] && [ -n "$number" ] && [ "$head" != "${GITHUB_SHA:-}" ]; then
  base=$(event .pull_request.base.sha)
  base=$(git merge-base --end-of-options "$base" HEAD 2>/dev/null || echo "$base")
elif [ -z "$base" ]; then
  # A shallow clone knows the name of the parent only. GitHub checks out a merge into the target.
  base=$(git cat-file commit HEAD | sed -n '/^$/q; s/^parent //p' | head -n 1)
fi
[ -n "$base" ] || die 2 "no base: HEAD has no parent; set GATE_BASE"
[[ $base != -* ]] || die 2 "GATE_BASE: a commit or a branch, not an option"
if ! commit=$(git rev-parse --quiet --verify --end-of-options "$base^{commit}"); then
  depth=()
  [ "$(git rev-parse --is-shallow-repository)" = false ] || depth=(--depth 1)
  git fetch --quiet "${depth[@]}" origin -- "$base" 2>"$work/fetch" ||
    die 2 "base: no such commit here or at origin: $(head -n 1 "$work/fetch")"
  commit=$(git rev-parse FETCH_HEAD)
fi
base=$commit
[ "$base" != "$head" ] || die 2 "base and head are the same commit, ${head:0:12}; set GATE_BASE"

build() { cd "$work/$1" && bash -e -c "$GATE_BUILD" >"$report/build-$1.log" 2>&1; }
for side in base head; do
  # Paths of equal length: that of the program moves its stack.
  git worktree add --quiet --detach "$work/$side" "${!side}"
  say "builds $side, ${!side}"
  status=0
  apart build $side || status=$?
  if [ $status != 0 ]; then
    tail -n 20 "$report/build-$side.log" >&2
    own=6
    [ $side = base ] || own=7
    finish $own 'not measured' "$side (${!side}) cannot be built: GATE_BUILD exited with status $status"
  fi
done

# A JSON string is one of TOML, too.
for side in base head; do
  jq -nr --arg side $side --arg run "$GATE_RUN" --arg folder "$work/$side" \
    '"[[command]]\nname = \($side | @json)\nrun = \($run | @json)\nfolder = \($folder | @json)"'
done >"$work/bench.toml"
options=(--fail-on "$GATE_FAIL_ON" --label "$head")
for option in setup warmup time undecided; do
  setting=GATE_${option^^}
  [ -z "${!setting:-}" ] || options+=("--$option=${!setting}")
done
export FATHOM_STORE=$report/fathom.db COLUMNS=1000
bench() {
  cd "$work/head" && "$fathom" bench -f "$work/bench.toml" "${options[@]}" --json \
    >"$report/run.json" 2>"$report/bench.log"
}
status=0
apart bench || status=$?
case $status in
0 | 3 | 5) cat "$report/bench.log" >&2 ;;
130) exit 130 ;;
*) finish $status 'not measured' "$(sed -n 's/^fathom: //p' "$report/bench.log" | tail -n 1)" ;;
esac

sentence=$("$fathom" --color never show latest:bench 2>/dev/null | sed -n 1p)
verdict=$(jq -r '.conditions[0].answer' "$report/run.json")
[ -z "${GITHUB_OUTPUT:-}" ] || jq -r '.conditions[0] | def four: (. + 1) * 1e4 | round / 1e4;
  "ratio=\(.value // "" | if . == "" then . else four end)",
  (.interval // [] | "low=\(.[0] // "" | if . == "" then . else four end)",
    "high=\(.[1] // "" | if . == "" then . else four end)")' "$report/run.json" >>"$GITHUB_OUTPUT"
table=$(jq -r --arg run "$GATE_RUN" --arg base "$base" --arg head "$head" \
  --arg limit "$GATE_FAIL_ON" "$letters"'
  def fixed($d): (. * pow(10; $d) | round | tostring | "0" * ($d + 1 - length) + .)
    | if $d == 0 then . else .[:-$d] + "." + .[-$d:] end;
  # As the program writes numbers.
  def figures($n): fixed([0, $n - (if . < 1 then 0 elif . < 10 then 1 elif . < 100 then 2 else 3 end)] | max);
  def percent: (if . < 0 then "−" else "+" end) + "\(. * 100 | fabs | figures(2)) %";
  def time: if . == null then "–" elif . < 1e6 then "\(. / 1e3 | figures(4)) µs"
    elif . < 1e9 then "\(. / 1e6 | figures(4)) ms" else "\(. / 1e9 | figures(4)) s" end;
  def of($name): [.records[] | select(.metric == "bench.\($name)")][0].summary;
  .conditions[0] as $gate | .host as $host
  | (if $gate.value == null then "–" else $gate.value | percent end
    + if $gate.interval == null then " (no interval)"
      else " (\($gate.interval | map(percent) | join(" to ")))" end) as $change
  | "| verdict | change of the time | limit | base | head | runs |", "|---|---|---|---|---|---|",
    "| **\($gate.answer)** | \($change) | \($limit | sub(" *%?$"; " %") | plain) | \(
      of("base").median | time) | \(of("head").median | time) | \(of("head").n) of each |",
    "", ($gate.why // empty | "\(plain)\n"),
    "<code>\($run | plain)</code> of base \($base[:12]) and head \($head[:12]), in turn, on a "
    + (if $host.virtualization then "virtual machine (\($host.virtualization | plain))"
      else "machine" end)
    + (if $host.container then " in a container" else "" end)
    + ": \($host.cpu.model | plain), \($host.cpu.logical) CPUs, "
    + "Linux \($host.kernel | plain); fathom \(.tool.version | plain)"
  ' "$report/run.json")
taken=''
! jq -e '.conditions[0].why // "" | startswith("undecided (")' "$report/run.json" >/dev/null ||
  taken='undecided, taken for this; '
finish $status "$verdict" "$taken${sentence%.}" "$table"
