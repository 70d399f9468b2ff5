//! Commits of a repository, built in a clone of its own: the repository is only read.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, bail};
use fathom_measure::process::{
    CollectError, ErrorFile, OutputLimits, Running, exit_text, first_error, last_words,
};

use crate::exit::usage_error;
use crate::interrupt::Interrupt;

/// A build and a measurement may take long.
const LIMITS: OutputLimits = OutputLimits { time_ns: u64::MAX / 2, output_bytes: 256 << 20 };
const GRACE_NS: u64 = 5_000_000_000;
/// Digits of a commit in names of folders, which all have one length: a path can move the stack.
const DIGITS: usize = 12;

/// What a finished process wrote; of standard error the end.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) output: Vec<u8>,
    errors: Vec<u8>,
}

impl Finished {
    pub(super) fn last_words(&self) -> String {
        last_words(&self.errors).unwrap_or_default()
    }

    /// Why a build failed: compilers end with remarks.
    fn failure(&self) -> String {
        let error = first_error(&self.errors).or_else(|| first_error(&self.output));
        error
            .or_else(|| last_words(&self.errors))
            .or_else(|| last_words(&self.output))
            .unwrap_or_default()
    }
}

/// Ctrl-C ends the bisection.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted;

/// Runs a process to its end. The kernel kills it with this one.
pub(super) fn finish(
    command: &dyn Fn() -> Command,
    interrupt: &Interrupt,
) -> anyhow::Result<Finished> {
    let errors = ErrorFile::new()?;
    let tied = || {
        let mut command = command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors.stdio()?);
        Ok(command)
    };
    let name = command().get_program().display().to_string();
    let mut running = Running::start_tied(tied, &[]).with_context(|| format!("start {name}"))?;
    let status = match running.collect(LIMITS, interrupt.as_fd()) {
        Ok(status) => status,
        Err(CollectError::Stopped) => {
            running.terminate(GRACE_NS);
            return Err(Interrupted.into());
        }
        Err(error) => bail!("{name} {error}"),
    };
    let [output, _] = std::mem::take(&mut running.output);
    Ok(Finished { status, output, errors: errors.end()? })
}

/// A commit, and how people know it.
pub(super) struct Commit {
    pub(super) id: String,
    pub(super) subject: String,
}

impl Commit {
    pub(super) fn short(&self) -> &str {
        &self.id[..DIGITS.min(self.id.len())]
    }
}

/// A temporary folder with a clone and the builds. Dropping it removes all.
pub(super) struct Checkout<'i> {
    folder: PathBuf,
    interrupt: &'i Interrupt,
    /// Where each commit is built, or why not.
    builds: HashMap<String, Result<PathBuf, String>>,
}

