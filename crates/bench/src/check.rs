//! The request, checked as a whole before anything starts, and the commands in it.

use std::fs;
use std::io::IsTerminal as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use fathom_analysis::limits::UserLimit;
use fathom_measure::affinity;
use fathom_metric::ProcedureError;
use fathom_record::{Activity, Params, Unit, shell_word, system_cause};
use rustix::fs::{Access, access};

use crate::case::{self, BenchWork, Case};
use crate::certify::PLANTED;
use crate::child::ChildProgram;
use crate::request::{
    BenchInvocation, BenchOutput, BenchSettings, CommandLine, RUNS_MAX, Request, ScanParameter,
};
use crate::{scan, script, words};

/// Longer lists are mistakes: each case takes 10 s.
const CASES_MAX: usize = 100;

impl Request {
    /// The commands for each value of their parameters.
    ///
    /// # Errors
    /// If anything of it is wrong, or a program or file does not exist.
    pub(crate) fn work(&self) -> Result<BenchWork, ProcedureError> {
        if self.commands.is_empty() {
            let text = "name a command: fathom bench 'CMD A' ['CMD B'…], or fathom bench -- CMD";
            return Err(ProcedureError::usage(text));
        }
        at_most_cases(self.commands.len(), "commands")?;
        at_most_cases(self.parameters.len(), "parameters")?;
        self.check_parameters()?;
        let counts = self.commands.iter().map(|command| scan::count(&self.used(command)));
        at_most_cases(counts.fold(0, usize::saturating_add), "commands with their parameters")?;
        self.check_settings()?;
        let shell = self.settings.shell.as_deref().map(shell_program).transpose()?;
        let names = case::names(&self.commands)?;
        let mut cases = Vec::new();
        for (at, (command, name)) in self.commands.iter().zip(names).enumerate() {
            for params in scan::combinations(&self.used(command)) {
                let (program, text) = self.program(command, &params)?;
                let hook = |text: &Option<String>| {
                    text.as_deref().map(|text| scan::substituted(text, &params))
                };
                let BenchSettings { setup, prepare, conclude, cleanup, .. } = &self.settings;
                cases.push(Case {
                    command: at,
                    name: name.clone(),
                    text,
                    program,
                    exit: command.exit.clone(),
                    output: hook(&command.output),
                    hooks: [setup, prepare, conclude, cleanup].map(hook),
                    is_named: command.name.is_some(),
                    folder: command.folder.clone(),
                    params,
                });
            }
        }
        if self.settings.certify {
            cases = certified(cases)?;
        }
        Ok(BenchWork { cases, shell })
    }

    /// The parameters that a command or one of its hooks has.
    fn used(&self, command: &CommandLine) -> Vec<ScanParameter> {
        let BenchSettings { setup, prepare, conclude, cleanup, .. } = &self.settings;
        let hooks = [setup, prepare, conclude, cleanup];
        let is_used = |parameter: &&ScanParameter| {
            let has = |text: &str| scan::has(text, &parameter.name);
            let in_command = match &command.command {
                BenchInvocation::Line(line) => has(line),
                BenchInvocation::Words(words) => words.iter().any(|word| has(word)),
            };
            let in_output = command.output.as_deref().is_some_and(has);
            in_command || in_output || hooks.iter().any(|hook| hook.as_deref().is_some_and(has))
        };
        self.parameters.iter().filter(is_used).cloned().collect()
    }

