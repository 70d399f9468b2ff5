//! `fathom transfer`: every combination between two processes, known answers, and wrong use.

use std::process::Output;

use fathom_lab::bandwidth::limited_by;
use fathom_lab::limited::PAYLOAD;
use fathom_lab::link::{ADDRESSES, LabLink};
use fathom_lab::processes::children;
use fathom_record::{Document, FactValue, Record, RunState, State, Unit, Value};
use rustix::process::{Resource, Signal};

use crate::children::{
    assert_all_end, next_line, send, signal_and_wait, spawn_piped, wait_for_record, wait_until,
};
use crate::group::skipped;
use crate::limits::{at_most, under};
use crate::serve::start as serve;
use crate::test_env::{
    ProgramTestEnv, TestEnvFolder, assert_contains, assert_failure, assert_status, document, json,
    of_metric, text,
};

/// Loaded on few hosts: its paths are tested with the module, in QEMU.
const DEVICE: &str = "/dev/fathom_master";

fn fact(record: &Record, name: &str) -> f64 {
    let fact = record.facts.iter().find(|fact| fact.name == name);
    match fact.map(|fact| &fact.value) {
        Some(FactValue::Quantity { value, unit }) => {
            // By which the page draws a rate.
            assert_eq!(name == "rate", *unit == Unit::BytesPerSecond, "{fact:?}");
            *value
        }
        other => panic!("{name}: {other:?} in {:?}", record.facts),
    }
}

fn transfer(env: &ProgramTestEnv, folder: &TestEnvFolder, options: &str) -> Output {
    let folder = folder.path().display();
    env.exec(&format!("transfer --folder {folder} --json {options}"))
}

#[test]
fn every_path_delivers_a_set() {
    let Some(folder) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let output = transfer(&env, &folder, "--sets small --repeat 1");
    let run: Document = document(&output);
    let times = of_metric(&run, "transfer.time");
    assert_eq!(times.len(), of_metric(&run, "transfer.rate").len());
    assert!(times.len() == 32 || std::path::Path::new(DEVICE).exists(), "{}", times.len());
    for record in &times {
        if record.verdict.state == State::Failed {
            // io_uring may be forbidden.
            skipped(&format!("{}: {:?}", record.params, record.verdict));
            continue;
        }
        assert!(record.checks["content"].contains("XOR-32"), "{:?}", record.checks);
        let bytes = fact(record, "rate") * record.summary.as_ref().expect("a time").median / 1e9;
        assert_eq!(bytes.round(), 24_114.0, "{}", record.params);
    }
    let effects = of_metric(&run, "transfer.effect");
    let is_send = |record: &&&Record| record.params.text("factor") == Some("send");
    assert!(effects.iter().filter(is_send).count() >= 5, "five paths against copy");
    let advice = of_metric(&run, "transfer.advice")[0].value.as_ref();
    assert!(matches!(advice, Some(Value::Text(text)) if text.starts_with("small: ")), "{advice:?}");
    assert!(folder.is_empty(), "files are left");
}

#[test]
fn user_sends_a_folder_of_chosen_combinations() {
    let Some(folder) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    std::fs::create_dir(env.file("own")).expect("a folder");
    std::fs::write(env.file("own").join("a"), vec![1; 100_000]).expect("a file");
    std::fs::write(env.file("own").join("b"), "").expect("an empty file");
    let options = "own --send-path sendfile,mmap --receive-path splice --window 4K --repeat 6 \
                   --connection per-file,persistent";
    let run: Document = document(&transfer(&env, &folder, options));
    let times = of_metric(&run, "transfer.time");
    assert_eq!(times.len(), 4);
    for record in times {
        assert_eq!(record.params.text("set"), Some("own/"));
        let summary = record.summary.as_ref().expect("a time");
        assert_eq!((summary.n, summary.processes, summary.interval.is_some()), (6, 6, true));
    }
    let effects = of_metric(&run, "transfer.effect");
    let of = |factor: &str| {
        let is = |record: &&&Record| record.params.text("factor") == Some(factor);
        let found = effects.iter().find(is).unwrap_or_else(|| panic!("no effect of {factor}"));
        (found.params.text("from").map(str::to_owned), fact(found, "pairs"))
    };
    // The first of each list is the reference.
    assert_eq!(of("send"), (Some("sendfile".to_owned()), 2.0));
    assert_eq!(of("connection"), (Some("per-file".to_owned()), 2.0));
}

