//! The options of `fathom bench`.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use clap::Parser;
use fathom_metric::ProcedureError;
use fathom_metric::notation::{seed, time};
use fathom_record::shell_word;

use crate::request::{
    BenchInvocation, BenchOutput, BenchSettings, CommandLine, RUNS_MAX, Request, UndecidedAs,
};
use crate::{fields, scan};

const EXAMPLES: &str = "\
Examples:
  fathom bench 'sort data.txt'                     time a command, in fresh processes
  fathom bench 'grep -c foo log' 'rg -c foo log'   compare two, run in random turns
  fathom bench -- grep -c 'a b' log                a program with its arguments as they are
  fathom bench 'old/prog X' 'new/prog X' --fail-on 3%   gate a build: exit 0, 3 or 5
  fathom bench 'sort --parallel={threads} f' -P threads 1..8   a curve over a parameter
  fathom bench '{cc} -O2 -c x.c' -L cc gcc,clang   a list of values
  fathom bench --certify 'new/prog X'              smallest loss a gate detects here
  fathom bench --shell 'bash -e' 'ls $HOME'        with a shell, whose start is subtracted
  fathom bench 'wc data' --cold data               evict a file before each run, proved
  fathom bench 'tar c src' --output src.tar        write the output to a file, not into a pipe
  fathom bench './a' './b' -n old -n new --json    named; records as JSON
  fathom bench --cost 'sort data.txt'              where the time goes, at this machine's prices
  fathom bench -f bench.toml                       commands, parameters, checks and limits of a file

Each run is a fresh process; commands run in blocks, each once in each block, in random order, so
that a drift of the machine meets all alike. By default a pilot of up to 3 runs sets the number of
runs for 10 s a command (9 to 500); runs are doubled once if an interval is then wider than ± 2 %.
The ratio of two commands is the median over blocks, with its interval by order statistics.

{NAME} in a command or hook is replaced by each value of -P and -L. A range 1..8 doubles: 1, 2, 4,
8. Hooks are run by sh. Without --shell, quotes and backslashes work as in a shell, all other shell
syntax is an error. What a run leaves behind in its process group is killed. Hooks may ask on the
terminal (sudo); a run that does so ends the bench.

Exit status: 0 done (or the gate passes and limits are kept), 1 a command failed, 2 wrong usage, 3
the gate fails or a limit is not kept, 5 undecided, 130 Ctrl-C: the finished runs are stored, and
--cleanup is run. With --bisect 0, 1, 125 and 128, for `git bisect run`.";

