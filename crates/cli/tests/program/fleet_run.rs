//! `fathom fleet run`: members as processes of this machine, and a crowd in this process.

use std::fs;
use std::io::{BufReader, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};

use fathom_far::Token;
use fathom_lab::crowd;
use fathom_record::{Cause, Document, Record, State, Verdict};
use rustix::process::Signal;
use serde_json::Value;

use crate::children::{assert_all_end, send, signal_and_wait};
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_failure, assert_status, assert_usage_error, canned,
    json, text,
};

pub(crate) const TOKEN: &str = "a-token-of-this-test";
/// Cheap, and enough for a run.
const CHEAP: &str = "--quick --only cpu.clock.resolution";
/// Takes longer than any test.
const LONG: &str = "--thorough";

/// A running coordinator, and where members join.
pub(crate) struct FleetRunCoordinator {
    child: Child,
    errors: BufReader<ChildStderr>,
    pub(crate) join: String,
    token_file: Option<String>,
}

impl FleetRunCoordinator {
    fn start(env: &ProgramTestEnv, options: &str) -> Self {
        Self::begin(env, &format!("fleet run {options}"))
    }

    pub(crate) fn begin(env: &ProgramTestEnv, line: &str) -> Self {
        let mut command = env.command(line);
        command.env("FATHOM_TOKEN", TOKEN);
        Self::from_command(command)
    }

    /// Starts it, and waits until it says where members join.
    fn from_command(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let line = line_with(&mut errors, "--join ");
        let after = |option: &str| {
            let rest = line.split(option).nth(1)?;
            rest.split_whitespace().next().map(str::to_owned)
        };
        let (join, token_file) = (after("--join "), after("--token-file "));
        Self { child, errors, join: join.expect("an address"), token_file }
    }

    fn address(&self) -> SocketAddr {
        self.join.parse().expect("an address")
    }

    /// Waits for a line on standard error.
    pub(crate) fn says(&mut self, part: &str) -> String {
        line_with(&mut self.errors, part)
    }

    pub(crate) fn end(mut self) -> Output {
        // Both pipes at once: it may fill either.
        let reader = std::thread::spawn(move || {
            let mut stderr = Vec::new();
            self.errors.read_to_end(&mut stderr).map(|_| stderr)
        });
        let output = self.child.wait_with_output().expect("a child");
        Output { stderr: reader.join().expect("a thread").expect("a pipe"), ..output }
    }
}

fn line_with(errors: &mut impl std::io::BufRead, part: &str) -> String {
    let mut line = String::new();
    while !line.contains(part) {
        line.clear();
        assert_ne!(errors.read_line(&mut line).expect("lines"), 0, "it ended before `{part}`");
    }
    line
}