impl<'i> Checkout<'i> {
    /// A clone that has the objects of the repository of this folder, and changes nothing of it.
    pub(super) fn new(interrupt: &'i Interrupt) -> anyhow::Result<Self> {
        let top = git(None, &["rev-parse", "--absolute-git-dir"], interrupt)?;
        let name = format!("fathom-bisect-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("make folder {}", folder.display()))?;
        // From here on it is removed.
        let all = Self { folder, interrupt, builds: HashMap::new() };
        fs::create_dir(all.folder.join("builds"))?;
        let clone = all.clone_folder();
        let clone = clone.display().to_string();
        let words = ["clone", "--quiet", "--shared", "--no-checkout", "--", top.trim(), &clone];
        git(None, &words, interrupt)?;
        Ok(all)
    }

    fn clone_folder(&self) -> PathBuf {
        self.folder.join("clone")
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The good commit, and those after it to the bad one, from the oldest.
    pub(super) fn commits(&self, good: &str, bad: &str) -> anyhow::Result<(Commit, Vec<Commit>)> {
        // By the names that the repository of the user has.
        let id = |name: &str| {
            let word = format!("{name}^{{commit}}");
            git(None, &["rev-parse", "--verify", "--end-of-options", &word], self.interrupt)
        };
        let (Ok(first), Ok(last)) = (id(good), id(bad)) else {
            let wrong = if id(good).is_err() { good } else { bad };
            usage_error!("bisect: {wrong} is no commit of this repository");
        };
        let (first, last) = (first.trim(), last.trim());
        self.check_order([good, bad], [first, last])?;
        let range = format!("{first}..{last}");
        let words = ["log", "--first-parent", "--reverse", "--format=%H %s", &range];
        let all: Vec<Commit> =
            git(None, &words, self.interrupt)?.lines().filter_map(commit).collect();
        let words = ["log", "-1", "--format=%H %s", first];
        let first = git(None, &words, self.interrupt)?;
        let first = first.lines().find_map(commit).context("git log has no commit")?;
        Ok((first, all))
    }

    /// That the good commit is an ancestor of the bad one: else the step may be before it.
    fn check_order(&self, names: [&str; 2], [good, bad]: [&str; 2]) -> anyhow::Result<()> {
        let run = |words: &[&str]| git(None, words, self.interrupt);
        let is_before = |a: &str, b: &str| run(&["merge-base", "--is-ancestor", a, b]).is_ok();
        let [first, last] = names;
        match () {
            () if good == bad => usage_error!("bisect: {first} and {last} are one commit"),
            () if is_before(good, bad) => Ok(()),
            () if is_before(bad, good) => {
                usage_error!("bisect: {first} is after {last}: GOOD comes first, then BAD")
            }
            () => match run(&["merge-base", good, bad]) {
                Err(error) if error.is::<Interrupted>() => Err(error),
                Err(_) => usage_error!("bisect: {first} and {last} have no common ancestor"),
                Ok(base) => usage_error!(
                    "bisect: {first} is no ancestor of {last}; give {} as GOOD, which is one of \
                     both, if the command is fast there",
                    &base[..DIGITS.min(base.len())]
                ),
            },
        }
    }

    /// The folder in which a commit was built, once.
    pub(super) fn built(
        &mut self,
        commit: &Commit,
        build: Option<&str>,
    ) -> anyhow::Result<Result<PathBuf, String>> {
        if let Some(known) = self.builds.get(&commit.id) {
            return Ok(known.clone());
        }
        let folder = self.folder.join("builds").join(commit.short());
        let path = folder.display().to_string();
        let words = ["worktree", "add", "--quiet", "--detach", &path, &commit.id];
        git(Some(&self.clone_folder()), &words, self.interrupt)?;
        let made = match build {
            None => Ok(folder),
            Some(text) => {
                let command = || {
                    let mut command = Command::new("sh");
                    command.args(["-c", text]).current_dir(&path);
                    command
                };
                let built = finish(&command, self.interrupt)?;
                let status = built.status;
                match status.success() {
                    true => Ok(folder),
                    false => Err(format!("--build {}: {}", exit_text(status), built.failure())),
                }
            }
        };
        self.builds.insert(commit.id.clone(), made.clone());
        Ok(made)
    }
}

impl Drop for Checkout<'_> {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            crate::terminal::warn(&format!("remove {}: {error}", self.folder.display()));
        }
    }
}

fn commit(line: &str) -> Option<Commit> {
    let (id, subject) = line.split_once(' ')?;
    Some(Commit { id: id.to_owned(), subject: subject.to_owned() })
}

/// What git prints. It writes nothing into the repository of this folder.
fn git(folder: Option<&Path>, words: &[&str], interrupt: &Interrupt) -> anyhow::Result<String> {
    let command = || {
        let mut command = Command::new("git");
        // Not even the times in the index.
        command.env("GIT_OPTIONAL_LOCKS", "0").args(words);
        if let Some(folder) = folder {
            // A hook of git, such as for `git rebase --exec`, names the other repository.
            command.current_dir(folder).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
            command.env_remove("GIT_INDEX_FILE");
        }
        command
    };
    let git = finish(&command, interrupt)?;
    match git.status.success() {
        true => Ok(String::from_utf8_lossy(&git.output).into_owned()),
        false => bail!("git {}: {}", words[0], git.last_words()),
    }
}