/// Time commands of your own in fresh processes, in random turns.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct BenchOptions {
    /// Commands, each quoted as one word.
    #[arg(value_name = "CMD")]
    pub commands: Vec<String>,
    /// Read commands, parameters and settings from this TOML file; options go before its settings.
    #[arg(long, short, value_name = "FILE")]
    #[arg(conflicts_with_all = ["commands", "program", "names", "parameters", "lists"])]
    pub file: Option<PathBuf>,
    /// One program and its arguments as they are.
    #[arg(last = true, value_name = "PROGRAM", allow_hyphen_values = true)]
    pub program: Vec<String>,
    /// Name the commands, in their order [default: made of the command].
    #[arg(long = "name", short = 'n', alias = "command-name", value_name = "NAME")]
    pub names: Vec<String>,
    /// Replace {NAME} by numbers: `1,2,3`, `0.001,0.01`, or a range that doubles, such as `1..8`
    /// or `1K..1M`.
    #[arg(long = "parameter", short = 'P', num_args = 2, value_names = ["NAME", "NUMBERS"])]
    pub parameters: Vec<String>,
    /// Replace {NAME} by each text of a list.
    #[arg(long = "list", short = 'L', alias = "parameter-list")]
    #[arg(num_args = 2, value_names = ["NAME", "A,B"])]
    pub lists: Vec<String>,
    /// Run the commands by this shell, such as `bash -e`; its start is measured and subtracted
    /// [default: none].
    #[arg(long, short = 'S', value_name = "SHELL")]
    pub shell: Option<String>,
    /// Run the commands without a shell, as by default.
    #[arg(long, short = 'N', conflicts_with = "shell")]
    pub no_shell: bool,
    /// Read standard input from this regular file, each run anew [default: empty].
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Drain the output from a pipe, discard it by /dev/null (some programs then do less work),
    /// print it on standard error (`inherit`), or write it to a file [default: pipe].
    #[arg(long, value_name = "pipe|null|inherit|FILE")]
    pub output: Option<String>,
    /// Run this command once, before all runs.
    #[arg(long, short, value_name = "CMD")]
    pub setup: Option<String>,
    /// Run this command before each run.
    #[arg(long, short, value_name = "CMD")]
    pub prepare: Option<String>,
    /// Run this command after each run.
    #[arg(long, short = 'C', value_name = "CMD")]
    pub conclude: Option<String>,
    /// Run this command once, after all runs, also after Ctrl-C.
    #[arg(long, short, value_name = "CMD")]
    pub cleanup: Option<String>,
    /// Evict this file from the page cache before each run, and prove it; can be repeated.
    #[arg(long, value_name = "FILE")]
    pub cold: Vec<PathBuf>,
    /// Pin the commands to this CPU; undisturbed runs of up to 100 ms are then selected.
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Expect one of these exit statuses, such as 0,1 of grep [default: 0].
    #[arg(long, value_name = "N,N", value_delimiter = ',', conflicts_with = "file")]
    pub exit: Vec<u8>,
    /// Accept other exit statuses than expected.
    #[arg(long, short)]
    pub ignore_failure: bool,
    /// Make N runs of each command first that do not count.
    #[arg(long, short, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(RUNS_MAX)))]
    pub warmup: Option<u32>,
    /// Make exactly N runs of each command, without a pilot.
    #[arg(long, short, value_name = "N", conflicts_with = "time")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(RUNS_MAX)))]
    pub runs: Option<u32>,
    /// Run each command for this time, without an extension [default: 10s, extended once].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,
    /// Time limit of one run [default: 1h].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,
    /// Seed the random order [default: random].
    #[arg(long, value_name = "N", value_parser = seed)]
    pub seed: Option<u64>,
    /// Gate: exit with status 3 if a command is slower than the first by more than this, and with
    /// status 5 if that is undecided: if the interval includes it.
    #[arg(long, value_name = "PERCENT", value_parser = fields::share)]
    pub fail_on: Option<f64>,
    /// Exit as for this answer if the gate is undecided.
    #[arg(long, value_enum, value_name = "ANSWER")]
    pub undecided: Option<UndecidedAs>,
    /// Measure which loss a gate of this command detects on this machine: 20 rounds of the command
    /// beside itself, and with 1, 2, 5 and 10 % of its time added.
    #[arg(long, conflicts_with_all = ["fail_on", "undecided", "bisect", "cost", "measure"])]
    pub certify: bool,
    /// Exit for `git bisect run`: with 0 if the gate passes (good), 1 if it fails (bad), 125 if it
    /// is undecided or a command fails (skip), 128 if the command line is wrong.
    #[arg(long)]
    pub bisect: bool,
    /// Count the operations of one more run of each command (ptrace), and print what they should
    /// cost at this machine's prices.
    #[arg(long)]
    pub cost: bool,
    /// Measure prices first that this host has no result of.
    #[arg(long, requires = "cost")]
    pub measure: bool,
    /// Read once: a file may change while its commands run.
    #[arg(skip)]
    read: OnceLock<Request>,
}

impl BenchOptions {
    /// The commands, as one would type them.
    pub(crate) fn text(&self) -> String {
        if let Some(file) = &self.file {
            return format!("-f {}", shell_word(&file.display().to_string()));
        }
        let commands = self.commands.iter().map(|line| shell_word(line));
        let program = self.program.iter().map(|word| shell_word(word));
        let dashes = (!self.program.is_empty()).then(|| "--".to_owned());
        commands.chain(dashes).chain(program).collect::<Vec<String>>().join(" ")
    }

    /// # Errors
    /// If names, parameters and commands do not fit.
    pub fn request(&self) -> Result<&Request, ProcedureError> {
        if let Some(request) = self.read.get() {
            return Ok(request);
        }
        let request = self.asked_for()?;
        if self.bisect && request.settings.fail_on.is_none() {
            let text = "--bisect: needs --fail-on, the loss above which a commit is bad";
            return Err(ProcedureError::usage(text));
        }
        Ok(self.read.get_or_init(|| request))
    }

