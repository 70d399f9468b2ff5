# Sourced by the scripts of the lab, in place of `set -euo pipefail`: a command that fails is named
# with its line, its status and, where a script keeps them in the file $errors, its last error.
set -eEuo pipefail
# Made by the innermost shell, so that those around it do not say the same again.
failure=$(mktemp -u)
failed_parts=()

say_failure() { # statuses of the pipeline, file, line, its last command
  if [ ! -e "$failure" ]; then
    : > "$failure"
    case $1 in *' '*) set -- "statuses $1 of the pipeline that ends with" "${@:2}" ;; *) set -- "status $1 of" "${@:2}" ;; esac
    echo "${2##*/}: line $3: $1: ${4%%$'\n'*}" >&2
    [ ! -s "${errors:-}" ] || { echo "  $(tail -n 1 "$errors")" >&2 && : > "$errors"; }
  fi
  [ "$BASH_SUBSHELL" -gt 0 ] || rm -f "$failure"
}
trap 'say_failure "${PIPESTATUS[*]}" "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND"' ERR

# Runs a command without its output. If it fails, that is said in its own words; not of the status
# $accepted, which is counted in the file of that name.
quietly() { # command …
  local status=0
  "$@" > /dev/null 2> "$errors" || status=$?
  if [ $status = "${accepted:-0}" ]; then
    [ $status = 0 ] || echo "$*" >> "$folder/accepted"
    return 0
  fi
  [ $status = 0 ] || say_failure $status "${BASH_SOURCE[1]}" "${BASH_LINENO[0]}" "$*"
  return $status
}

# Runs a part of a script in a subshell. If a command of it fails, the next part runs all the same.
part() { # name, command …
  local status
  # What a failure that was accepted has left says nothing of this part.
  rm -f "$failure"
  [ -z "${errors:-}" ] || : > "$errors"
  set +e
  (set -e && "${@:2}")
  status=$?
  set -e
  [ $status = 0 ] || failed_parts+=("$1")
}

# At the end of a script with parts: status 1 if one has failed.
end_parts() {
  rm -f "$failure"
  [ ${#failed_parts[@]} -eq 0 ] || { echo "${0##*/}: failed: ${failed_parts[*]}" >&2 && exit 1; }
}