fn member(env: &ProgramTestEnv, join: &str, name: &str) -> Command {
    let mut command = env.command(&format!("fleet member --join {join}"));
    command.env("FATHOM_TOKEN", TOKEN).env("FATHOM_HOST", name).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn started(env: &ProgramTestEnv, join: &str, name: &str) -> Child {
    member(env, join, name).spawn().expect("it starts")
}

pub(crate) fn ended(child: Child) -> (ExitStatus, String) {
    let output = child.wait_with_output().expect("a child");
    (output.status, text(&output.stderr))
}

#[test]
fn members_deliver_and_are_judged() {
    let env = ProgramTestEnv::new();
    let options = format!("--members 3 --same-host --label group --at-once 2 {CHEAP}");
    let coordinator = FleetRunCoordinator::start(&env, &options);
    let members = ["m1", "m2", "m3"].map(|name| started(&env, &coordinator.join, name));
    let output = coordinator.end();
    for (status, errors) in members.map(ended) {
        assert!(status.success(), "{status} {errors}");
    }
    // Fewer than five hosts do not judge each other.
    assert_status(&output, 5);
    let screen = text(&output.stdout);
    assert_contains(&screen, &["3 members joined, 3 delivered\n", "m[1-3]"]);
    assert_contains(&screen, &["fathom fleet judge group judges these runs again"]);
    // They are in the store, each with its host and its samples, under one label.
    let again = env.exec("fleet judge group --json");
    assert_status(&again, 5);
    assert_eq!(json::<Value>(&again)["hosts"], 3);
    let stored = env.document_of("m2");
    assert_eq!((stored.host.name.as_str(), stored.run.label.as_deref()), ("m2", Some("group")));
    assert_eq!(stored.run.asked, ["cpu.clock.resolution"]);
    assert!(stored.records[0].samples.is_some() && stored.run.notes.len() <= 1);
}

#[test]
fn common_start_is_recorded() {
    let env = ProgramTestEnv::new();
    let options = format!("--members 2 --same-host --together --json {CHEAP}");
    let coordinator = FleetRunCoordinator::start(&env, &options);
    let members = ["m1", "m2"].map(|name| started(&env, &coordinator.join, name));
    let output = coordinator.end();
    for (status, errors) in members.map(ended) {
        assert!(status.success(), "{status} {errors} {}", text(&output.stderr));
    }
    let judged: Value = json(&output);
    assert_eq!(judged["start"]["members"], 2, "{judged:#}");
    assert!(judged["start"]["error_ns"].as_f64().expect("an error") > 0.0);
    let label = judged["label"].as_str().expect("a label");
    assert!(label.starts_with("fleet-") && label.len() == 12, "{label}");
    let notes = env.document_of("m1").run.notes.join(" ");
    assert_contains(&notes, &["started together with others, ", " ms from the announced time"]);
}

#[test]
fn wrong_token_joins_nothing() {
    let env = ProgramTestEnv::new();
    let mut coordinator = FleetRunCoordinator::start(&env, &format!("--members 1 --json {CHEAP}"));
    let mut wrong = member(&env, &coordinator.join, "m1");
    assert_failure(&wrong.env("FATHOM_TOKEN", "other").output().expect("it ran"), &["wrong token"]);
    let mut without = member(&env, &coordinator.join, "m1");
    let output = without.env_remove("FATHOM_TOKEN").output().expect("it ran");
    assert_usage_error(&output, &["no token: set FATHOM_TOKEN, or add --token-file"]);
    // Somebody who speaks another protocol.
    let mut stranger = std::net::TcpStream::connect(coordinator.address()).expect("connected");
    std::io::Write::write_all(&mut stranger, b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    coordinator.says("refused a connection: an unknown message");
    std::fs::write(env.file("token"), format!("{TOKEN}\n")).expect("a file");
    let right = format!("fleet member --join {} --token-file token", coordinator.join);
    let right = env.command(&right).env("FATHOM_HOST", "m1").output().expect("it ran");
    assert_status(&right, 0);
    let members = json::<Value>(&coordinator.end())["members"].clone();
    assert_eq!((&members["joined"], &members["delivered"]), (&1.into(), &1.into()));
}

#[test]
fn new_token_is_in_a_private_file_until_the_end() {
    let env = ProgramTestEnv::new();
    let mut command = env.command(&format!("fleet run --members 1 --json {CHEAP}"));
    command.env_remove("FATHOM_TOKEN").env("XDG_RUNTIME_DIR", env.path());
    let mut coordinator = FleetRunCoordinator::from_command(command);
    let file = coordinator.token_file.take().expect("a file with the token");
    let mode = std::fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = std::fs::read_to_string(&file).expect("a token");
    assert!(token.trim().len() == 64, "{token}");
    // It is seen in no process.
    let cmdline = format!("/proc/{}/cmdline", coordinator.child.id());
    assert!(!std::fs::read_to_string(cmdline).expect("arguments").contains(token.trim()));
    let line = format!("fleet member --join {} --token-file {file}", coordinator.join);
    let mut member = env.command(&line);
    assert_status(&member.env("FATHOM_HOST", "m1").output().expect("it ran"), 0);
    assert_eq!(json::<Value>(&coordinator.end())["members"]["delivered"], 1);
    assert!(!std::path::Path::new(&file).exists(), "the token is left");
}

#[test]
fn two_members_of_one_machine_are_refused() {
    let env = ProgramTestEnv::new();
    let options = format!("--members 2 --join-time 1h {CHEAP}");
    let coordinator = FleetRunCoordinator::start(&env, &options);
    let document = of_host(&canned(), 1);
    let token = Token::new(TOKEN);
    let mut first = crowd::Emulated::connect(coordinator.address(), &token, &document).unwrap();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("an id");
    first.join.boot_id = boot_id.trim().to_owned();
    first.until_joined().expect("joined");
    let second = member(&env, &coordinator.join, "m2").output().expect("it ran");
    let why = "c1 is on the same machine (boot id); two would disturb each other: --same-host";
    assert_failure(&second, &["the coordinator refuses this member: ", why]);
    // Nor may two hosts have one name.
    let mut named = crowd::Emulated::connect(coordinator.address(), &token, &document).unwrap();
    let refused = named.until_joined().unwrap_err().to_string();
    assert_contains(&refused, &["another member is named c1: name each host by FATHOM_HOST"]);
    send(&coordinator.child, Signal::INT);
    assert_status(&coordinator.end(), 130);
}

#[test]
fn lost_member_does_not_hold_up_the_others() {
    let env = ProgramTestEnv::new();
    let options = format!("--members 2 --same-host --at-once 1 --json {CHEAP}");
    let mut coordinator = FleetRunCoordinator::start(&env, &options);
    // Between them, one that joins and then closes its connection.
    let token = Token::new(TOKEN);
    let document = of_host(&canned(), 1);
    let mut lost = crowd::Emulated::connect(coordinator.address(), &token, &document).unwrap();
    lost.until_joined().expect("joined");
    drop(lost);
    coordinator.says("lost c1: connection closed");
    let right = started(&env, &coordinator.join, "m1");
    let output = coordinator.end();
    assert!(ended(right).0.success());
    let members = json::<Value>(&output)["members"].clone();
    assert_eq!((&members["joined"], &members["delivered"]), (&2.into(), &1.into()));
    assert_eq!(members["lost"][0]["host"], "c1");
    assert_eq!(members["lost"][0]["reason"], "connection closed");
}

/// Starts two members that measure for long, and returns them with all their processes.
fn measuring(env: &ProgramTestEnv) -> (FleetRunCoordinator, Vec<Child>) {
    let coordinator = FleetRunCoordinator::start(env, &format!("--members 2 --same-host {LONG}"));
    let members: Vec<Child> =
        ["m1", "m2"].iter().map(|name| started(env, &coordinator.join, name)).collect();
    crate::children::wait_until("members do not measure", || {
        members.iter().all(|member| fathom_lab::processes::descendants(member.id()).len() > 1)
    });
    (coordinator, members)
}

fn families(members: &[Child]) -> Vec<u32> {
    members.iter().flat_map(|it| fathom_lab::processes::descendants(it.id())).collect()
}

#[test]
fn interrupt_ends_all_members() {
    let env = ProgramTestEnv::new();
    let (coordinator, members) = measuring(&env);
    let all = families(&members);
    send(&coordinator.child, Signal::INT);
    let output = coordinator.end();
    assert_status(&output, 130);
    let summary = "2 members joined, 0 delivered, 2 lost: m[1-2] (ended before it had delivered)";
    assert_contains(&text(&output.stderr), &[summary]);
    for (status, errors) in members.into_iter().map(ended) {
        assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
    }
    assert_all_end(&all);
}

#[test]
fn members_end_with_their_coordinator() {
    let env = ProgramTestEnv::new();
    let (coordinator, members) = measuring(&env);
    let all = families(&members);
    signal_and_wait(coordinator.child, Signal::KILL);
    for (status, errors) in members.into_iter().map(ended) {
        assert_eq!(status.code(), Some(1));
        assert_contains(&errors, &["the coordinator has gone"]);
    }
    assert_all_end(&all);
}

/// The canned run as a member of a crowd delivers it.
fn of_host(document: &Document, at: usize) -> Document {
    let mut document = document.clone();
    (document.host.name, document.host.id) = (format!("c{at}"), Some(format!("{at:032x}")));
    document.run.id = format!("{at:016x}");
    document.run.asked = vec!["cpu.clock".to_owned()];
    document.records = document.records.into_iter().map(Record::sealed).collect();
    document
}

#[test]
fn crowd_delivers_but_for_those_that_are_lost() {
    for (together, lost) in [(false, 10), (true, 10)] {
        let env = ProgramTestEnv::new();
        let word = if together { "--together --allow-missing 10" } else { "" };
        let coordinator = FleetRunCoordinator::start(
            &env,
            &format!("--members 100 --label crowd --json {word} cpu"),
        );
        let canned = canned();
        let documents = (0..100).map(|at| of_host(&canned, at));
        let token = Token::new(TOKEN);
        let address = coordinator.address();
        let mut errors = coordinator.errors;
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).map(|_| text)
        });
        let ending = crowd::join(address, &token, documents, (lost, together, 7)).expect("joined");
        assert_eq!(ending, crowd::CrowdEnding { delivered: 100 - lost, lost });
        let output = coordinator.child.wait_with_output().expect("a child");
        let errors = reader.join().expect("a thread").expect("text");
        assert_eq!(errors.matches(": connection closed").count(), lost, "{errors}");
        let judged: Value = json(&output);
        assert_eq!(judged["members"]["joined"], 100);
        assert_eq!(judged["members"]["lost"].as_array().expect("hosts").len(), lost);
        assert_eq!(judged["hosts"], 100 - lost);
        // Canned hosts are equal, so none is odd; but some are missing.
        assert_status(&output, if together { 0 } else { 3 });
        let store = fathom_store::Store::open_existing(&env.store()).expect("a store");
        assert_eq!(store.labelled("crowd").expect("runs").len(), 100 - lost);
    }
}

