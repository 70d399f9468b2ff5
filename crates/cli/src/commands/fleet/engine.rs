//! The programs that start members on other hosts: srun and ssh. Each starts, and ends, what runs
//! there; here their processes are watched.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::env::var;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use fathom_analysis::fleet::names::expand;
use fathom_far::Token;
use fathom_fleet::TOKEN;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::process::{ErrorFile, Running, exit_text, this_program};
use fathom_record::shell_word;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::arguments::fleet::GatherArguments;
use crate::exit::usage_error;

/// Programs whose members have not joined, at most: a connection each, to the keys of one agent.
const STARTING_MAX: usize = 64;
/// How long members and their programs may take to end.
const END_NS: u64 = 10_000_000_000;
const GRACE_NS: u64 = 2_000_000_000;
const LOOK: Duration = Duration::from_millis(20);
const HOST_FILE_BYTES_MAX: u64 = 4 << 20;

/// Where members come from.
#[derive(Debug)]
pub(super) enum EngineSource {
    /// Others start so many.
    ByHand(usize),
    /// The nodes of this allocation.
    Slurm(Vec<String>),
    Ssh {
        hosts: Vec<String>,
        push: bool,
    },
}

impl EngineSource {
    pub(super) fn from_arguments(arguments: &GatherArguments) -> anyhow::Result<Self> {
        if arguments.push && arguments.hosts.is_none() {
            usage_error!("--push copies by ssh: add --hosts");
        }
        if let Some(hosts) = &arguments.hosts {
            return Ok(Self::Ssh { hosts: hosts_of(hosts)?, push: arguments.push });
        }
        if let Some(members) = arguments.members {
            return Ok(Self::ByHand(members as usize));
        }
        if var("SLURM_JOB_ID").is_err() {
            usage_error!(
                "no hosts: add --hosts LIST or --members N, or run it in a Slurm allocation \
                 (salloc -N 12 fathom fleet …)"
            );
        }
        let nodes = var("SLURM_JOB_NODELIST").context("SLURM_JOB_NODELIST")?;
        match expand(&nodes) {
            Ok(nodes) => Ok(Self::Slurm(nodes)),
            Err(why) => bail!("SLURM_JOB_NODELIST: {why}"),
        }
    }

    pub(super) fn members(&self) -> usize {
        match self {
            Self::ByHand(members) => *members,
            Self::Slurm(nodes) => nodes.len(),
            Self::Ssh { hosts, .. } => hosts.len(),
        }
    }
}

/// The hosts of a list, or of a file with one or more a line.
fn hosts_of(text: &str) -> anyhow::Result<Vec<String>> {
    let path = Path::new(text);
    let list = match path.is_file() {
        false => text.to_owned(),
        true => {
            let whole = fathom_fileio::read_text(path, HOST_FILE_BYTES_MAX)?;
            let line = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
            let lines: Vec<String> = whole.lines().map(line).filter(|it| !it.is_empty()).collect();
            if lines.is_empty() {
                usage_error!(
                    "--hosts {}: the file names no host: write one a line (`#` begins a comment)",
                    path.display()
                );
            }
            lines.join(",")
        }
    };
    if let Some((host, more)) = list.split(',').find_map(|one| one.trim().split_once([' ', '\t'])) {
        usage_error!(
            "--hosts: `{host} {}`: only names of hosts, one a line or between commas; slots of MPI \
             mean nothing here, since each host measures once",
            more.trim()
        );
    }
    let hosts = match expand(&list) {
        Ok(hosts) => hosts,
        Err(why) => usage_error!("--hosts: {}", why.trim_start_matches("hosts: ")),
    };
    // No text of it may become an option of ssh, or a command of a shell.
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._@:%+".contains(&byte);
    let is_host = |host: &&String| !host.starts_with('-') && host.bytes().all(is_allowed);
    if let Some(wrong) = hosts.iter().find(|host| !is_host(host)) {
        usage_error!("--hosts: {wrong:?} is neither a host of ssh nor an existing file");
    }
    // An address of IPv6 has several colons.
    let port = |host: &String| {
        let (name, port) = host.split_once(':')?;
        port.parse::<u16>().ok().map(|port| (name.to_owned(), port))
    };
    if let Some((name, port)) = hosts.iter().find_map(port) {
        usage_error!(
            "--hosts: {name}:{port}: the port of ssh is set in ~/.ssh/config (`Host {name}` with \
             `Port {port}`); name {name} here"
        );
    }
    Ok(hosts)
}