#[test]
fn windows_of_a_page_cost_a_fault_each() {
    let Some(folder) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let options = "--sets file --send-path mmap --receive-path mmap --window 4K,64K --repeat 1";
    let run: Document = document(&transfer(&env, &folder, options));
    let pages = (12_022_972_f64 / 4096.0).ceil();
    for record in of_metric(&run, "transfer.time") {
        // The sender reads: the kernel maps up to 16 pages with each fault, fewer if not all are
        // in memory.
        let is_page = record.params.integer("window_bytes") == Some(4096);
        let [sent, received] = ["send faults", "receive faults"].map(|name| fact(record, name));
        let expected = if is_page { pages } else { (pages / 16.0).floor() };
        assert!(sent >= expected, "{}: {sent}, not {expected}", record.params);
        assert!(received >= pages, "{}: {received}, not {pages}", record.params);
    }
}

#[test]
fn study_is_beside_its_figures_and_pages_are_decoded() {
    let Some(folder) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let options = "--sets small --published --repeat 5 --pages";
    let run: Document = document(&transfer(&env, &folder, options));
    let times = of_metric(&run, "transfer.time");
    assert_eq!(times.len(), 16);
    let shown = |record: &Record| fact(record, "published");
    let sum: f64 = times.iter().map(|record| shown(record)).sum();
    // Of the 16 means of the small set, in milliseconds.
    assert!((sum / 1e6 - 59.580).abs() < 0.001, "{sum}");
    let text_of = |record: &Record| match &record.value {
        Some(Value::Text(text)) => text.clone(),
        other => panic!("{other:?}"),
    };
    let pages = of_metric(&run, "transfer.page");
    assert_eq!(pages.len(), 2, "both ends");
    for page in pages {
        let words = text_of(page);
        let has_device = std::path::Path::new(DEVICE).exists();
        assert!(words.starts_with("present, file, ") || has_device, "{words}");
        let is_root = rustix::process::geteuid().is_root();
        assert!(words.contains(if is_root { "frame 0x" } else { "frame hidden" }), "{words}");
    }
    let claims = of_metric(&run, "transfer.claim");
    // Of the small set: one connection for all, the window, and mmap at the sender.
    assert_eq!(claims.len(), 3);
    let claims = claims.into_iter().map(text_of).collect::<Vec<_>>().join("\n");
    let published = ["published × 0.26", "published × 0.99", "published × 1.04", "time × "];
    assert_contains(&claims, &published);
}

/// `fathom serve` at the other end of a link. Fields are dropped in this order.
struct TransferBeyond {
    server: Option<std::process::Child>,
    env: ProgramTestEnv,
    link: LabLink,
}

impl Drop for TransferBeyond {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            signal_and_wait(server, Signal::INT);
        }
    }
}

#[test]
#[ignore = "lab: a shaped link"]
fn every_path_has_the_rate_of_a_slow_link() {
    const BITS_S: u64 = 100_000_000;
    let Some(folder) = TestEnvFolder::on_disk() else { return };
    let link = LabLink::new("transfer").and_then(|link| link.limit(0, BITS_S).map(|()| link));
    let link = match link {
        Ok(link) => link,
        Err(why) => return skipped(&why.to_string()),
    };
    let env = ProgramTestEnv::new();
    let place = folder.path().display().to_string();
    let line =
        format!("serve . --listen {}:7000 --token-file token --receive {place}", ADDRESSES[1]);
    let mut server = spawn_piped(link.at(1, &env.command(&line)));
    assert!(next_line(&mut server).contains("http://"));
    let beyond = TransferBeyond { server: Some(server), env, link };
    // Ways that differ most; all of them take minutes.
    let line = format!(
        "transfer --sets file --send-path copy,sendfile,zerocopy,uring --receive-path copy,splice \
         --repeat 2 --folder {place} --to {}:7000 --token-file token --json",
        ADDRESSES[1]
    );
    let output = beyond.link.at(0, &beyond.env.command(&line)).output().expect("it starts");
    let run: Document = document(&output);
    let rates = of_metric(&run, "transfer.rate");
    assert_eq!(rates.len(), 8);
    let rate = |record: &&Record| record.summary.as_ref().expect("a rate").median;
    let rates: Vec<f64> = rates.iter().map(rate).collect();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    assert!(most / least < 1.02, "{rates:?}");
    // The handshake and the burst of the bucket are a part of it.
    let share = least / (BITS_S as f64 / 8.0 * PAYLOAD);
    assert!((share - 1.0).abs() < 0.03, "{share}: {rates:?}");
    let named = of_metric(&run, "transfer.time");
    let named: Vec<_> = named.iter().filter_map(|record| limited_by(record)).collect();
    assert_eq!(named, ["link"; 8]);
}

