//! The memory metrics under limits: a case that does not fit names its need, the limit and a
//! remedy; the others are measured.

use std::io::{Error, Result};

use fathom_record::{Document, Record, Remedy};
use rustix::process::Resource;

use crate::ProgramTestEnv;
use crate::forbidden::{in_mount_namespace, is_measured, missing_records};
use crate::group::group;
use crate::limits::{at_most, one_cpu, under};
use crate::test_env::{assert_contains, document};

/// The command line of a quick run of some metrics.
fn run_line(metrics: &str) -> String {
    format!("run --quick --only --processes 3 --json {metrics}")
}

/// Runs some metrics in a process that is limited between fork and exec.
fn run_limited(
    env: &ProgramTestEnv,
    limit: impl FnMut() -> Result<()> + Send + Sync + 'static,
    metrics: &str,
) -> Document {
    document(&under(env.command(&run_line(metrics)), limit))
}

/// The reason and the remedy of an unavailable case.
fn reason<'d>(missing: &[&'d Record], name: &str) -> (&'d str, Option<&'d Remedy>) {
    let record = missing.iter().find(|record| record.name() == name);
    let reason = &record.unwrap_or_else(|| panic!("{name} was measured")).verdict.reasons[0];
    (&reason.text, reason.remedy.as_ref())
}

fn assert_measured(document: &Document, names: &[&str]) {
    for name in names {
        assert!(is_measured(document, name), "{name}");
    }
}

const SOME: &str = "memory.munmap{bytes=64MiB} memory.munmap{bytes=1MiB,touched=yes} \
    memory.fault{kind=anonymous} os.process.fork{rss_bytes=1GiB} os.process.fork{rss_bytes=1MiB}";

#[test]
fn small_cgroup_makes_large_cases_unavailable() {
    let env = ProgramTestEnv::new();
    let limits = [("memory.limit_in_bytes", 64 << 20)];
    let Some(group) = group("memory", "small", &limits) else { return };
    let document = document(&env.exec_in(&group, &run_line(SOME)));
    assert_eq!(document.host.cgroup.memory_limit_bytes, Some(64 << 20));
    let missing = missing_records(&document);
    let (large, remedy) = reason(&missing, "memory.munmap{bytes=67108864,touched=yes}");
    assert_contains(large, &["needs 64 MiB", "memory limit is 16 MiB"]);
    assert_eq!(remedy, Some(&Remedy::FreeMemory));
    let small = ["memory.fault{kind=anonymous}", "memory.munmap{bytes=1048576,touched=yes}"];
    assert_measured(&document, &small);
    let forks = missing.iter().filter(|one| one.metric.as_str() == "os.process.fork");
    let reasons: Vec<&str> = forks.map(|one| one.verdict.reasons[0].text.as_str()).collect();
    assert_eq!(reasons.len(), 2, "two parts of 1 GiB: {reasons:?}");
    assert!(reasons.iter().all(|text| text.contains("cgroup's memory limit")), "{reasons:?}");
    assert_measured(&document, &["os.process.fork{part=fork,rss_bytes=1048576}"]);
    let control = std::fs::read_to_string(group.file("memory.oom_control")).expect("a counter");
    assert!(control.contains("oom_kill 0"), "{control}");
}

/// Disables transparent huge pages for this process and its children.
fn forbid_huge_pages() -> Result<()> {
    let (yes, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: takes plain numbers.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, yes, none, none, none) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[test]
fn without_thp_only_huge_page_cases_are_missing() {
    let env = ProgramTestEnv::new();
    let metrics = "memory.fault{kind=huge} memory.fault{kind=anonymous} \
                   memory.latency{set_bytes=1MiB}";
    let document = run_limited(&env, forbid_huge_pages, metrics);
    let missing = missing_records(&document);
    let (huge, _) = reason(&missing, "memory.fault{kind=huge}");
    assert!(huge.contains("huge pages"), "{huge}");
    assert_measured(&document, &["memory.fault{kind=anonymous}"]);
    let is_expected = |record: &&&Record| record.verdict.reasons[0].text.contains("huge");
    let others: Vec<String> =
        missing.iter().filter(|record| !is_expected(record)).map(|one| one.name()).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn address_space_limit_names_ulimit() {
    let env = ProgramTestEnv::new();
    let metrics = "memory.mmap.setup memory.fault{kind=anonymous}";
    // `ulimit -v` of 2 GiB.
    let document = run_limited(&env, at_most(Resource::As, 2 << 30), metrics);
    let missing = missing_records(&document);
    for name in ["memory.mmap.setup{bytes=1073741824}", "memory.mmap.setup{bytes=268435456}"] {
        let remedy = Remedy::raise(&["`ulimit -v`", "vm.overcommit_memory"]);
        assert_eq!(reason(&missing, name).1, Some(&remedy), "{name}");
    }
    assert_measured(&document, &["memory.mmap.setup{bytes=4096}", "memory.fault{kind=anonymous}"]);
}

#[test]
fn no_metric_needs_locked_memory() {
    let env = ProgramTestEnv::new();
    let metrics = "memory.mmap.setup{bytes=4096} memory.fault{kind=anonymous}";
    // `ulimit -l` of 0.
    let document = run_limited(&env, at_most(Resource::Memlock, 0), metrics);
    for record in missing_records(&document) {
        let text = &record.verdict.reasons[0].text;
        assert!(!text.contains("lock") && !text.contains("ulimit -l"), "{}: {text}", record.name());
    }
    assert_measured(&document, &["memory.fault{kind=anonymous}", "memory.mmap.setup{bytes=4096}"]);
}

#[test]
fn one_cpu_measures_single_cpu_cases() {
    let env = ProgramTestEnv::new();
    let metrics = "memory.munmap{bytes=4096} memory.fault{kind=file_minor} memory.core_to_core";
    let document = run_limited(&env, one_cpu, metrics);
    let missing = missing_records(&document);
    let fault = missing.iter().find(|one| one.metric.as_str() == "memory.munmap");
    assert!(fault.is_none(), "{fault:?}");
    assert_measured(&document, &["memory.fault{kind=file_minor}"]);
}

#[test]
fn without_proc_faults_cannot_be_verified() {
    let env = ProgramTestEnv::new();
    let metrics =
        "memory.mmap.setup{bytes=1GiB} memory.munmap{bytes=4096} memory.fault{kind=anonymous}";
    let Some(output) = in_mount_namespace(&env, "umount -l /proc", &run_line(metrics)) else {
        return;
    };
    let document = document(&output);
    let missing = missing_records(&document);
    assert_measured(&document, &["memory.mmap.setup{bytes=1073741824}"]);
    assert_measured(&document, &["memory.munmap{bytes=4096,touched=no}"]);
    let (anonymous, remedy) = reason(&missing, "memory.fault{kind=anonymous}");
    assert_contains(anonymous, &["cannot be verified"]);
    assert_eq!(remedy, Some(&Remedy::MountProc));
}
