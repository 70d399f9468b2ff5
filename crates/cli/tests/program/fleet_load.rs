//! `fathom fleet load`: shares of one load by members that are processes of this machine.

use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::process::Child;

use fathom_far::Token;
use fathom_fleet::{
    CoordinatorAudience, CoordinatorPlan, FleetWork, Joined, LoadShare, PlanCounts, Skew,
    coordinate,
};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::{Cause, Document, Histogram, Record, State};
use rustix::process::Signal;

use crate::children::{signal_and_wait, wait_until};
use crate::fleet_run::{FleetRunCoordinator, TOKEN, ended, started};
use crate::load::{LoadServer, LoadServing};
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_message, assert_status, document, of_metric, text,
};

/// Members that have joined a coordinator.
fn members(env: &ProgramTestEnv, coordinator: &FleetRunCoordinator, names: &[&str]) -> Vec<Child> {
    names.iter().map(|name| started(env, &coordinator.join, name)).collect()
}

fn coordinator(env: &ProgramTestEnv, server: &LoadServer, options: &str) -> FleetRunCoordinator {
    let url = server.url("/f1");
    FleetRunCoordinator::begin(env, &format!("fleet load {url} --same-host --json {options}"))
}

/// The counted times of a record.
fn times(record: &Record) -> Histogram {
    let samples = record.samples.as_ref().expect("samples");
    samples[0].histogram.clone().expect("times")
}

fn is_from_due(record: &&Record) -> bool {
    record.params.text("from").is_none()
}

#[test]
fn shares_are_merged_to_one_load() {
    let (env, server) = (ProgramTestEnv::new(), LoadServer::start());
    let options = "--members 3 --clients 2,5 --rate 60 --arrivals uniform --time 900ms \
                   --label whole --samples --fail-if errors>50%";
    let coordinator = coordinator(&env, &server, options);
    let members = members(&env, &coordinator, &["m1", "m2", "m3"]);
    let output = coordinator.end();
    for (status, errors) in members.into_iter().map(ended) {
        assert!(status.success(), "{status} {errors}");
    }
    // No request fails, however busy the machine is.
    assert_status(&output, 0);
    let merged: Document = document(&output);
    assert_eq!(
        (merged.run.procedure.as_deref(), merged.run.label.as_deref()),
        (Some("load"), Some("whole"))
    );
    let shares = ["m1", "m2", "m3"].map(|name| env.document_of(name));
    let steps = of_metric(&merged, "load.throughput");
    let clients = steps.iter().map(|step| step.params.integer("clients"));
    assert_eq!(clients.collect::<Vec<_>>(), [Some(2), Some(5), None]);
    for step in &steps {
        assert_eq!(step.params.integer("members"), Some(3));
        assert_eq!(step.text_of("members"), Some("3: m[1-3]"));
        let of_step = |record: &&Record| {
            let has = |name: &str| record.params.0.get(name) == step.params.0.get(name);
            has("clients") && has("rate") && record.params.0.contains_key("share")
        };
        // What the members stored, each for itself.
        let own: Vec<&Record> = shares
            .iter()
            .flat_map(|share| of_metric(share, "load.response_time"))
            .filter(of_step)
            .filter(is_from_due)
            .collect();
        let members = if step.params.integer("clients") == Some(2) { 2 } else { 3 };
        assert_eq!(own.len(), members, "a member without a client rests");
        let mut all = Histogram::new();
        own.iter().for_each(|record| all.merge(&times(record)));
        let whole = of_metric(&merged, "load.response_time");
        let whole = whole.iter().filter(|it| is_from_due(it)).find(|it| it.params == step.params);
        assert_eq!(times(whole.expect("response times")), all);
        assert_eq!(step.checks["requests completed"], all.len().to_string());
    }
    let due = |step: &Record| {
        ["requests", "without a response"].map(|name| step.quantity_of(name).expect("a count"))
    };
    let last =
        shares.each_ref().map(|share| of_metric(share, "load.throughput").pop().expect("one"));
    let sum = [0, 1].map(|at| last.iter().map(|step| due(step)[at]).sum::<f64>());
    assert_eq!(due(steps[2]), sum);
    // In the order in which they joined.
    let mut names = last.map(|step| step.params.text("share").expect("a share"));
    names.sort_unstable();
    assert_eq!(names, ["1/3", "2/3", "3/3"]);
    assert_eq!(last[0].samples.as_ref().expect("samples")[0].windows.len(), 3);
}

