//! A store in a database, as commands use it: results wait in a file of this user, and a process of
//! its own sends them.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use fathom_lab::postgres::LabPostgres;
use fathom_record::RunState;
use fathom_store::{Place, Store};

use crate::group::skipped;
use crate::test_env::{ProgramTestEnv, assert_contains, assert_status, text};

const MEASURE: &str = "file read data --block 64K";

/// An environment whose store is in a database of a server of its own.
struct Team {
    env: ProgramTestEnv,
    server: LabPostgres,
    address: String,
}

impl Team {
    fn new() -> Option<Self> {
        let server = LabPostgres::start(None).map_err(|why| skipped(&why.to_string())).ok()?;
        let address = server.new_database("team").expect("a database");
        let address = address.replace("fathom@", "fathom:s3cret@");
        let env = ProgramTestEnv::new();
        std::fs::write(env.file("data"), vec![1; 1 << 20]).expect("a file");
        Some(Self { env, server, address })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = self.env.command(line);
        command.env("FATHOM_STORE", &self.address);
        command
    }

    /// Standard error of a command that ends with this status and prints no password.
    fn exec(&self, line: &str, status: i32) -> [String; 2] {
        let output = self.command(line).output().expect("the program starts");
        assert_status(&output, status);
        let [out, errors] = [&output.stdout, &output.stderr].map(|bytes| text(bytes));
        assert!(!out.contains("s3cret") && !errors.contains("s3cret"), "{out}{errors}");
        [out, errors]
    }

    fn place(&self) -> Place {
        Place::parse(OsStr::new(&self.address)).expect("an address")
    }

    fn states(&self) -> Vec<RunState> {
        let store = Store::open_existing(self.place());
        let runs = store.and_then(|store| store.runs()).unwrap_or_default();
        runs.iter().map(|run| run.state).collect()
    }

    /// Runs that wait on this machine.
    fn waiting(&self) -> usize {
        let folder = std::fs::read_dir(self.env.file("fathom/spool")).expect("a spool");
        let paths = folder.map(|entry| entry.expect("an entry").path());
        let is_spool = |path: &std::path::PathBuf| {
            let name = path.to_string_lossy().into_owned();
            name.ends_with(".db") && !name.ends_with(".sent.db")
        };
        let spool =
            paths.filter(is_spool).map(|path| Store::open_existing(&path).expect("a store"));
        spool.map(|store| store.runs().expect("runs").len()).sum()
    }
}

#[test]
fn results_are_sent_to_the_database_at_the_end() {
    let Some(team) = Team::new() else { return };
    let [_, errors] = team.exec(MEASURE, 0);
    assert!(!errors.contains("kept in"), "{errors}");
    assert_eq!((team.states(), team.waiting()), (vec![RunState::Complete], 0));
    let [shown, errors] = team.exec("show latest:file", 0);
    assert!(!errors.contains("password"), "{errors}");
    let [_, errors] = team.exec(&format!("show latest:file --store {}", team.address), 0);
    assert_eq!(errors.matches("--store has a password").count(), 1, "{errors}");
    assert_contains(&shown, &["data, 64 KiB", "Kept as run"]);
    let [runs, _] = team.exec("show --runs", 0);
    assert_contains(&runs, &["file read"]);
    // What predictions need of earlier runs stays here.
    let sent = std::fs::read_dir(team.env.file("fathom/spool")).expect("a spool");
    assert!(sent.flatten().any(|it| it.path().to_string_lossy().ends_with(".sent.db")));
}

