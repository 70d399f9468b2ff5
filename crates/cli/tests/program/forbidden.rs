//! Kernels and containers that lack or forbid something: a metric that cannot be measured gives the
//! reason, and the others are measured.

use std::process::{Command, Output};

use fathom_record::{Document, Record, State};

use crate::group::skipped;
use crate::limits::under;
use crate::test_env::{assert_status, document, json, words};
use crate::{ProgramTestEnv, text};

/// One case of metrics that differ in what they need from the kernel.
const SOME: &str = "run --quick --only --processes 3 --json cpu.frequency os.pipe.rtt{calls=bare}";

/// Runs the program in a mount namespace of its own, after the shell command `before`; `None` if
/// namespaces are not permitted.
pub(crate) fn in_mount_namespace(env: &ProgramTestEnv, before: &str, line: &str) -> Option<Output> {
    let probe = Command::new("unshare").args(["--mount", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        skipped("a mount namespace needs root, and unshare of util-linux");
        return None;
    }
    let mut command = env.fathom(&[]);
    let script = format!("{before} && exec \"$@\"");
    let program = command.get_program().to_owned();
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    unshare.arg(program).args(words(line));
    for (name, value) in command.env("HOME", "/").get_envs() {
        match value {
            Some(value) => unshare.env(name, value),
            None => unshare.env_remove(name),
        };
    }
    Some(unshare.output().expect("unshare starts"))
}

/// Asserts that no record failed, and that the unavailable ones have a reason; those. What the
/// others say depends on the load of the machine.
pub(crate) fn missing_records(document: &Document) -> Vec<&Record> {
    for record in &document.records {
        let reasons = &record.verdict.reasons;
        assert_ne!(record.verdict.state, State::Failed, "{}: {reasons:?}", record.name());
        if record.verdict.state == State::Unavailable {
            assert!(!reasons.is_empty() && !reasons[0].text.is_empty(), "{}", record.name());
        }
    }
    let unavailable = |record: &&Record| record.verdict.state == State::Unavailable;
    document.records.iter().filter(unavailable).collect()
}

/// Whether a case was measured, whatever the verdict.
pub(crate) fn is_measured(document: &Document, name: &str) -> bool {
    let is_missing = |one: &Record| one.verdict.state == State::Unavailable;
    document.records.iter().any(|one| one.name() == name && !is_missing(one))
}

#[test]
fn run_works_without_proc() {
    let env = ProgramTestEnv::new();
    let Some(output) = in_mount_namespace(&env, "umount -l /proc", SOME) else { return };
    let document = document(&output);
    assert_eq!((missing_records(&document).len(), document.records.len()), (0, 2));
}

#[test]
fn run_works_without_sys() {
    let env = ProgramTestEnv::new();
    let Some(output) = in_mount_namespace(&env, "umount -R -l /sys", SOME) else { return };
    assert_eq!(missing_records(&document(&output)).len(), 0);
}

#[test]
fn read_only_root_measures_without_store() {
    let env = ProgramTestEnv::new();
    let before = "mount --bind -o ro / / && mount -o remount,bind,ro / && cd / && \
                  unset FATHOM_STORE XDG_DATA_HOME";
    let Some(output) = in_mount_namespace(&env, before, "run --quick --only cpu.frequency") else {
        return;
    };
    let message = text(&output.stderr);
    if message.contains("mount:") {
        return skipped("the root cannot be mounted read-only");
    }
    assert_status(&output, 0);
    assert_eq!(message.matches("this run is not stored: ").count(), 1, "{message}");
    assert!(message.contains("read-only"), "{message}");
    assert!(text(&output.stdout).contains("cpu.frequency"), "{}", text(&output.stdout));
    let named = format!("{before} && export FATHOM_STORE=/store.db");
    let Some(output) = in_mount_namespace(&env, &named, "run --quick --only cpu.frequency") else {
        return;
    };
    assert_status(&output, 1);
    assert!(text(&output.stdout).contains("cpu.frequency"), "{}", text(&output.stdout));
}

/// Runs the program under a seccomp filter by which these system calls fail with EPERM.
fn run_filtered(env: &ProgramTestEnv, forbidden: &[libc::c_long], line: &str) -> Output {
    let statement =
        |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let load_number = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    let answer = |action: u32| statement(libc::BPF_RET | libc::BPF_K, 0, action);
    let mut filter = vec![load_number];
    for (index, number) in forbidden.iter().enumerate() {
        // Jumps over the rest of the list and ALLOW, to ERRNO.
        let distance = (forbidden.len() - index) as u8;
        let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter.push(statement(jump, distance, *number as u32));
    }
    filter.push(answer(libc::SECCOMP_RET_ALLOW));
    filter.push(answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    let install = move || {
        let program =
            libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: both calls take plain numbers and the filter, which lives until they return.
        let refused = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    != 0
        };
        if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    under(env.command(line), install)
}

#[test]
fn seccomp_filter_makes_metrics_unavailable() {
    let env = ProgramTestEnv::new();
    let forbidden = [
        libc::SYS_epoll_create1,
        libc::SYS_eventfd2,
        libc::SYS_memfd_create,
        libc::SYS_mknodat,
        libc::SYS_semget,
        libc::SYS_socketpair,
    ];
    let line = format!(
        "{SOME} os.epoll{{fds=10}} os.fifo.rtt os.semaphore.rtt{{kind=sysv}} \
         os.unix.rtt{{kind=stream}}"
    );
    let document = document(&run_filtered(&env, &forbidden, &line));
    let missing = missing_records(&document);
    for record in &missing {
        let reason = &record.verdict.reasons[0].text;
        let has_cause = reason.contains("not permitted") || reason.contains("has no result");
        assert!(has_cause, "{}: {reason}", record.name());
    }
    let is_missing = |metric: &str| missing.iter().any(|one| one.metric.as_str() == metric);
    for metric in ["os.epoll", "os.fifo.rtt", "os.semaphore.rtt", "os.unix.rtt"] {
        assert!(is_missing(metric), "{metric} needs a forbidden call");
    }
    for metric in ["cpu.frequency", "os.pipe.rtt"] {
        assert!(!is_missing(metric), "{metric} needs no forbidden call");
    }
}

/// As by the usual filter of a container.
#[test]
fn transfer_without_io_uring_is_unavailable_by_it_alone() {
    let env = ProgramTestEnv::new();
    std::fs::create_dir(env.file("data")).expect("a folder");
    std::fs::write(env.file("data/a"), vec![7; 10_000]).expect("a file");
    let line = "transfer data --send-path copy,uring --receive-path copy,uring --repeat 1 --json";
    let forbidden = [libc::SYS_io_uring_setup, libc::SYS_pidfd_open, libc::SYS_ptrace];
    let document: Document = json(&run_filtered(&env, &forbidden, line));
    let missing = missing_records(&document);
    assert!(!missing.is_empty());
    for record in missing {
        let reason = &record.verdict.reasons[0];
        assert_eq!(reason.cause, fathom_record::Cause::Missing, "{}", record.name());
        assert!(reason.text.contains("io_uring_setup: Operation not permitted"), "{}", reason.text);
        assert!(record.name().contains("uring"), "{}", record.name());
    }
    let bench = run_filtered(&env, &forbidden, "bench true --runs 2");
    assert_status(&bench, 0);
}

#[test]
fn unpinnable_worker_is_unavailable() {
    let env = ProgramTestEnv::new();
    let line = "run --quick --only --json cpu.frequency";
    let output = run_filtered(&env, &[libc::SYS_sched_setaffinity], line);
    assert_status(&output, 3);
    let document: Document = json(&output);
    let missing = missing_records(&document);
    assert_eq!(missing.len(), 1);
    let reason = &missing[0].verdict.reasons[0].text;
    assert!(reason.contains("pin to CPU") && reason.contains("not permitted"), "{reason}");
}