#[test]
fn host_whose_cases_fail_makes_the_fleet_odd() {
    let env = ProgramTestEnv::new();
    let coordinator = FleetRunCoordinator::start(&env, "--members 6 --label odd cpu");
    let (address, canned) = (coordinator.address(), canned());
    let documents = (0..6).map(|at| {
        let mut document = of_host(&canned, at);
        if at == 4 {
            let failed = Verdict::because(State::Failed, Cause::TimedOut, "after 20 s");
            document.records[0].verdict = failed;
            document.records = document.records.into_iter().map(Record::sealed).collect();
        }
        document
    });
    crowd::join(address, &Token::new(TOKEN), documents, (0, false, 1)).expect("joined");
    let output = coordinator.end();
    assert_status(&output, 3);
    let screen = text(&output.stdout);
    let case = canned.records[0].metric.as_str();
    let failed = format!("1 case failed (timeout), measured by most hosts: {case}");
    assert_contains(&screen, &["1 of 6 hosts is odd: c4", "Odd hosts\nc4\n", &failed]);
}

#[test]
fn facts_of_members_are_compared_without_measuring() {
    let env = ProgramTestEnv::new();
    let mut command = env.command("fleet judge --facts --members 6 --json");
    command.env("FATHOM_TOKEN", TOKEN);
    let coordinator = FleetRunCoordinator::from_command(command);
    let address = coordinator.address();
    let canned = canned();
    let documents = (0..6).map(|at| {
        let mut document = of_host(&canned, at);
        document.host.kernel = if at == 4 { "5.4.0" } else { "6.1.0" }.to_owned();
        document
    });
    crowd::join(address, &Token::new(TOKEN), documents, (0, false, 1)).expect("joined");
    let output = coordinator.end();
    assert_status(&output, 3);
    let judged: Value = json(&output);
    assert_eq!(judged["groups"][0]["odd"][0]["host"], "c4");
    assert_eq!(judged["members"]["joined"], 6);
    assert!(!env.store().exists(), "nothing was measured, so nothing is stored");
}