    fn asked_for(&self) -> Result<Request, ProcedureError> {
        if let Some(path) = &self.file {
            let request = crate::file::read(path)?;
            return Ok(Request { settings: self.settings(request.settings), ..request });
        }
        self.refuse_scan_of_three()?;
        let lines = self.commands.iter().cloned().map(BenchInvocation::Line);
        let program =
            (!self.program.is_empty()).then(|| BenchInvocation::Words(self.program.clone()));
        let all: Vec<BenchInvocation> = lines.chain(program).collect();
        let (named, named_by) = (all.len(), self.names.len());
        if named_by > named {
            let text = format!("--name: {named_by} names of {named} commands");
            return Err(ProcedureError::usage(text));
        }
        let names = self.names.iter().cloned().map(Some).chain(std::iter::repeat(None));
        let commands = all.into_iter().zip(names);
        let exit = |mut command: CommandLine| {
            if !self.exit.is_empty() {
                command.exit = self.exit.iter().copied().map(i32::from).collect();
            }
            command
        };
        let numbers = self.parameters.chunks_exact(2).map(|pair| {
            scan::numbers(&pair[0], &pair[1])
                .map_err(|error| ProcedureError::usage(format!("-P {}: {error}", pair[0])))
        });
        let lists = self.lists.chunks_exact(2).map(|pair| Ok(scan::list(&pair[0], &pair[1])));
        Ok(Request {
            commands: commands.map(|(line, name)| exit(CommandLine::new(name, line))).collect(),
            parameters: numbers.chain(lists).collect::<Result<_, ProcedureError>>()?,
            settings: self.settings(BenchSettings::default()),
        })
    }

    /// # Errors
    /// For `-P n 1 4` of hyperfine, in which the last number is taken for a command.
    fn refuse_scan_of_three(&self) -> Result<(), ProcedureError> {
        let integer = |text: &String| text.parse::<i64>().ok();
        let (Some(to), [name, from, ..]) =
            (self.commands.iter().find_map(integer), self.parameters.as_slice())
        else {
            return Ok(());
        };
        let Some(first) = integer(from).filter(|first| *first < to) else { return Ok(()) };
        let all: Vec<String> = (first..=to).take(4).map(|it| it.to_string()).collect();
        let is_short = to - first < 4;
        let list = if is_short { all.join(",") } else { format!("{},…,{to}", all.join(",")) };
        Err(ProcedureError::usage(format!(
            "-P {name} {from} {to}: numbers are one word: `-P {name} {list}`, or \
             `-P {name} {from}..{to}`, which doubles"
        )))
    }

    /// What the options say, else what the file says.
    fn settings(&self, of_file: BenchSettings) -> BenchSettings {
        let text = |option: &Option<String>, of_file| option.clone().or(of_file);
        let has_count = self.runs.is_some() || self.time.is_some();
        BenchSettings {
            shell: match self.shell.as_deref() {
                _ if self.no_shell => None,
                Some("none") => None,
                Some(shell) => Some(shell.to_owned()),
                None => of_file.shell.filter(|shell| shell != "none"),
            },
            input: self.input.clone().or(of_file.input),
            output: self.output.clone().map_or(of_file.output, BenchOutput::from),
            setup: text(&self.setup, of_file.setup),
            prepare: text(&self.prepare, of_file.prepare),
            conclude: text(&self.conclude, of_file.conclude),
            cleanup: text(&self.cleanup, of_file.cleanup),
            cold: if self.cold.is_empty() { of_file.cold } else { self.cold.clone() },
            cpu: self.cpu.or(of_file.cpu),
            ignore_failure: self.ignore_failure || of_file.ignore_failure,
            warmup: self.warmup.unwrap_or(of_file.warmup),
            runs: self.runs.or(of_file.runs.filter(|_| !has_count)),
            time_s: self.time.map(|it| it.as_secs_f64()).or(of_file.time_s.filter(|_| !has_count)),
            timeout_s: self.timeout.map_or(of_file.timeout_s, |it| it.as_secs_f64()),
            seed: self.seed.or(of_file.seed),
            cost: self.cost || of_file.cost,
            fail_on: self.fail_on.or(of_file.fail_on),
            certify: self.certify || of_file.certify,
            undecided: self.undecided.or(of_file.undecided),
        }
    }
}
