//! Texts of the whole program: what it prints alone, its examples, exit statuses, names of runs.

/// What `fathom` alone prints: one screen.
pub const QUESTIONS: &str = "\
Fathom measures this machine: a prediction and a verdict for every number.

Good, bad, and how far to trust it?   fathom run --quick
What disturbs this machine now?       fathom doctor
Is my program faster?                 fathom bench 'A' 'B'
What has changed since?               fathom compare
How much can my server take?          fathom load http://HOST:8080/ --find-max
Is this what such a machine gives?    fathom compare --typical

One number   fathom run 'os.syscall{call=stat}'    fathom explain os.syscall
One file     fathom file read FILE                 fathom file --help
Stored runs  fathom show                           fathom show --runs
As a page    fathom report -o report.html          fathom ui

All commands: fathom --help. How runs are named: fathom help run-names.
";

pub(super) const EXAMPLES: &str = "\
Examples:
  fathom run --quick              measure everything, in one minute
  fathom run os.syscall cpu       measure one metric and one group
  fathom doctor                   check whether this machine is ready to be measured
  fathom show                     show the latest run
  fathom compare latest~1 latest  compare two runs, metric by metric; alone: the last two of all
  fathom report                   write the latest run as an HTML page
  fathom file read /etc/passwd --block 4K       read a file in 4 KiB blocks, with its checksum
  fathom load http://HOST:8080/ --clients 1..20  measure an HTTP server under load

`fathom help run-names` has the names of runs, `fathom help exit-status` the exit statuses.";

pub const EXIT_STATUS: &str = "\
Exit status:
  0    success; numbers may still be invalid or missing: see run --strict
  1    failure: a file, a run or the store is missing, unreadable or not writable, or every case to
       the host of run --remote failed
  2    usage error: the command line is invalid, whatever the files and the store contain
  3    completed, but: a number is missing (run --strict), a limit is not kept (--limits), a case
       lost more than allowed (compare --fail-on), doctor warns, a host is odd (fleet), or there is
       no result or nothing to compare
  4    doctor found a severe problem
  5    undecided: compare --fail-on can neither exclude nor show a larger loss, a number a limit, or
       too few hosts are alike to be judged (fleet)
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; finished results are stored
  141  standard output was closed by its reader

`fathom check` has the statuses of monitoring plugins, 0 to 3.

If the store is not writable, results are measured and printed but not stored. fathom then warns,
and exits with status 1 if --store or FATHOM_STORE named that store.";

pub const RUN_NAMES: &str = "\
RUN is one of these:
  0195c3e2         a run id or a prefix of it
  before-upgrade   a --label; of several runs: for fleet and compare
  latest           the last complete `fathom run` of this host
  latest~2         the second before it
  latest:battery   the last of all metrics, the default of show and report
  latest:file~1    of a command (file, load, transfer, fetch, bench)
  db1              a host: its latest run
  run.json         a file of `fathom export` or --output";