/// As sshd does: a banner before the login, a message of the day, then the command.
const SSH: &str = "#!/bin/sh
[ $1 = -G ] && { echo hostname 127.0.0.1; exit; }
while [ $1 != -- ]; do shift; done
[ $2 = gone ] && exit 255
echo '*** Authorised use only. All activity is logged. ***' >&2; echo Welcome to $2
FATHOM_HOST=$2 exec sh -c \"$3\"
";

#[test]
fn banners_of_ssh_are_no_reasons_and_reasons_are_folded() {
    let env = ProgramTestEnv::new();
    let program = Path::new(env!("CARGO_BIN_EXE_fathom")).parent().expect("a folder").display();
    let ssh = env.file("ssh");
    fs::write(&ssh, SSH).expect("a file");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let facts = |path: &str| {
        let mut command = env.command("fleet judge --facts --same-host --hosts a,b,gone");
        command.env("PATH", format!("{}:{path}/usr/bin:/bin", env.path().display()));
        command.output().expect("it ran")
    };
    let output = facts(&format!("{program}:"));
    assert_status(&output, 3);
    let missing = "1 host missing and not judged: exit status 3, unless --allow-missing 1";
    let joined = "2 of 3 members joined, 1 did not join: gone (";
    assert_contains(&text(&output.stdout), &[joined, "a,b", missing]);
    let output = facts("");
    assert_status(&output, 1);
    let errors = text(&output.stderr);
    assert!(errors.contains("a,b (sh:") && errors.contains("fathom: not found"), "{errors}");
    assert!(!errors.contains("Authorised") && !errors.contains("Welcome"), "{errors}");
}

