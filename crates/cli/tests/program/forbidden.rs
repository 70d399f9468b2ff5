//! Kernels and containers that lack or forbid something: what cannot be measured says why, and the
//! rest is measured.

use std::process::{Command, Output};

use fathom_record::{Document, Record, State};

use crate::group::{group, skipped};
use crate::limits::under;
use crate::place::{document, ends_with, words};
use crate::{Place, text};

/// The whole battery of the processor and the kernel.
const ALL: &str = "run --quick --json cpu os";

/// Runs the program in a mount namespace of its own, after `before`; none where that is forbidden.
pub(crate) fn within(place: &Place, before: &str, line: &str) -> Option<Output> {
    let may = Command::new("unshare").args(["--mount", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        skipped("a mount namespace needs root, and unshare of util-linux");
        return None;
    }
    let mut command = place.fathom(&[]);
    let script = format!("{before} && exec \"$@\"");
    let program = command.get_program().to_owned();
    let mut within = Command::new("unshare");
    within.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    within.arg(program).args(words(line));
    for (name, value) in command.env("HOME", "/").get_envs() {
        match value {
            Some(value) => within.env(name, value),
            None => within.env_remove(name),
        };
    }
    Some(within.output().expect("unshare starts"))
}

/// Asserts that every record has a number or a reason for having none, and none failed; returns
/// those without a number.
pub(crate) fn without_number(document: &Document) -> Vec<&Record> {
    for record in &document.records {
        let reasons = &record.verdict.reasons;
        assert_ne!(record.verdict.state, State::Failed, "{}: {reasons:?}", record.name());
        // On a busy machine an end is often still awake when it is woken, and that is told.
        let is_of_load = |text: &str| text.starts_with("asleep when woken");
        if !reasons.first().is_some_and(|reason| is_of_load(&reason.text)) {
            assert_ne!(record.verdict.state, State::Invalid, "{}: {reasons:?}", record.name());
        }
        if record.verdict.state == State::Unavailable {
            assert!(!reasons.is_empty() && !reasons[0].text.is_empty(), "{}", record.name());
        }
    }
    let unavailable = |record: &&Record| record.verdict.state == State::Unavailable;
    document.records.iter().filter(unavailable).collect()
}

pub(crate) fn has_number(document: &Document, name: &str) -> bool {
    document.records.iter().any(|one| one.name() == name && one.verdict.shows_number())
}

#[test]
fn without_proc_the_machine_is_measured_all_the_same() {
    let place = Place::new();
    let Some(output) = within(&place, "umount -l /proc", ALL) else { return };
    let document = document(&output);
    let missing = without_number(&document);
    for name in ["os.syscall{call=getppid}", "os.switch.process{set_bytes=0}", "cpu.frequency"] {
        assert!(has_number(&document, name), "{name}");
    }
    assert!(missing.len() * 3 < document.records.len(), "{} are missing", missing.len());
}

#[test]
fn without_sys_nothing_is_missing_but_facts() {
    let place = Place::new();
    let line = "run --quick --json cpu os.syscall os.switch.thread";
    let Some(output) = within(&place, "umount -R -l /sys", line) else { return };
    assert_eq!(without_number(&document(&output)).len(), 0);
}

#[test]
fn what_nobody_named_and_cannot_be_written_is_not_kept_and_measured() {
    let place = Place::new();
    let before = "mount --bind -o ro / / && mount -o remount,bind,ro / && cd / && \
                  unset FATHOM_STORE XDG_DATA_HOME";
    let Some(output) = within(&place, before, "run --quick cpu.frequency") else { return };
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    if said.contains("mount:") {
        return skipped("the root cannot be made read-only here");
    }
    ends_with(&output, 0);
    assert_eq!(said.matches("this run is not kept: ").count(), 2, "first and last: {said}");
    assert!(said.contains("read-only") && printed.contains("cpu.frequency"), "{said}{printed}");
    let named = format!("{before} && export FATHOM_STORE=/store.db");
    let Some(output) = within(&place, &named, "run --quick cpu.frequency") else { return };
    ends_with(&output, 1);
    assert!(text(&output.stdout).contains("cpu.frequency"), "{}", text(&output.stdout));
}

/// The numbers of some system calls, by the kernel's name.
const CREATIONS: [(&str, libc::c_long); 6] = [
    ("epoll_create1", libc::SYS_epoll_create1),
    ("eventfd2", libc::SYS_eventfd2),
    ("memfd_create", libc::SYS_memfd_create),
    ("mknodat", libc::SYS_mknodat),
    ("semget", libc::SYS_semget),
    ("socketpair", libc::SYS_socketpair),
];

/// The program under a filter by which these system calls fail with EPERM.
fn filtered(place: &Place, forbidden: &[libc::c_long], line: &str) -> Output {
    let statement =
        |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let load_number = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    let answer = |action: u32| statement(libc::BPF_RET | libc::BPF_K, 0, action);
    let mut filter = vec![load_number];
    for (index, number) in forbidden.iter().enumerate() {
        // Over the rest of the list and the permission, to the refusal.
        let distance = (forbidden.len() - index) as u8;
        let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter.push(statement(jump, distance, *number as u32));
    }
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    filter.push(answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    let install = move || {
        let program =
            libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: both calls take plain numbers but for the filter, which lives until they return.
        let refused = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    != 0
        };
        if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    under(place.asked(line), install)
}

#[test]
fn calls_that_a_filter_forbids_are_unavailable_with_their_name_and_no_others() {
    let place = Place::new();
    let numbers = CREATIONS.map(|(_, number)| number);
    let document = document(&filtered(&place, &numbers, ALL));
    let missing = without_number(&document);
    for record in &missing {
        let reason = &record.verdict.reasons[0].text;
        let told = reason.contains("not permitted") || reason.contains("has no result");
        assert!(told, "{}: {reason}", record.name());
    }
    let is_missing = |metric: &str| missing.iter().any(|one| one.metric.as_str() == metric);
    for metric in ["os.epoll", "os.fifo.rtt", "os.semaphore.rtt", "os.unix.rtt"] {
        assert!(is_missing(metric), "{metric} needs a call that is forbidden");
    }
    for metric in ["os.syscall", "os.process.fork", "os.switch.process", "os.pipe.rtt"] {
        assert!(!is_missing(metric), "{metric} needs none of them");
    }
}

#[test]
fn where_a_worker_cannot_be_pinned_nothing_is_measured_and_the_reason_told() {
    let place = Place::new();
    let line = "run --quick --json cpu.frequency";
    let document = document(&filtered(&place, &[libc::SYS_sched_setaffinity], line));
    let missing = without_number(&document);
    assert_eq!(missing.len(), 1);
    let reason = &missing[0].verdict.reasons[0].text;
    assert!(reason.contains("pin to CPU") && reason.contains("not permitted"), "{reason}");
}

#[test]
fn a_small_memory_limit_is_kept_told_and_kills_nobody() {
    let place = Place::new();
    let limits = [("memory.limit_in_bytes", 64 << 20)];
    let Some(group) = group("memory", "memory", &limits) else { return };
    let document = document(&place.ask_within(&group, ALL));
    assert_eq!(document.host.cgroup.memory_limit_bytes, Some(64 << 20));
    let missing = without_number(&document);
    let large = missing.iter().filter(|one| one.metric.as_str() == "os.process.fork");
    let reasons: Vec<&str> = large.map(|one| one.verdict.reasons[0].text.as_str()).collect();
    assert_eq!(reasons.len(), 4, "256 MiB and 1 GiB, two parts each: {reasons:?}");
    assert!(reasons.iter().all(|text| text.contains("cgroup's limit")), "{reasons:?}");
    assert!(has_number(&document, "os.process.fork{part=fork,rss_bytes=1048576}"));
    let control = std::fs::read_to_string(group.file("memory.oom_control")).expect("a counter");
    assert!(control.contains("oom_kill 0"), "{control}");
}
