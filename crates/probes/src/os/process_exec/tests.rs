//! Tests of the ways to start a program.

use fathom_measure::clock::{Source, Specification};
use fathom_record::Agreement;

use super::*;
use crate::smoke;

/// A clock that reads this counter.
fn clock(source: Source) -> Clock {
    Clock::from_specification(Specification { source, hz: 1e9, resolution_ns: 1.0, read_ns: 50.0 })
}

fn kernel_clock() -> Clock {
    clock(Source::MonotonicRaw)
}

#[test]
fn every_way_starts_the_program_and_leaves_nothing_behind() {
    for probe in [&VFORK_EXEC, &SPAWN, &SHELL] {
        let taken = smoke::run(probe);
        let samples: Vec<_> = taken.iter().map(|(_, sample)| sample.as_ref().unwrap()).collect();
        for (first, total) in samples[0].values.iter().zip(&samples[1].values) {
            assert!(0.0 < *first && first < total, "{}: {first} {total}", probe.about.id);
        }
        let names: Vec<&str> = samples[0].checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, ["one way", "one CPU"]);
    }
}

#[test]
fn the_program_takes_its_stamp_from_the_counter_of_the_run() {
    let _alone = smoke::alone();
    let counter = if cfg!(target_arch = "x86_64") { Source::Tsc } else { Source::Cntvct };
    for source in [counter, Source::MonotonicRaw] {
        let clock = clock(source);
        let mut starter = Starter::new(Way::Bare, &clock).unwrap();
        let times = starter.start(&clock).unwrap();
        assert!(0.0 < times.first_ns && times.first_ns < times.total_ns, "{source:?}");
        assert_eq!((starter.as_child, starter.as_grandchild), (1, 0));
    }
}

#[test]
fn a_program_with_the_stamp_of_another_clock_is_wrong_work() {
    let _alone = smoke::alone();
    let mut starter = Starter::new(Way::Bare, &kernel_clock()).unwrap();
    let counter = if cfg!(target_arch = "x86_64") { Source::Tsc } else { Source::Cntvct };
    starter.program = Program::new(&clock(counter)).unwrap();
    starter.arguments = Strings::new(&[starter.program.path()]);
    let fault = starter.start(&kernel_clock()).err();
    let is = |fault: &Fault| matches!(fault, Fault::WrongWork(text) if text.contains("stamp"));
    assert!(fault.as_ref().is_some_and(is), "{fault:?}");
}

#[test]
fn another_program_is_wrong_work() {
    let _alone = smoke::alone();
    let started = |way, arguments: &[&CStr]| {
        let mut starter = Starter::new(way, &kernel_clock()).unwrap();
        starter.arguments = Strings::new(arguments);
        starter.start(&kernel_clock()).err()
    };
    let status = started(Way::Shell, &[c"sh", c"-c", c"exit 6"]);
    let is = |text: &str| text.contains("exit status: 6");
    assert!(matches!(&status, Some(Fault::WrongWork(text)) if is(text)), "{status:?}");
    let silent = started(Way::Shell, &[c"sh", c"-c", c"exit 7"]);
    let is = |text: &str| text.contains("wrote nothing");
    assert!(matches!(&silent, Some(Fault::WrongWork(text)) if is(text)), "{silent:?}");
    assert!(smoke::has_no_children());
}

#[test]
fn a_program_that_may_not_be_started_is_unavailable() {
    let fault = |errno| not_started(SH, &io::Error::from_raw_os_error(errno));
    for errno in [libc::ENOENT, libc::EACCES, libc::EPERM, libc::EAGAIN] {
        let fault = fault(errno);
        assert!(
            matches!(&fault, Fault::Unavailable(text, _) if text.contains("/bin/sh")),
            "{fault}"
        );
    }
    assert!(matches!(fault(libc::EINVAL), Fault::Failed(_)));
}

#[test]
fn a_spawn_that_fails_tells_why() {
    let _alone = smoke::alone();
    let none = Strings::new(&[]);
    let error = spawn(c"/no/such/program", &Strings::new(&[c"x"]), &none).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    assert!(smoke::has_no_children());
}

#[test]
fn a_program_in_the_shell_s_place_is_told_from_one_in_a_fork_of_it() {
    let _alone = smoke::alone();
    let ran = |command: &str| {
        let mut starter = Starter::new(Way::Shell, &kernel_clock()).unwrap();
        let command = command.replace('P', &starter.program.path().to_string_lossy());
        let command = std::ffi::CString::new(command).unwrap();
        starter.arguments = Strings::new(&[c"sh", c"-c", &command]);
        starter.start(&kernel_clock()).unwrap();
        (starter.as_child, starter.as_grandchild)
    };
    assert_eq!(ran("exec P"), (1, 0));
    assert_eq!(ran("P; exit $?"), (0, 1));
}

#[test]
fn programs_that_ran_in_two_ways_are_seen() {
    let mut starter = Starter::new(Way::Shell, &kernel_clock()).unwrap();
    (starter.as_child, starter.as_grandchild) = (0, 9);
    assert!(starter.as_one().0);
    starter.as_child = 1;
    assert!(!starter.as_one().0, "a shell that does now this, now that");
    (starter.way, starter.as_child) = (Way::Bare, 9);
    assert!(!starter.as_one().0, "no child of ours has children");
    starter.as_grandchild = 0;
    assert!(starter.as_one().0);
}

#[test]
fn a_worker_that_may_run_anywhere_fails_the_check() {
    let _alone = smoke::alone();
    let allowed = affinity::allowed();
    if allowed.len() < 2 {
        return smoke::skipped("one CPU only, and nowhere else to run");
    }
    let mut sampler = smoke::sampler(2, allowed[0]);
    let cases = VFORK_EXEC.cases(&Host::default(), &Sizes::default());
    VFORK_EXEC.visit(&cases, &mut sampler).unwrap();
    let visit = sampler.finish();
    let checks = &visit.samples[0].as_ref().unwrap().checks;
    assert!(!checks.iter().find(|check| check.name == "one CPU").unwrap().passed);
}

#[test]
fn predictions_are_made_of_earlier_results() {
    let total = params("total");
    let records = [
        smoke::record("os.syscall", &Params::one("call", "getppid"), 100.0, 1.0),
        smoke::record("os.signal.install", &Params::none(), 10.0, 0.1),
        smoke::record("os.thread.create_join", &Params::none(), 12_000.0, 100.0),
        smoke::record(BARE.id, &params("first_instruction"), 50_000.0, 100.0),
        smoke::record(BARE.id, &total, 70_000.0, 100.0),
    ];
    let predict = |probe: &ProcessExec, index: usize| {
        let case = probe.cases(&Host::default(), &Sizes::default()).remove(index);
        probe.predict(&case, &Host::default(), &Inputs::new(&records)).unwrap()
    };
    assert_eq!(predict(&VFORK_EXEC, 0).low, Some(12_000.0));
    assert_eq!(predict(&VFORK_EXEC, 1).low, Some(50_000.0));
    assert_eq!(predict(&SHELL, 1).low, Some(140_000.0));
    let spawn = predict(&SPAWN, 1);
    assert_eq!(spawn.value, Some(70_600.0 + 10.0 * signal_calls()));
    assert_eq!(["2.31", "2.37", "2.38", "3.0"].map(signal_calls_of), [122.0, 122.0, 0.0, 0.0]);
    assert_eq!(spawn.agreement(Some([105_000.0, 106_000.0])), Agreement::Outside);
    assert!(spawn.if_above.contains("C library"));
}