/// A program that starts members.
#[derive(Debug)]
struct Started {
    nodes: Vec<String>,
    process: Running,
    errors: ErrorFile,
    has_ended: bool,
}

/// The started members, and those to start.
#[derive(Debug)]
pub(super) struct Engine {
    source: EngineSource,
    token: String,
    /// Where members join.
    join: String,
    program: PathBuf,
    /// The standard input of remote commands: the token, and the program to copy.
    input: Option<File>,
    waiting: VecDeque<Vec<String>>,
    started: Vec<Started>,
    /// Nodes whose members cannot come, and why.
    failed: BTreeMap<String, String>,
}

impl Engine {
    pub(super) fn new(source: EngineSource, token: &Token, join: String) -> anyhow::Result<Self> {
        let token = String::from_utf8_lossy(token.bytes()).into_owned();
        let program = this_program().context("find this program")?;
        let (waiting, input) = match &source {
            EngineSource::ByHand(_) => (VecDeque::new(), None),
            EngineSource::Slurm(nodes) => ([nodes.clone()].into(), None),
            EngineSource::Ssh { hosts, push } => {
                let copied = push.then_some(program.as_path());
                let each = hosts.iter().map(|host| vec![host.clone()]);
                (each.collect(), Some(input(&token, copied)?))
            }
        };
        let (started, failed) = (Vec::new(), BTreeMap::new());
        Ok(Self { source, token, join, program, input, waiting, started, failed })
    }

    pub(super) fn expected(&self) -> usize {
        self.source.members()
    }

    /// How many members cannot come.
    pub(super) fn failures(&self) -> usize {
        self.failed.len()
    }

    /// Starts further members, and returns those nodes whose program has ended before they joined.
    pub(super) fn tick(&mut self, joined: &BTreeSet<String>) -> Vec<(String, String)> {
        let mut failed = Vec::new();
        for one in self.started.iter_mut().filter(|one| !one.has_ended) {
            let reason = match one.process.try_wait() {
                Ok(None) => continue,
                Ok(Some(status)) => one.errors.last_words().unwrap_or_else(|| exit_text(status)),
                Err(error) => error.to_string(),
            };
            one.has_ended = true;
            let reason = reason.trim_start_matches("fathom: ").to_owned();
            let missing = one.nodes.iter().filter(|node| !joined.contains(*node));
            failed.extend(missing.map(|node| (node.clone(), reason.clone())));
        }
        let is_starting =
            |one: &&Started| !one.has_ended && one.nodes.iter().any(|node| !joined.contains(node));
        let mut room = STARTING_MAX.saturating_sub(self.started.iter().filter(is_starting).count());
        while room > 0
            && let Some(nodes) = self.waiting.pop_front()
        {
            room -= 1;
            match self.start(&nodes) {
                Ok((process, errors)) => {
                    self.started.push(Started { nodes, process, errors, has_ended: false });
                }
                Err(error) => {
                    let reason = format!("start {}: {error}", self.program_name());
                    failed.extend(nodes.into_iter().map(|node| (node, reason.clone())));
                }
            }
        }
        self.failed.extend(failed.iter().cloned());
        failed
    }

