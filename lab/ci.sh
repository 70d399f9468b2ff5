#!/usr/bin/env bash
# The gate of CI (scripts/ci-gate.sh) through action.yml and through GitLab's component, in a
# repository with planted changes and with the API of comments on loopback; GitHub and GitLab
# themselves are not there:
#   ci.sh FATHOM
. "$(dirname "$0")/failures.sh"
fathom=$(realpath "$1") root=$(realpath "$(dirname "$0")/..")
out=$(mktemp -d -p /var/tmp)
server='' wrong=0
stop() { trap - EXIT; [ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$out"; }
trap stop EXIT
trap 'exit 130' INT TERM HUP
skip() { echo "skipped: $1"; exit 0; }
python=/usr/bin/python3
$python -c 'import yaml' 2>/dev/null || skip "no yaml in Python (package python3-yaml)"
for program in jq curl git; do command -v $program >/dev/null || skip "no $program (package $program)"; done

schemas() {
  local venv=${CARGO_TARGET_DIR:-$root/target}/lab-ci checker=check-jsonschema==0.39.0
  if ! grep -qsx $checker "$venv/made-from"; then
    rm -rf "$venv"
    { python3 -m venv "$venv" && "$venv/bin/pip" install -q $checker && echo $checker >"$venv/made-from"; } \
      >/dev/null 2>&1 || { echo "skipped: schemas: pip cannot install $checker"; return; }
  fi
  local valid=("$venv/bin/check-jsonschema" --builtin-schema)
  "${valid[@]}" vendor.github-actions "$root/action.yml"
  sed '/^---$/,$d' "$root/templates/fathom-gate/template.yml" >"$out/head.yml"
  sed '1,/^---$/d' "$root/templates/fathom-gate/template.yml" >"$out/jobs.yml"
  "${valid[@]}" vendor.gitlab-ci "$out/head.yml" "$out/jobs.yml"
  sed 's/using: composite/using: nothing/' "$root/action.yml" >"$out/wrong-action.yml"
  sed 's/artifacts:/artefacts:/; s/expand: false/expand: 3/' "$out/jobs.yml" >"$out/wrong-jobs.yml"
  ! "${valid[@]}" vendor.github-actions "$out/wrong-action.yml" >/dev/null || return 1
  ! "${valid[@]}" vendor.gitlab-ci "$out/wrong-jobs.yml" >/dev/null || return 1
  echo "action.yml, template.yml: valid by the schemas of $checker; wrong ones are not"
}
part schemas schemas
if command -v shellcheck >/dev/null; then part shellcheck shellcheck -e SC2317 "$root/scripts/ci-gate.sh"
else echo "skipped: shellcheck is missing (package shellcheck)"; fi

# What curl is called with is recorded: a token must not be in it.
mkdir -p "$out"/{bin,tmp,releases}
printf '#!/bin/sh\nprintf "%%s\\n" "$*" >>"%s"\nexec %s "$@"\n' "$out/arguments" "$(command -v curl)" >"$out/bin/curl"
chmod +x "$out/bin/curl"
cp "$fathom" "$out/releases/fathom-9.9.9-linux-$(uname -m)"
sum=$(sha256sum <"$fathom") sum=${sum%% *}
"$root/lab/ci/comments.py" "$out" & server=$!
for _ in {1..100}; do [ -e "$out/port" ] && break; sleep 0.1; done
url=http://127.0.0.1:$(cat "$out/port")

# Versions of a program: each sleeps, and one cannot be built.
origin=$out/origin
git init -q -b main "$origin"
git -C "$origin" config user.name x && git -C "$origin" config user.email x@x
commit() { # name, seconds: prints the id
  (cd "$origin" && printf '%s\n' "$2" >prog.sh && git add -A && git commit -q --allow-empty -m "$1" && git rev-parse HEAD)
}
base=$(commit base 'sleep 0.1')
slow=$(commit slow 'sleep 0.13')
equal=$(git -C "$origin" checkout -q "$base" && commit 'equal $(touch pwned)' 'sleep 0.1 # other text')
broken=$(git -C "$origin" checkout -q "$base" && commit broken if)
mended=$(commit mended 'sleep 0.1')
# Each second run of it is slower than the base, the others are faster.
git -C "$origin" checkout -q "$base"
varied=$(commit varied 'n=$(cat n 2>/dev/null || echo 1); echo $((1 - n)) >n; sleep 0.$((3 * n))5')
git -C "$origin" checkout -q "$base"
# As GitHub makes it: a merge of the branch into its target.
merge=$(git -C "$origin" merge -q --no-ff -m merge "$slow" && git -C "$origin" rev-parse HEAD)
git -C "$origin" branch -q -f 'a$(touch${IFS}pwned)' "$merge"
repository=$out/repository
git clone -q "$origin" "$repository"
mkdir -p "$out/source/scripts" && cp "$root/scripts/ci-gate.sh" "$out/source/scripts/"
(cd "$out/source" && git init -q && git add -A && git -c user.name=x -c user.email=x@x commit -q -m x)
echo '{"pull_request": {"number": 7, "title": "$(touch pwned)", "base": {"sha": "'"$base"'"}}}' >"$out/event.json"

common=(build='sh -n prog.sh && cp prog.sh prog' run='sh ./prog' fail-on=12% time=3s warmup=1)
released=("${common[@]}" releases="$url/releases" version=9.9.9 sha256="$sum")
git_head() { git -C "$repository" checkout -q --detach "$1"; }
github() { # NAME=VALUE of inputs, replacing those of $inputs
  rm -rf "$out"/{output,step.md,report}
  (cd "$repository" && PATH=$out/bin:$PATH GITHUB_ACTIONS=true GITHUB_EVENT_NAME=pull_request \
    GITHUB_EVENT_PATH=$out/event.json GITHUB_SHA=${sha:-$merge} GITHUB_REPOSITORY=own/repo RUNNER_TEMP=$out/tmp \
    GITHUB_API_URL=$url/api GITHUB_OUTPUT=$out/output GITHUB_STEP_SUMMARY=$out/step.md FAKE_TOKEN=${token-right-token} \
    exec "$root/lab/ci/wrapper.py" "$root/action.yml" "${inputs[@]}" folder="$out/report" "$@" </dev/null)
}
gitlab() {
  rm -rf "$out/report" "$repository/fathom-report"
  (cd "$repository" && PATH=$out/bin:$PATH CI_API_V4_URL=$url/api/v4 CI_PROJECT_ID=5 CI_MERGE_REQUEST_IID=7 TMPDIR=$out/tmp \
    CI_MERGE_REQUEST_DIFF_BASE_SHA=$base GATE_TOKEN=${token-right-token} exec "$root/lab/ci/wrapper.py" \
    "$root/templates/fathom-gate/template.yml" source="$out/source" commit="$(git -C "$out/source" rev-parse HEAD)" \
    image=none "${inputs[@]}" "$@" </dev/null)
}
own_comments() { jq -r --arg list "$1" '.[$list][] | select(.id >= 1000) | .body' "$out/comments.json" 2>/dev/null || true; }
check() { # what, then a command that succeeds if that is so
  local answer=right
  "${@:2}" >/dev/null 2>&1 || { answer=WRONG && wrong=1 && cp "$out/said" "$out/said-wrong"; }
  echo "  $answer: $1"
}
says() { grep -qF -- "$1" "$out/said"; }
one_line() { [ "$(grep -c '^ci-gate: .*' "$out/said")" = "${1:-1}" ]; }
no() { ! "$@"; }
is_clean() {
  [ "$(git -C "$repository" worktree list | wc -l)" = 1 ] && [ -z "$(ls "$out/tmp")" ] &&
    ! find "$out" -name pwned | grep -q . && ! grep -rq right-token "$out"/{arguments,said,report,step.md} 2>/dev/null
}
outcome() { # name, expected status, command …
  local status=0
  "${@:3}" >"$out/said" 2>&1 || status=$?
  echo "$1: status $status"
  [ $status = "$2" ] || { sed 's/^/    /' "$out/said" && wrong=1 && echo "  WRONG: expected $2"; }
  check "no worktree, folder or token left" is_clean
}
inputs=("${released[@]}")

git_head "$merge"
outcome 'wrong checksum' 2 github sha256="${sum//[0-9]/0}"
check 'one line, not executed' eval 'one_line && says "not executed"'
outcome 'slower by 30 %' 3 github
check 'summary begins with the verdict' eval 'sed -n 2p "$out/step.md" | grep -q "^\*\*fail\*\*: head is .* slower than base"'
check 'one comment, as the summary' eval '[ "$(own_comments github)" = "$(cat "$out/step.md")" ]'
check 'base is the first parent, kind of host named' grep -qE "base ${base:0:12} and head ${merge:0:12}, .* (machine|virtual)" "$out/step.md"
outputs=$(sed -n 's/^ *value: .*outputs\.\([a-z]*\) }}$/\1/p' "$root/action.yml")
check 'outputs of action.yml' eval 'for name in $outputs; do grep -q "^$name=." "$out/output" || exit 1; done; grep -q "^ratio=1\.[23]" "$out/output"'
check 'folder keeps the run' eval '[ -s "$out/report/run.json" ] && "$fathom" show "$out/report/run.json"'

inputs=("${common[@]}" fathom="$fathom")
git_head "$equal"
outcome 'second push, no change' 0 github
check 'the comment is updated' eval '[ "$(own_comments github | grep -c "fathom-gate:gate")" = 1 ] && own_comments github | grep -q "^\*\*pass"'
check 'a comment of a stranger is not' eval 'jq -e ".github[0].body | endswith(\"stranger\")" "$out/comments.json"'
outcome 'second gate' 0 github name=other
check 'a comment of its own' eval '[ "$(own_comments github | grep -c "fathom-gate:")" = 2 ]'
git_head "$merge"
token='' outcome 'no token' 3 github
check 'warning' says '::warning::ci-gate: no token'
token=wrong-token outcome 'refused token' 3 github
check 'warning with the status' says '::warning::ci-gate: comments cannot be read (HTTP status 401)'
token='a"b' outcome 'hostile token' 3 github
check 'warning' says 'characters of no token'
sha=$varied git_head "$varied"
sha=$varied outcome 'neither' 5 github
check 'undecided' grep -q '^\*\*undecided\*\*: ' "$out/step.md"
sha=$varied outcome 'undecided passes' 0 github undecided=pass
check 'says so' grep -qF '(--undecided)' "$out/step.md"
sha=$mended git_head "$mended"
sha=$mended outcome 'base cannot be built' 6 github
check 'one line' eval 'says "base ($broken) cannot be built: GATE_BUILD exited with status 2" && one_line 2'
git_head "$broken"
outcome 'head cannot be built' 7 github
git_head "$equal"
outcome 'program fails' 1 github run='sh -c "exit 9"'
check 'its line is in the summary' grep -q '^\*\*not measured\*\*: .*sh -c .*status 9' "$out/step.md"
hostile="sh ./prog 'a|b' '\$(touch pwned)' '\`touch pwned\`' '<b>' @all '\${x}'"
outcome 'hostile command' 0 github "run=$hostile" base='a$(touch${IFS}pwned)' setup='true "$(id)"'
check 'is data, the table has its columns' eval 'grep -qE "^\|( [^|]+ \|){6}$" "$out/step.md" && grep -q "&#124;b.*&#60;b&#62;.*&#64;all" "$out/step.md" && no grep -q "<b>" "$out/step.md"'
outcome 'base is an option' 2 github base='--upload-pack=touch pwned'
check 'one line' one_line
outcome 'no build command' 2 github build=
check 'one line' one_line
mkdir "$out/few" && for program in bash git sha256sum dirname env; do ln -s "$(command -v $program)" "$out/few/"; done
outcome 'no curl' 2 eval 'cd "$repository" && PATH=$out/few "$root/scripts/ci-gate.sh"'
check 'names it in one line' eval 'one_line && says "curl is missing"'

git clone -q --depth 1 -b 'a$(touch${IFS}pwned)' "file://$origin" "$out/shallow"
repository=$out/shallow outcome 'shallow clone of a merge' 3 github
interrupted() { # folder that shows that it has come so far, inputs
  local status=0 child
  github "${@:2}" & child=$!
  for _ in {1..200}; do compgen -G "$1" >/dev/null && break; sleep 0.1; done
  pkill -INT -P "$child" || kill -INT "$child"
  wait "$child" || status=$?
  ! pgrep -f "^sleep 98$$" && return $status
}
git_head "$merge"
set -m
outcome 'Ctrl-C while building' 130 interrupted "$out/tmp/*/base/prog.sh" build="sleep 98$$"
outcome 'Ctrl-C while measuring' 130 interrupted "$out/report/bench.log" run="sleep 98$$"
set +m

git_head "$slow"
outcome 'GitLab: slower by 30 %' 3 gitlab
check 'one note, as the summary' eval '[ "$(own_comments gitlab)" = "$(cat "$repository/fathom-report/summary.md")" ]'
git_head "$equal"
outcome 'GitLab: second push, no change' 0 gitlab
check 'the note is updated' eval '[ "$(own_comments gitlab | grep -c "fathom-gate:")" = 1 ] && own_comments gitlab | grep -q "^\*\*pass"'
token='' outcome 'GitLab: no token' 0 gitlab
check 'warning' says 'warning: no token'
[ $wrong = 0 ] || echo "ci: something is wrong, see WRONG above" >&2
end_parts
exit $wrong
