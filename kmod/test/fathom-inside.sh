#!/bin/sh
# Runs a static fathom (FATHOM=path of run.sh) in the test machine, with the devices present.
set -e
/fathom --version