#[test]
fn interrupted_transfer_leaves_nothing() {
    let Some(folder) = TestEnvFolder::on_disk() else { return };
    for signal in [Signal::INT, Signal::KILL] {
        let env = ProgramTestEnv::new();
        let line = format!("transfer --sets file --folder {}", folder.path().display());
        let child = spawn_piped(env.command(&line));
        let pid = child.id();
        let senders = || children(pid);
        wait_until("a far end", || senders().iter().any(|sender| !children(*sender).is_empty()));
        let sender = senders()[0];
        let status = signal_and_wait(child, signal);
        assert_eq!(status.code(), (signal == Signal::INT).then_some(130));
        assert_all_end(&[sender]);
        assert!(folder.is_empty(), "files are left");
    }
}

/// A repetition is stored before the receiver is killed, or the transfer is interrupted; all would
/// take minutes.
#[test]
fn ended_transfer_keeps_finished_repetitions() {
    let Some(folder) = TestEnvFolder::on_disk() else { return };
    for by_person in [false, true] {
        let env = ProgramTestEnv::new();
        let (server, address) = serve(&env, "--receive .");
        let mut server = Some(server);
        let place = folder.path().display();
        let options = "--sets small --send-path copy --receive-path copy --repeat 10000 --json";
        let line = format!("transfer --folder {place} --to {address} {options}");
        let child = spawn_piped(env.command(&line));
        wait_for_record(&env);
        match by_person {
            true => send(&child, Signal::INT),
            false => _ = server.take().map(|server| signal_and_wait(server, Signal::KILL)),
        }
        let output = child.wait_with_output().expect("it ends");
        let why = format!("fathom: {address} stopped answering after ");
        assert_status(&output, if by_person { 130 } else { 1 });
        assert_eq!(text(&output.stderr).contains(&why), !by_person, "{}", text(&output.stderr));
        for run in [json(&output), env.latest()] {
            let run: Document = run;
            assert_eq!(run.run.state, RunState::Interrupted);
            let times = of_metric(&run, "transfer.time");
            assert!(times[0].summary.as_ref().is_some_and(|it| it.n > 0), "{:?}", times[0]);
        }
        server.map(|server| signal_and_wait(server, Signal::INT));
    }
}

#[test]
fn missing_kernel_devices_are_named_with_the_remedy() {
    if std::path::Path::new(DEVICE).exists() {
        return skipped("this host has the kernel devices");
    }
    let env = ProgramTestEnv::new();
    let why = ["no such device", "docs/KERNEL.md"];
    for (options, expected) in [
        ("--send-path copy,device-mmap", "--send-path device-mmap: /dev/fathom_master: "),
        ("--receive-path device-copy", "--receive-path device-copy: /dev/fathom_slave: "),
        ("--published --device", "--device: /dev/fathom_master: "),
    ] {
        let output = env.exec(&format!("transfer --sets small --repeat 1 {options}"));
        assert_failure(&output, &[expected, why[0], why[1]]);
    }
    let (child, address) = serve(&env, "--receive .");
    let receive = "--receive-path device-mmap --sets small --repeat 1";
    let output = env.exec(&format!("transfer --to {address} {receive}"));
    assert_failure(&output, &["127.0.0.1:/dev/fathom_slave: ", why[0], why[1]]);
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

#[test]
fn unusable_end_has_one_clear_line() {
    let env = ProgramTestEnv::new();
    let unknown = env.exec("transfer --congestion none --sets small");
    assert_failure(&unknown, &["--congestion none", "available are"]);
    let (child, address) = serve(&env, "");
    let output = env.exec(&format!("transfer --to {address} --sets small --repeat 1"));
    assert_failure(&output, &["--receive DIR"]);
    assert!(!text(&output.stderr).contains("panicked"));
    assert_eq!(signal_and_wait(child, Signal::INT).code(), Some(0));
}

/// Of the process that makes a set, and of the receiving end, not that of the broken connection.
#[test]
fn file_size_limit_of_either_end_is_named() {
    let Some(folder) = TestEnvFolder::on_disk() else { return };
    let env = ProgramTestEnv::new();
    let sent = env.file("sent");
    std::fs::create_dir(&sent).expect("a folder");
    std::fs::write(sent.join("4mib"), vec![1; 4 << 20]).expect("a file");
    let place = folder.path_text();
    for (what, whose) in [("--sets file", place), (env.path_text("sent").as_str(), "the receiver")]
    {
        let line = format!("transfer {what} --folder {place} --repeat 1 --send-path copy,sendfile");
        let output = under(env.command(&line), at_most(Resource::Fsize, 1 << 20));
        assert_status(&output, 1);
        let error = text(&output.stderr);
        assert_contains(&error, &[whose, "File too large", "ulimit -f"]);
    }
}
