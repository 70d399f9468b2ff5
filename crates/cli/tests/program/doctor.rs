//! `fathom doctor`: what it finds of this machine, and of what a test does to itself. Other tests
//! and other people use the machine meanwhile, so nothing here wants it quiet.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use fathom_record::{Diagnosis, Finding, Fix, Severity};
use rustix::process::Resource;

use crate::group::{group, skipped};
use crate::limits::{at_most, under};
use crate::place::{fits_schema, json, left, says};
use crate::{Place, text};

fn diagnosis(output: &Output) -> Diagnosis {
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    json(output)
}

fn finding(output: &Output, id: &str) -> Finding {
    let found = diagnosis(output).findings.into_iter().find(|finding| finding.id == id);
    found.expect("every rule says something")
}

/// The program under a limit of its own.
fn limited(place: &Place, resource: Resource, most: u64) -> Output {
    under(place.asked("doctor --json"), at_most(resource, most))
}

#[test]
fn the_exit_status_is_that_of_the_weightiest_finding_and_the_json_fits_its_schema() {
    let place = Place::new();
    let output = place.run(&["doctor", "--json"]);
    let told = diagnosis(&output);
    let status = match told.severity {
        Severity::Good | Severity::Note => 0,
        Severity::Warning => 3,
        Severity::Severe => 4,
    };
    assert_eq!(output.status.code(), Some(status), "{:?}", told.severity);
    assert_eq!(told.severity, fathom_analysis::diagnosis::worst(&told.findings));
    assert_eq!(told.findings.len(), fathom_analysis::diagnosis::rules().count());
    assert!(told.condition.look.is_some_and(|look| look.length_ns >= 200e6));
    assert!(told.clock.facts.is_some() && !told.host.kernel.is_empty());
    let broken = serde_json::json!({"schema": 1, "findings": [{"id": 7}]});
    fits_schema(&output, include_str!("../../../../docs/doctor.schema.json"), &broken);
}

#[test]
fn the_text_fits_its_terminal_and_ends_with_what_to_do_next() {
    let place = Place::new();
    for (columns, arguments) in
        [("80", &["doctor"][..]), ("140", &["doctor", "-a"]), ("60", &["doctor", "--all"])]
    {
        let output = place.fathom(arguments).env("COLUMNS", columns).output().expect("it starts");
        let said = text(&output.stdout);
        assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{}", text(&output.stderr));
        let most: usize = columns.parse().expect("a number");
        assert!(said.lines().all(|line| line.chars().count() <= most), "{said}");
        assert!(!said.contains('\u{1b}'));
        assert!(said.contains("\nNext: "), "{said}");
        let all = said.contains("good: nothing to report");
        assert_eq!(all, arguments.len() > 1, "{said}");
    }
}

#[test]
fn nothing_is_made_or_changed() {
    let place = Place::new();
    let _ = place.run(&["doctor"]);
    assert!(left(place.path()).is_empty());
    let output = place.ask(&format!("doctor --json --store {}", place.name("a/b/fathom.db")));
    assert_eq!(finding(&output, "store").severity, Severity::Warning, "not ours to create");
    let mut by_default = place.asked("doctor --json");
    by_default.env_remove("FATHOM_STORE").env("XDG_DATA_HOME", place.name("a/b"));
    let output = by_default.output().expect("it starts");
    assert_eq!(finding(&output, "store").severity, Severity::Good);
    assert!(left(place.path()).is_empty());
}

#[test]
fn a_store_that_cannot_be_written_is_a_warning() {
    let place = Place::new();
    std::fs::write(place.path().join("file"), "not a folder").expect("a file");
    let name = place.name("file/fathom.db");
    let output = place.run(&["doctor", "--json", "--store", &name]);
    assert!(matches!(output.status.code(), Some(3 | 4)));
    let found = finding(&output, "store");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.found.contains(&name), "{found:?}");
    let precious = "somebody's text ".repeat(100);
    std::fs::write(place.store(), &precious).expect("a file");
    let output = place.run(&["doctor", "--json"]);
    assert_eq!(finding(&output, "store").severity, Severity::Warning);
    assert_eq!(std::fs::read_to_string(place.store()).expect("a file"), precious);
    std::fs::remove_file(place.store()).expect("it is there");
    place.short_run();
    assert_eq!(finding(&place.run(&["doctor", "--json"]), "store").severity, Severity::Good);
}