#[test]
fn lost_member_is_missing_by_name() {
    let (env, server) = (ProgramTestEnv::new(), LoadServer::start());
    let mut coordinator = coordinator(&env, &server, "--members 2 --clients 4 --time 900ms");
    let mut all = members(&env, &coordinator, &["m1", "m2"]);
    let second = all.pop().expect("two");
    wait_until("m2 does not measure", || {
        !fathom_lab::processes::descendants(second.id()).is_empty()
    });
    signal_and_wait(second, Signal::KILL);
    coordinator.says("lost m2: connection closed");
    let output = coordinator.end();
    assert!(all.into_iter().map(ended).all(|(status, _)| status.success()));
    assert_status(&output, 1);
    let merged: Document = serde_json::from_slice(&output.stdout).expect("a document");
    let step = of_metric(&merged, "load.throughput")[0];
    let reason = &step.verdict.reasons[0];
    assert_eq!((step.verdict.state, reason.cause), (State::Invalid, Cause::NotAsAsked));
    assert_eq!(reason.text, "2 of 4 clients are missing: m2: connection closed");
    assert_contains(&text(&output.stderr), &["no step has a valid result of all members"]);
}

#[test]
fn options_that_are_not_for_members_start_nothing() {
    let env = ProgramTestEnv::new();
    for (options, part) in [
        ("--prove", "--prove: not with several members"),
        ("--find-max --slo p99<1ms", "--find-max: not with several members"),
        ("--requests 9", "--requests: not with several members"),
        ("--urls paths", "--urls: expected a pattern of paths"),
        ("--time 30h", "below 5 h are accepted"),
        ("--clients 0", "1 to 100000 clients"),
    ] {
        let output = env.exec(&format!("fleet load http://127.0.0.1:1/ --members 2 {options}"));
        assert_message(&output, 2, &[part]);
    }
    assert_status(&env.exec("fleet load ftp://127.0.0.1/ --members 2"), 2);
}

#[test]
fn token_of_the_server_reaches_the_members() {
    let env = ProgramTestEnv::new();
    std::fs::create_dir(env.file("set")).expect("a folder");
    std::fs::write(env.file("set/f0"), "hello").expect("a file");
    let (_serving, url) =
        LoadServing::spawn(env.command("serve set --listen 0 --token-file token"));
    let options = "--members 2 --same-host --clients 2 --time 900ms --json --token-file token";
    let coordinator = FleetRunCoordinator::begin(&env, &format!("fleet load {url} {options}"));
    let members = members(&env, &coordinator, &["m1", "m2"]);
    let output = coordinator.end();
    assert!(members.into_iter().map(ended).all(|(status, _)| status.success()));
    let merged: Document = serde_json::from_slice(&output.stdout).expect("a document");
    let step = of_metric(&merged, "load.throughput")[0];
    assert_eq!(step.quantity_of("errors"), Some(0.0));
    // One of them has asked the server for its counters.
    assert!(step.quantity_of("server CPU").is_some());
    let all = String::from_utf8(output.stdout).expect("text");
    let token = std::fs::read_to_string(env.file("token")).expect("a token");
    assert!(!all.contains(token.trim()), "the token is in no document");
}

/// A member makes its own command line: what is not on its list is refused before it starts.
#[test]
fn hostile_order_reads_no_file() {
    for option in ["--token-file=/etc/shadow", "--cacert=/etc/passwd", "--make=1x1MB", "--store=x"]
    {
        let (url, options) = ("http://127.0.0.1:1/".to_owned(), vec![option.to_owned()]);
        let work = FleetWork::Load(LoadShare { url, options, place: 0, of: 1, token: None });
        assert_contains(&refusal(&work), &["refused an order: ", "is not accepted"]);
    }
}

/// Why a member does not do this work.
fn refusal(work: &FleetWork) -> String {
    let env = ProgramTestEnv::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let member = started(&env, &listener.local_addr().expect("an address").to_string(), "m1");
    let plan = CoordinatorPlan {
        token: Token::new(TOKEN),
        expected: 1,
        join_ns: u64::MAX,
        same_host: false,
        together: true,
        at_once: 1,
        rounds: &|_| 1,
        work: &|_, _, _| Some(work.clone()),
        clock: monotonic_raw_ns,
    };
    let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
    let mut lost = Lost(Vec::new());
    coordinate(vec![listener], &plan, stop.as_fd(), &mut lost).expect("members");
    assert!(!ended(member).0.success());
    assert_eq!(lost.0.len(), 1);
    lost.0.swap_remove(0)
}

/// Why members were lost.
struct Lost(Vec<String>);

impl CoordinatorAudience for Lost {
    fn joined(&mut self, _: &Joined) {}

    fn delivered(
        &mut self,
        _: &Joined,
        _: Option<&Joined>,
        _: Option<Skew>,
        _: &[u8],
    ) -> Result<(), String> {
        panic!("a refused order was carried out")
    }

    fn lost(&mut self, _: &Joined, reason: &str) {
        self.0.push(reason.to_owned());
    }

    fn refused(&mut self, reason: &str) {
        panic!("{reason}")
    }

    fn tick(&mut self, _: &PlanCounts) -> usize {
        0
    }
}