    /// Names in braces that no parameter has.
    pub(crate) fn unknown_names(&self) -> Vec<String> {
        let BenchSettings { setup, prepare, conclude, cleanup, .. } = &self.settings;
        let known = |name: &str| self.parameters.iter().any(|it| it.name == name);
        let texts = self.commands.iter().flat_map(|command| match &command.command {
            BenchInvocation::Line(line) => std::slice::from_ref(line).iter(),
            BenchInvocation::Words(words) => words.iter(),
        });
        let hooks = [setup, prepare, conclude, cleanup].into_iter().flatten();
        let named = texts.chain(hooks).flat_map(|text| scan::names(text));
        let mut unknown: Vec<&str> = named.filter(|name| !known(name)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        let text =
            |name: &&str| format!("{{{name}}} stays as it is: no parameter has this name (-P, -L)");
        unknown.iter().map(text).collect()
    }

    fn check_parameters(&self) -> Result<(), ProcedureError> {
        for (at, parameter) in self.parameters.iter().enumerate() {
            scan::check(parameter).map_err(ProcedureError::usage)?;
            let name = &parameter.name;
            if self.parameters[..at].iter().any(|other| other.name == *name) {
                return Err(ProcedureError::usage(format!("parameter {name}: given twice")));
            }
            if !self.commands.iter().any(|one| self.used(one).iter().any(|it| it.name == *name)) {
                let text = format!("parameter {name}: no command has {{{name}}}");
                return Err(ProcedureError::usage(text));
            }
        }
        Ok(())
    }

    fn check_settings(&self) -> Result<(), ProcedureError> {
        let BenchSettings { runs, warmup, time_s, timeout_s, fail_on, undecided, .. } =
            &self.settings;
        let counts = [("runs", runs.unwrap_or(1), 1), ("warmup", *warmup, 0)];
        if let Some((name, got, least)) =
            counts.into_iter().find(|(_, got, least)| !(*least..=RUNS_MAX).contains(got))
        {
            let text = format!("{name}: {got}, expected {least} to {RUNS_MAX}");
            return Err(ProcedureError::usage(text));
        }
        let times = [("time", time_s.unwrap_or(1.0)), ("timeout", *timeout_s)];
        if let Some((name, got)) = times.into_iter().find(|(_, got)| !(1e-3..=1e6).contains(got)) {
            let text = format!("{name}: {got} s, expected 0.001 s to 1000000 s");
            return Err(ProcedureError::usage(text));
        }
        if undecided.is_some() && fail_on.is_none() {
            let text = "--undecided: is of the gate; give its limit, such as --fail-on 3%";
            return Err(ProcedureError::usage(text));
        }
        if fail_on.is_some() && self.commands.len() < 2 {
            let text =
                "--fail-on: compares commands, one named; name the old one, then the new one";
            return Err(ProcedureError::usage(text));
        }
        for limit in self.commands.iter().filter_map(|command| command.limit.as_ref()) {
            UserLimit::parse(limit, Unit::Nanoseconds)
                .map_err(|error| ProcedureError::usage(format!("limit {error}")))?;
        }
        self.check_machine()
    }

    /// What this machine has.
    fn check_machine(&self) -> Result<(), ProcedureError> {
        let BenchSettings { input, output, cold, cpu, .. } = &self.settings;
        if let Some(path) = input {
            open_input(path)?;
        }
        for path in cold {
            refuse_pipe(path)?;
            fs::File::open(path).map_err(|error| failed(path, &error))?;
        }
        if let Some(path) = cold.iter().find(|path| !path.is_file()) {
            let text = format!("--cold {}: not a regular file", path.display());
            return Err(ProcedureError::failed(text));
        }
        if let BenchOutput::File(path) = output {
            refuse_pipe(path)?;
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
            if path.is_dir() || !folder.unwrap_or(Path::new(".")).is_dir() {
                let text = format!("--output {}: not a file in an existing folder", path.display());
                return Err(ProcedureError::failed(text));
            }
        }
        let allowed = affinity::allowed();
        match cpu.filter(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => Err(ProcedureError::failed(format!(
                "--cpu {cpu}: not allowed for this process; allowed are {allowed:?}"
            ))),
            None => Ok(()),
        }
    }

    fn program(
        &self,
        command: &CommandLine,
        params: &Params,
    ) -> Result<(ChildProgram, String), ProcedureError> {
        let substituted = |word: &String| scan::substituted(word, params);
        let line_of = |words: &[String]| {
            words.iter().map(|word| shell_word(word)).collect::<Vec<String>>().join(" ")
        };
        let (words, text) = match (&command.command, &self.settings.shell) {
            (BenchInvocation::Line(line), Some(shell)) => {
                let line = scan::substituted(line, params);
                (with_command(shell_words(shell)?, &line), line)
            }
            (BenchInvocation::Line(line), None) => {
                let words = words::split(line)
                    .map_err(|error| ProcedureError::usage(format!("`{line}`: {error}")))?;
                // A value with spaces stays one word.
                (words.iter().map(substituted).collect(), scan::substituted(line, params))
            }
            (BenchInvocation::Words(_), Some(_)) => {
                let text = "--shell: a command after `--` has its words already; quote it as one";
                return Err(ProcedureError::usage(text));
            }
            (BenchInvocation::Words(words), None) => {
                let words: Vec<String> = words.iter().map(substituted).collect();
                let text = line_of(&words);
                (words, text)
            }
        };
        let name = words.first().map_or("", String::as_str);
        let folder = command.folder.as_deref().map(absolute_folder).transpose()?;
        let placed = folder.as_ref().filter(|_| name.contains('/')).map(|it| it.join(name));
        let path = match self.settings.setup {
            // It may be what makes the program.
            Some(_) if name.contains('/') => placed.unwrap_or_else(|| PathBuf::from(name)),
            _ => {
                let placed = placed.as_ref().map(|path| path.display().to_string());
                let path = program_path(placed.as_deref().unwrap_or(name))?;
                match script::bad_interpreter(&path) {
                    Some(why) => return Err(ProcedureError::failed(format!("`{name}`: {why}"))),
                    None => path,
                }
            }
        };
        let program = ChildProgram::new(&path, &words);
        let program = match folder {
            Some(folder) => program.and_then(|program| program.in_folder(&folder)),
            None => program,
        };
        let program = program.ok_or_else(|| ProcedureError::usage("a zero byte in a command"))?;
        Ok((program, text))
    }
}

/// The command, its double, and it with each planted loss.
fn certified(cases: Vec<Case>) -> Result<Vec<Case>, ProcedureError> {
    let [only] = cases.as_slice() else {
        let text = format!("--certify: is of one command, here are {}", cases.len());
        return Err(ProcedureError::usage(text));
    };
    let double = || Case { program: only.program.double(), ..only.clone() };
    let doubles = std::iter::repeat_with(double).take(1 + PLANTED.len());
    Ok(std::iter::once(only.clone()).chain(doubles).collect())
}

fn absolute_folder(folder: &Path) -> Result<PathBuf, ProcedureError> {
    match std::path::absolute(folder) {
        Ok(path) if path.is_dir() => Ok(path),
        _ => Err(ProcedureError::failed(format!("folder {}: not a folder", folder.display()))),
    }
}

fn at_most_cases(count: usize, what: &str) -> Result<(), ProcedureError> {
    if count > CASES_MAX {
        let text = format!("{count} {what}, at most {CASES_MAX}; name fewer values");
        return Err(ProcedureError::usage(text));
    }
    Ok(())
}

/// The shell that does nothing: its start.
fn shell_program(shell: &str) -> Result<ChildProgram, ProcedureError> {
    let words = with_command(shell_words(shell)?, "");
    let program = ChildProgram::new(&program_path(&words[0])?, &words);
    program.ok_or_else(|| ProcedureError::usage("a zero byte in the name of the shell"))
}

/// A shell with its arguments, such as `bash -e`.
fn shell_words(shell: &str) -> Result<Vec<String>, ProcedureError> {
    words::split(shell)
        .map_err(|error| ProcedureError::usage(format!("--shell `{shell}`: {error}")))
}

fn with_command(shell: Vec<String>, line: &str) -> Vec<String> {
    shell.into_iter().chain(["-c".to_owned(), line.to_owned()]).collect()
}

/// Standard input of each run. What is read once would be that of the first run alone.
pub(crate) fn open_input(path: &Path) -> Result<fs::File, ProcedureError> {
    // Opening a pipe would wait for its other end.
    if path == Path::new("-") {
        let text = "--input -: only the first run would read standard input; name a file";
        return Err(ProcedureError::failed(text.to_owned()));
    }
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = fs::File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| failed(path, &error))?;
    let kind = file.metadata().map_err(|error| failed(path, &error))?.file_type();
    if kind.is_file() || (kind.is_char_device() && !file.is_terminal()) {
        return Ok(file);
    }
    let what = if kind.is_fifo() { "a pipe" } else { "not a regular file" };
    let text = format!(
        "--input {}: {what}, so that only the first run would read it; name a file",
        path.display()
    );
    Err(ProcedureError::failed(text))
}

