//! The memory group where memory is short, forbidden or in other pieces: what does not fit says
//! what it needs, what the limit is and what helps, and the rest is measured.

use std::io::{Error, Result};

use fathom_record::{Document, Record, Remedy};
use rustix::process::Resource;

use crate::Place;
use crate::forbidden::{has_number, within, without_number};
use crate::group::group;
use crate::limits::{at_most, one_cpu, under};
use crate::place::{document, says};

/// A quick run of these alone, as a document.
fn asked(metrics: &str) -> String {
    format!("run --quick --only --json {metrics}")
}

/// A run of some metrics in a process that was limited between fork and exec.
fn limited(
    place: &Place,
    limit: impl FnMut() -> Result<()> + Send + Sync + 'static,
    metrics: &str,
) -> Document {
    document(&under(place.asked(&asked(metrics)), limit))
}

/// Why a case has no number, and what would change that.
fn reason<'d>(missing: &[&'d Record], name: &str) -> (&'d str, Option<&'d Remedy>) {
    let record = missing.iter().find(|record| record.name() == name);
    let reason = &record.unwrap_or_else(|| panic!("{name} has a number")).verdict.reasons[0];
    (&reason.text, reason.remedy.as_ref())
}

/// Asserts that these have numbers.
fn have_numbers(document: &Document, names: &[&str]) {
    for name in names {
        assert!(has_number(document, name), "{name}");
    }
}

#[test]
fn a_cgroup_of_64_mib_kills_nobody_and_what_does_not_fit_says_so() {
    let place = Place::new();
    let limits = [("memory.limit_in_bytes", 64 << 20)];
    let Some(group) = group("memory", "group", &limits) else { return };
    let document = document(&place.ask_within(&group, &asked("memory")));
    let missing = without_number(&document);
    let (large, remedy) = reason(&missing, "memory.munmap{bytes=67108864,touched=yes}");
    says(large, &["needs 64 MiB", "cgroup's memory limit is 16 MiB"]);
    assert_eq!(remedy, Some(&Remedy::FreeMemory));
    let small = ["memory.fault{kind=anonymous}", "memory.fault{kind=anonymous_first}"];
    have_numbers(&document, &small);
    have_numbers(&document, &["memory.munmap{bytes=16777216,touched=yes}"]);
    let control = std::fs::read_to_string(group.file("memory.oom_control")).expect("a counter");
    assert!(control.contains("oom_kill 0"), "{control}");
}

/// Forbids huge pages to this process and its children, advice or not.
fn forbid_huge_pages() -> Result<()> {
    let (yes, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: takes plain numbers.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, yes, none, none, none) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[test]
fn without_huge_pages_what_asks_for_them_is_unavailable_and_nothing_else() {
    let place = Place::new();
    let metrics = "memory.fault memory.latency{set_bytes=1MiB}";
    let document = limited(&place, forbid_huge_pages, metrics);
    let missing = without_number(&document);
    let (huge, _) = reason(&missing, "memory.fault{kind=huge}");
    assert!(huge.contains("huge pages"), "{huge}");
    have_numbers(&document, &["memory.fault{kind=anonymous}", "memory.fault{kind=cow}"]);
    let told = |record: &&&Record| {
        let text = &record.verdict.reasons[0].text;
        text.contains("huge") || text.contains("no result") || text.contains("on a disk")
    };
    let others: Vec<String> =
        missing.iter().filter(|record| !told(record)).map(|record| record.name()).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn under_a_limit_of_address_space_large_mappings_are_unavailable_and_say_ulimit() {
    let place = Place::new();
    let metrics = "memory.mmap.setup memory.munmap memory.fault{kind=anonymous}";
    // `ulimit -v` of 2 GiB.
    let document = limited(&place, at_most(Resource::As, 2 << 30), metrics);
    let missing = without_number(&document);
    for name in ["memory.mmap.setup{bytes=1073741824}", "memory.mmap.setup{bytes=268435456}"] {
        let remedy = Remedy::raise(&["`ulimit -v`", "vm.overcommit_memory"]);
        assert_eq!(reason(&missing, name).1, Some(&remedy), "{name}");
    }
    have_numbers(&document, &["memory.mmap.setup{bytes=4096}", "memory.fault{kind=anonymous}"]);
    have_numbers(&document, &["memory.munmap{bytes=67108864,touched=yes}"]);
}

#[test]
fn nothing_needs_locked_memory() {
    let place = Place::new();
    let metrics = "memory.mmap.setup memory.fault{kind=anonymous} memory.latency{set_bytes=1MiB}";
    // `ulimit -l` of nothing.
    let document = limited(&place, at_most(Resource::Memlock, 0), metrics);
    for record in without_number(&document) {
        let text = &record.verdict.reasons[0].text;
        assert!(!text.contains("lock") && !text.contains("ulimit -l"), "{}: {text}", record.name());
    }
    have_numbers(&document, &["memory.fault{kind=anonymous}", "memory.mmap.setup{bytes=4096}"]);
}

#[test]
fn on_one_cpu_what_needs_no_second_is_measured() {
    let place = Place::new();
    let metrics = "memory.munmap memory.fault memory.core_to_core";
    let document = limited(&place, one_cpu, metrics);
    let missing = without_number(&document);
    let fault = missing.iter().find(|one| one.metric.as_str() == "memory.munmap");
    assert!(fault.is_none(), "{fault:?}");
    have_numbers(&document, &["memory.fault{kind=anonymous}", "memory.fault{kind=file_minor}"]);
}

#[test]
fn without_proc_what_needs_no_memory_is_measured_and_the_rest_says_why_not() {
    let place = Place::new();
    let metrics = "memory.mmap.setup memory.munmap memory.fault{kind=anonymous}";
    let Some(output) = within(&place, "umount -l /proc", &asked(metrics)) else { return };
    let document = document(&output);
    let missing = without_number(&document);
    have_numbers(&document, &["memory.mmap.setup{bytes=1073741824}"]);
    have_numbers(&document, &["memory.munmap{bytes=4096,touched=no}"]);
    let (anonymous, remedy) = reason(&missing, "memory.fault{kind=anonymous}");
    says(anonymous, &["cannot be verified"]);
    assert_eq!(remedy, Some(&Remedy::MountProc));
}