#[test]
fn limits_of_files_and_of_address_space_are_told_with_their_figures() {
    let place = Place::new();
    let files = limited(&place, Resource::Nofile, 40);
    assert_eq!(files.status.code(), Some(4));
    let found = finding(&files, "limit-files");
    assert_eq!(found.severity, Severity::Severe);
    assert!(
        found.found.starts_with("40 files") && found.remedy == Some(Fix::RaiseFileLimit),
        "{found:?}"
    );
    let space = limited(&place, Resource::As, 1 << 30);
    assert!(matches!(space.status.code(), Some(3 | 4)));
    let found = finding(&space, "limit-address-space");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.found.starts_with("1.0 GiB"), "{found:?}");
}

#[test]
fn a_limit_on_processes_binds_an_ordinary_user() {
    let place = Place::new();
    let output = match rustix::process::geteuid().is_root() {
        false => limited(&place, Resource::Nproc, 3),
        true => {
            // Nobody must be able to read the program, and few processes be nobody's.
            let readable = std::fs::Permissions::from_mode(0o755);
            let copy = place.path().join("fathom");
            std::fs::copy(env!("CARGO_BIN_EXE_fathom"), &copy).expect("a copy");
            std::fs::set_permissions(place.path(), readable.clone()).expect("ours");
            std::fs::set_permissions(&copy, readable).expect("ours");
            let limit = ["--nproc=3:3", "--"].map(str::to_owned);
            let mut command = Command::new("prlimit");
            command.args(limit).arg(&copy).args(["doctor", "--json"]).uid(65_534).gid(65_534);
            match command.env("FATHOM_STORE", place.store()).current_dir("/").output() {
                Ok(output) if !output.stdout.is_empty() => output,
                other => return skipped(&format!("nobody cannot run the program here: {other:?}")),
            }
        }
    };
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let found = finding(&output, "limit-processes");
    assert_eq!(found.severity, Severity::Severe);
    assert!(found.found.starts_with("3 processes and threads"), "{found:?}");
    assert!(diagnosis(&output).condition.limits.processes_now >= Some(1));
}

#[test]
fn another_run_is_seen_while_it_lasts() {
    let place = Place::new();
    let address = SocketAddr::from_abstract_name("fathom-run").expect("a name");
    // Runs of other tests hold it now and then, and may end before it is looked for.
    for patience in (0..100).rev() {
        let held = UnixListener::bind_addr(&address);
        let output = place.run(&["doctor", "--json"]);
        let found = finding(&output, "another-run");
        if found.severity == Severity::Warning {
            assert!(matches!(output.status.code(), Some(3 | 4)));
            return;
        }
        assert!(held.is_err(), "the name was held, and not seen: {found:?}");
        assert!(patience > 0, "other runs came and went all the time");
    }
}

#[test]
fn a_counter_that_was_refused_is_said_with_what_stands_in_for_it() {
    let place = Place::new();
    let mut command = place.fathom(&["doctor", "--json"]);
    let output = command.env("FATHOM_CLOCK", "monotonic_raw").output().expect("it starts");
    let found = finding(&output, "clock-counter");
    assert!(found.severity > Severity::Good, "{found:?}");
    assert!(found.found.contains("FATHOM_CLOCK=monotonic_raw"), "{found:?}");
    assert!(found.found.contains("monotonic_raw instead"), "{found:?}");
}

#[test]
fn a_mistake_is_refused_and_help_has_the_statuses() {
    let place = Place::new();
    place.refuses("doctor", "--jsn | --jsn | --json\n cpu | cpu");
    let statuses = ["Exit status: 0", "3 a warning", "4 something"];
    let parts = [&["Examples:", "fathom doctor --all"], &statuses[..]].concat();
    says(&text(&place.ask("doctor --help").stdout), &parts);
}

#[test]
fn a_quota_is_severe_or_a_warning_by_its_figure_which_is_told() {
    let place = Place::new();
    for (name, quota_us, severity, figure) in [
        ("low", 40_000, Severity::Severe, "0.40 CPU"),
        ("high", 80_000, Severity::Warning, "0.80 CPU"),
    ] {
        let quota = [("cpu.cfs_period_us", 100_000), ("cpu.cfs_quota_us", quota_us)];
        let Some(group) = group("cpu", name, &quota) else { return };
        let output = place.ask_within(&group, "doctor --json");
        let found = finding(&output, "cgroup-cpu-quota");
        assert_eq!(found.severity, severity, "{found:?}");
        assert!(found.found.contains(figure), "{found:?}");
        let file = group.file("cpu.cfs_quota_us").display().to_string();
        assert!(found.read_at.contains(&file), "{found:?}");
        assert_eq!(found.remedy, Some(Fix::RaiseCpuQuota { file: Some(file) }));
        let status = output.status.code().expect("a status");
        assert!(status == 4 || (severity == Severity::Warning && status == 3), "{status}");
        let folder = group.file("");
        drop(group);
        assert!(!folder.exists(), "the group must be gone: {}", folder.display());
    }
}