/// Opening a pipe waits for its other end, maybe for ever. Those of the shell, as in `<(CMD)`, have
/// one.
pub(crate) fn refuse_pipe(path: &Path) -> Result<(), ProcedureError> {
    let is_of_shell = path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd");
    let is_pipe = fs::metadata(path).is_ok_and(|facts| facts.file_type().is_fifo());
    match is_pipe && !is_of_shell {
        true => {
            let text = format!("{}: a pipe, which may wait for ever; name a file", path.display());
            Err(ProcedureError::failed(text))
        }
        false => Ok(()),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> ProcedureError {
    let cause = system_cause(error, Activity::Read);
    ProcedureError::failed(format!("open {}: {cause}", path.display()))
}

/// The file of a program, by PATH if its name has no slash.
pub(crate) fn program_path(name: &str) -> Result<PathBuf, ProcedureError> {
    let is_program = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        let path = PathBuf::from(name);
        return match () {
            () if is_program(&path) => Ok(path),
            () if path.is_file() => Err(ProcedureError::failed(format!(
                "`{name}`: not executable by this user; chmod +x"
            ))),
            () => Err(ProcedureError::failed(format!("`{name}`: no such program"))),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(name));
    paths.find(|path| !name.is_empty() && is_program(path)).ok_or_else(|| {
        ProcedureError::failed(format!(
            "`{name}`: no such program in PATH; name it with its path, such as ./{name}, or a \
             shell's own command with --shell sh"
        ))
    })
}