#[test]
fn without_the_database_results_wait_and_are_sent_once() {
    let Some(mut team) = Team::new() else { return };
    team.server.crash();
    for waiting in 1..=2 {
        let [_, errors] = team.exec(MEASURE, 0);
        assert_eq!(errors.matches("kept in").count(), 1, "{errors}");
        assert_contains(&errors, &["spool/", "fathom store forward", "connect to postgres://"]);
        assert_eq!(team.waiting(), waiting);
    }
    let [_, errors] = team.exec("show latest", 1);
    assert_contains(&errors, &["connect to postgres://", "check that the server runs"]);
    team.server.restart().expect("a server");
    let [sent, _] = team.exec("store forward", 0);
    assert_contains(&sent, &["Sent 2 runs to postgres://fathom@"]);
    let [sent, _] = team.exec("store forward", 0);
    assert_contains(&sent, &["Sent 0 runs"]);
    assert_eq!((team.states(), team.waiting()), (vec![RunState::Complete; 2], 0));
    let [checked, _] = team.exec("store check", 0);
    assert_contains(&checked, &["2 runs with ", "no damage"]);
}

/// A role without rights, and a database of another encoding: nothing is measured for the spool.
#[test]
fn database_that_takes_no_run_is_refused_before_measuring() {
    let Some(mut team) = Team::new() else { return };
    team.server.sql("team", "CREATE ROLE reader LOGIN").expect("a role");
    let create = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    team.server.sql("postgres", create).expect("a database");
    let latin = team.address.replace("/team", "/latin");
    let reader = team.address.replace("fathom:s3cret@", "reader@");
    for (address, reason) in [(latin, "encoding LATIN1"), (reader, "the role lacks rights")] {
        team.address = address;
        for line in [MEASURE, "run --quick --only cpu.frequency"] {
            let [out, errors] = team.exec(line, 1);
            assert_contains(&errors, &[reason]);
            assert!(out.is_empty() && !team.env.file("fathom/spool").exists(), "{out}{errors}");
        }
    }
    let [_, errors] = team.exec(MEASURE, 1);
    let (_, rest) = errors.split_once("execute `").expect("a statement");
    let (grant, _) = rest.split_once('`').expect("its end");
    assert_eq!(grant, "GRANT CREATE ON DATABASE team TO reader");
    team.server.sql("team", grant).expect("granted");
    team.exec(MEASURE, 0);
    assert_eq!((team.states(), team.waiting()), (vec![RunState::Complete], 0));
}