    fn program_name(&self) -> &'static str {
        if matches!(self.source, EngineSource::Slurm(_)) { "srun" } else { "ssh" }
    }

    /// The kernel ends it with this process.
    fn start(&self, nodes: &[String]) -> std::io::Result<(Running, ErrorFile)> {
        let errors = ErrorFile::new()?;
        let command = || {
            let mut command = match &self.source {
                EngineSource::Ssh { push, .. } => self.ssh(&nodes[0], *push)?,
                EngineSource::Slurm(_) | EngineSource::ByHand(_) => self.srun(nodes.len()),
            };
            command.stdout(Stdio::null()).stderr(errors.stdio()?);
            Ok(command)
        };
        Running::start_tied(command, &[]).map(|process| (process, errors))
    }

    fn srun(&self, nodes: usize) -> Command {
        let mut command = Command::new("srun");
        // One on each node; the end of one does not end the others; no CPU is taken away.
        command.args([format!("--nodes={nodes}"), format!("--ntasks={nodes}")]);
        command.args(["--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0"]);
        command.args(["--cpu-bind=none", "--export=ALL"]);
        command.arg(&self.program).args(["fleet", "member", "--join", &self.join]);
        command.env(TOKEN, &self.token).stdin(Stdio::null());
        command
    }

    fn ssh(&self, host: &str, push: bool) -> std::io::Result<Command> {
        let mut command = Command::new("ssh");
        // Nobody can answer a question for a thousand hosts.
        command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host]);
        command.arg(remote(&self.join, host, push));
        // An open file of its own: each reads from the beginning.
        let input = self.input.as_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
        command.stdin(input.map_or(Ok(Stdio::null()), |path| File::open(path).map(Stdio::from))?);
        Ok(command)
    }

    /// Waits until all have ended, then ends those that have not. Returns the nodes that never
    /// joined, and why.
    pub(super) fn end(&mut self, joined: &BTreeSet<String>) -> Vec<(String, String)> {
        self.waiting.clear();
        let until_ns = monotonic_raw_ns() + END_NS;
        while monotonic_raw_ns() < until_ns {
            self.tick(joined);
            if self.started.iter().all(|one| one.has_ended) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        for one in self.started.iter_mut().filter(|one| !one.has_ended) {
            one.process.terminate(GRACE_NS);
        }
        let nodes = match &self.source {
            EngineSource::ByHand(_) => &[][..],
            EngineSource::Slurm(nodes) | EngineSource::Ssh { hosts: nodes, .. } => nodes,
        };
        let missing = nodes.iter().filter(|node| !joined.contains(*node));
        let silent = || "did not connect in time".to_owned();
        let reason = |node: &String| self.failed.get(node).cloned().unwrap_or_else(silent);
        missing.map(|node| (node.clone(), reason(node))).collect()
    }
}

/// The command on a host. The token comes on standard input, since arguments are visible to all
/// users there; then the program, if it is copied.
fn remote(join: &str, host: &str, push: bool) -> String {
    let [join, host] = [join, host].map(shell_word);
    let member = format!("fleet member --join {join} --node {host} </dev/null");
    let token = format!("IFS= read -r {TOKEN} && export {TOKEN}");
    // `\$d`: the trap expands it when it runs, between quotes.
    let script = match push {
        false => format!("{token} && exec fathom {member}"),
        true => format!(
            "d=$(mktemp -d) || exit 1; trap \"rm -rf -- \\\"\\$d\\\"\" EXIT; trap \"exit 143\" \
             HUP INT TERM; {token} && cat >\"$d/fathom\" && chmod -- 700 \"$d/fathom\" || exit 1; \
             [ -x \"$d/fathom\" ] || {{ echo \"${{TMPDIR:-/tmp}} is mounted noexec: set TMPDIR on \
             that host to a folder that may have programs, or install fathom there and leave out \
             --push\" >&2; exit 126; }}; \"$d/fathom\" {member}"
        ),
    };
    format!("sh -c {}", shell_word(&script))
}