#[test]
fn wrong_command_lines_start_nothing() {
    let env = ProgramTestEnv::new();
    let exec = |line: &str| {
        let mut command = env.command(line);
        command.env_remove("SLURM_JOB_ID").output().expect("it ran")
    };
    for (line, parts) in [
        ("fleet run cpu", &["no hosts: add --hosts LIST or --members N"][..]),
        ("fleet judge --facts", &["no hosts: add --hosts LIST"]),
        ("fleet run no.such.metric --members 2", &["no.such.metric"]),
        ("fleet run file.sweep --members 2", &["file.sweep"]),
        ("fleet run cpu --push --members 2", &["--push", "--members"]),
        ("fleet run cpu --push", &["--push copies by ssh: add --hosts"]),
        ("fleet run cpu --hosts a,a", &["--hosts: a occurs twice"]),
        ("fleet run cpu --hosts=-oProxyCommand=x", &["neither a host of ssh nor"]),
        ("fleet run cpu --members 2 --listen head:1", &["--listen", "an address of this machine"]),
        ("fleet run cpu --members 2 --together --at-once 1", &["--together", "--at-once"]),
        ("fleet member --join :1", &["--join", "HOST or HOST:PORT"]),
    ] {
        let output = exec(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", text(&output.stderr));
        assert_contains(&text(&output.stderr), parts);
    }
}

#[test]
fn who_waits_in_vain_says_for_what() {
    let env = ProgramTestEnv::new();
    let line = format!("fleet run --members 2 --join-time 10ms {CHEAP}");
    let errors = text(&env.command(&line).output().expect("it ran").stderr);
    let loopback = "only this host reaches it; --listen ADDR is for others, too";
    assert_contains(&errors, &[loopback, "nobody joined in 10.00 ms; --join-time waits longer"]);
    // The port of a listener that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = member(&env, &gone.to_string(), "m1").args(["--connect-time", "10ms"]).output();
    let waits = format!("waiting for {gone}, for 10.00 ms at most: connect: Connection refused");
    assert_contains(
        &text(&output.expect("it ran").stderr),
        &[&waits, "member of ", "--connect-time waits"],
    );
    let output = env.command(&format!("fleet run --hosts no[1-2].invalid {CHEAP}")).output();
    let unknown = "the address of no1.invalid cannot be looked up, nor that of another host";
    assert_contains(&text(&output.expect("it ran").stderr), &[unknown, "--listen ADDR"]);
}