#[test]
fn run_is_seen_while_it_runs_and_interrupted_when_killed() {
    let Some(team) = Team::new() else { return };
    let mut run = team.command("run --only cpu.frequency --thorough");
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    while team.states().is_empty() && run.try_wait().expect("a child").is_none() {
        // mood: the run is seen once another process has sent it
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(team.states(), [RunState::Running]);
    run.kill().expect("a child");
    run.wait().expect("a child");
    assert_eq!(team.states(), [RunState::Interrupted], "on this machine");
    assert_eq!(team.waiting(), 1);
    // The next command sends what is left of it.
    team.exec("show --runs", 0);
    assert_eq!((team.states(), team.waiting()), (vec![RunState::Interrupted], 0));
    let stored = "SELECT state FROM fathom.run";
    assert_eq!(team.server.sql("team", stored).expect("a row"), "interrupted");
}

#[test]
fn store_is_copied_checked_and_pruned_in_a_database() {
    let Some(team) = Team::new() else { return };
    for number in 1..=3 {
        team.env.store_run(&crate::test_env::stored_run(number));
    }
    let (from, to) = (team.env.path_text("fathom.db"), &team.address);
    let copied = |arguments: [&str; 2]| {
        let output = team.env.run(&["export", "--store", arguments[0], "--to", arguments[1]]);
        assert_status(&output, 0);
        text(&output.stdout)
    };
    assert_eq!(copied([&from, to]), "Copied 3 runs.\n");
    assert_eq!(copied([&from, to]), "Copied 0 runs; 3 there before.\n");
    let back = team.env.path_text("back.db");
    assert_eq!(copied([to, &back]), "Copied 3 runs.\n");
    let ids = |place: &Place| -> Vec<String> {
        let store = Store::open_existing(place).expect("a store");
        store.runs().expect("runs").into_iter().map(|run| run.id).collect()
    };
    let expected = ids(&Place::from(&team.env.store()));
    assert_eq!(
        (ids(&team.place()), ids(&Place::from(&team.env.file("back.db")))),
        (expected.clone(), expected)
    );
    let same = team.env.run(&["export", "--store", &from, "--to", &from]);
    assert_status(&same, 2);
    let damage =
        "UPDATE fathom.record SET body = replace(body, '\"n\":', '\"n\":1') WHERE number = 1";
    team.server.sql("team", damage).expect("damaged");
    let [found, _] = team.exec("store check", 3);
    assert_contains(
        &found,
        &["is damaged: checksum mismatch", "3 runs with 5 intact records; 1 damaged part."],
    );
    let [pruned, _] = team.exec("store prune --keep 1 --runs", 0);
    assert_contains(&pruned, &["Deleted "]);
    let [checked, _] = team.exec("store check", 0);
    assert_contains(&checked, &["no damage"]);
}

/// A way to a server far away: its port, and how often the other end has waited for an answer.
fn far_way(to: u16) -> (u16, Arc<AtomicU32>) {
    const DELAY: Duration = Duration::from_millis(20);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let count = Arc::new(AtomicU32::new(0));
    let trips = Arc::clone(&count);
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let far = TcpStream::connect(("127.0.0.1", to)).expect("the server");
            let is_answered = Arc::new(AtomicBool::new(true));
            let ends = [[&near, &far], [&far, &near]];
            for (is_answer, ends) in [false, true].into_iter().zip(ends) {
                let [mut from, mut to] = ends.map(|end| end.try_clone().expect("a descriptor"));
                let (trips, is_answered) = (Arc::clone(&trips), Arc::clone(&is_answered));
                std::thread::spawn(move || {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(length @ 1..) = from.read(&mut buffer) {
                        if is_answer {
                            // mood: what is sent before the answer arrives is the same trip
                            std::thread::sleep(DELAY);
                        }
                        let was_answered = is_answered.swap(is_answer, SeqCst);
                        trips.fetch_add((!is_answer && was_answered).into(), SeqCst);
                        if to.write_all(&buffer[..length]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    (port, count)
}

#[test]
fn far_database_costs_four_round_trips() {
    let Some(mut team) = Team::new() else { return };
    for number in 1..=3 {
        team.env.store_run(&crate::test_env::stored_run(number));
    }
    let from = team.env.path_text("fathom.db");
    let copied = team.env.run(&["export", "--store", &from, "--to", &team.address]);
    assert_status(&copied, 0);
    let (port, trips) = far_way(team.server.port());
    let limits = team.env.path_text("limits.toml");
    team.exec(&format!("export --format limits -o {limits}"), 0);
    team.address = format!("postgres://fathom@127.0.0.1:{port}/team?sslmode=disable");
    for line in ["show", "show latest", "compare latest~1 latest", "report --force"] {
        let output = team.command(line).output().expect("the program starts");
        assert_status(&output, 0);
        // One is the login.
        let count = trips.swap(0, SeqCst);
        assert!((3..=5).contains(&count), "{line}: {count} round trips");
    }
    team.exec(&format!("check latest --limits {limits}"), 0);
    let count = trips.swap(0, SeqCst);
    assert!((3..=5).contains(&count), "check: {count} round trips");
}

/// The address of no database is a usage error, and its password is not printed.
#[test]
fn wrong_address_is_a_usage_error() {
    let env = ProgramTestEnv::new();
    for (address, reason) in [
        ("mysql://ada:s3cret@db/team", "no database of `mysql:`"),
        ("postgres:/ada:s3cret@db/team", "`//` is missing"),
        ("postgres://ada:s3/cret@db/team", "%2F"),
        ("postgres://ada:s3cret@db/team?sslmode=maybe", "sslmode=maybe"),
    ] {
        for line in [&["show", "--store", address][..], &["run", "--quick", "--store", address]] {
            let output = env.run(line);
            assert_status(&output, 2);
            let errors = text(&output.stderr);
            assert_contains(&errors, &[reason, "postgres://USER@HOST/DATABASE"]);
            assert!(!errors.contains("s3"), "{errors}");
        }
    }
}
