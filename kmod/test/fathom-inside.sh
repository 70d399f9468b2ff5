#!/bin/busybox sh
# Runs inside the test machine, with the module loaded: the tests of the paths, if they are in the
# image, a look at the pages behind mappings of the devices, and the published 2 × 2 by the devices,
# whose run is printed as one line of JSON. fathom-inside.sh [REPETITIONS]
export HOME=/tmp FATHOM_STORE=/tmp/fathom.db
failed=0
fail() {
  echo "not ok $1"
  failed=1
}
if [ -x /paths-tests ]; then
  /paths-tests --nocapture --test-threads 1 >/tmp/paths.log 2>&1 || fail "tests of the paths"
  grep -E '^test result|skipped: |panicked' /tmp/paths.log
  grep -q "skipped: paths of /dev/fathom" /tmp/paths.log && fail "tests of the paths have the devices"
  grep -q '^test result: ok' /tmp/paths.log || tail -n 30 /tmp/paths.log
fi
by_device="--send-path device-copy,device-mmap --receive-path device-copy,device-mmap"
transfer="/fathom transfer $by_device --buffer 512 --window 1MiB --folder /tmp"

$transfer --sets small --repeat 1 --pages >/tmp/pages 2>&1 || fail "pages"
page() {
  line=$(grep -A1 "page $1" /tmp/pages | tr -d '\n' | tr -s ' ')
  echo "$line"
  case $line in
  *": $2, frame 0x"*) ;;
  *) fail "page-table entry of the window, $1" ;;
  esac
}
page sent "present, writable, user, accessed, dirty, no-execute"
# The kernel writes into the window by a mapping of its own: write(2) only reads this one.
page received "present, writable, user, accessed, no-execute"

$transfer --sets small,file --repeat "${1:-1}" --json >/tmp/run.json 2>/tmp/errors ||
  fail "fathom transfer: $? $(cat /tmp/errors)"
echo "fathom-run: $(tr -d '\n' </tmp/run.json)"
/fathom doctor | grep 'CPU emulated' || fail "the doctor sees the emulation"
exit $failed