/// The token in a line, and the program after it: a file in memory that others cannot read.
fn input(token: &str, program: Option<&Path>) -> anyhow::Result<File> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    writeln!(file, "{token}")?;
    if let Some(path) = program {
        let mut binary = File::open(path).with_context(|| format!("open {}", path.display()))?;
        std::io::copy(&mut binary, &mut file).context("--push: copy this program")?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use fathom_engine::CaseSelector;
    use fathom_peers::Invocation;
    use fathom_record::Fix;
    use fathom_record::shell::HOSTILE;
    use fathom_report::remedy::advice;

    use super::super::listening;
    use super::*;

    #[test]
    fn hosts_are_a_list_or_a_file() {
        assert_eq!(hosts_of("a,root@b,n[8-10]").unwrap(), ["a", "root@b", "n8", "n9", "n10"]);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"# rack 1\na\nb,c # spare\n\nnode[01-02]\n").unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(hosts_of(path).unwrap(), ["a", "b", "c", "node01", "node02"]);
        let text = |list: &str| hosts_of(list).unwrap_err().to_string();
        for empty in ["", "# rack 1\n\n"] {
            std::fs::write(path, empty).unwrap();
            assert!(text(path).starts_with(&format!("--hosts {path}: the file names no host")));
        }
        assert!(text("a slots=4,b").contains("slots of MPI"));
        assert!(text("root@a:2222").contains("`Port 2222`"));
        assert!(hosts_of("fe80::1,::2222").is_ok());
        for wrong in ["-oProxyCommand=x", "a,a", "a b", "a;reboot", "$(x)", "hosts.txt/x", "n[1"] {
            assert!(hosts_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn token_is_in_no_argument() {
        for push in [false, true] {
            let source = EngineSource::Ssh { hosts: vec!["a".to_owned()], push };
            let engine = Engine::new(source, &Token::new("secret"), "h:1".to_owned()).unwrap();
            for command in [engine.ssh("a", push).unwrap(), engine.srun(3)] {
                let arguments: Vec<_> = command.get_args().collect();
                assert!(!format!("{arguments:?}").contains("secret"), "{arguments:?}");
            }
        }
    }

    /// The remote script, by the shell of this machine in the place of ssh.
    fn run(script: &str, folder: &Path, input: &[u8]) -> std::process::Output {
        let mut shell = Command::new("sh");
        let path = format!("{}:{}", folder.display(), var("PATH").unwrap());
        shell.args(["-c", script]).env("TMPDIR", folder).env("PATH", path);
        shell.current_dir(folder.parent().unwrap());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdin.take().unwrap().write_all(input).unwrap();
        shell.wait_with_output().unwrap()
    }

    #[test]
    fn remote_command_runs_copied_program_and_removes_it() {
        let folder = tempfile::tempdir().unwrap();
        let program = "#!/bin/sh\necho \"$FATHOM_TOKEN $@\"; exit 3\n";
        let pushed =
            run(&remote("h:1", "a", true), folder.path(), format!("secret\n{program}").as_bytes());
        let expected = "secret fleet member --join h:1 --node a\n";
        assert_eq!(String::from_utf8_lossy(&pushed.stdout), expected, "{pushed:?}");
        assert_eq!(pushed.status.code(), Some(3));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the copy is left");
        // Without a copy it is the one in the PATH.
        let path = folder.path().join("fathom");
        std::fs::write(&path, program).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let found = run(&remote("h:1", "a", false), folder.path(), b"secret\n");
        assert_eq!(String::from_utf8_lossy(&found.stdout), expected, "{found:?}");
    }

    #[test]
    fn folder_without_programs_is_named_with_its_remedy() {
        fathom_lab::isolate_mounts!();
        let folder = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "noexec", "none"];
        let mounted = Command::new("mount").args(mount).arg(folder.path()).status();
        assert!(mounted.unwrap().success());
        let output = run(&remote("h:1", "a", true), folder.path(), b"secret\n#!/bin/sh\n");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("{} is mounted noexec: set TMPDIR", folder.path().display());
        assert!(text.starts_with(&expected) && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn hostile_words_stay_words_in_every_command() {
        let program = "fathom() { printf '%s\\n' \"$@\"; }\nsudo() { fathom \"$@\"; }\n";
        for word in HOSTILE {
            let folder = tempfile::tempdir().unwrap();
            // Its name begins with that of another folder.
            let (own, other) = (folder.path().join(format!("my {word}")), folder.path().join("my"));
            for path in [&own, &other] {
                std::fs::create_dir(path).unwrap();
            }
            let pushed = format!("secret\n#!/bin/sh\n{program}fathom \"$@\"\n");
            let member = run(&remote(word, word, true), &own, pushed.as_bytes());
            let expected = format!("fleet\nmember\n--join\n{word}\n--node\n{word}\n");
            assert_eq!(String::from_utf8_lossy(&member.stdout), expected, "{member:?}");
            assert_eq!(std::fs::read_dir(&own).unwrap().count(), 0, "the copy is left");
            // A selector has no control characters.
            let plain = word.replace(char::is_control, "");
            let selector = CaseSelector::parse(&format!("os{{a={plain}}}")).unwrap();
            let fixes = [
                Fix::RaiseCpuQuota { file: Some(word.to_owned()) },
                Fix::EnableOffloads { interface: word.to_owned(), offloads: Vec::new() },
            ];
            let fixes = fixes.map(|fix| (advice(&fix).command.unwrap(), word));
            let printed = fixes.into_iter().chain([
                (listening::member(word, Some(&own)), word),
                (format!("fathom run {}", selector.quoted("os")), &plain),
                (Invocation::new("fathom", [word]).to_string(), word),
            ]);
            for (command, word) in printed {
                let output = run(&(program.to_owned() + &command), &own, b"");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(text.contains(word), "{command}: {output:?}");
            }
            assert!(other.exists() && !folder.path().join("ran").exists(), "{word} was run");
        }
    }
}
