use fathom_measure::clock::{ClockSource, Specification};
use fathom_record::Agreement;

use super::*;
use crate::os::check_names;
use crate::smoke;

fn clock(source: ClockSource) -> Clock {
    Clock::from_specification(Specification::uncalibrated(source))
}

const COUNTER: ClockSource =
    if cfg!(target_arch = "x86_64") { ClockSource::Tsc } else { ClockSource::Cntvct };

#[test]
fn every_method_starts_the_program() {
    for probe in [&VFORK_EXEC, &SPAWN, &SHELL] {
        let results = smoke::run(probe);
        let samples: Vec<_> = results.iter().map(|(_, sample)| sample.as_ref().unwrap()).collect();
        for (first, total) in samples[0].values.iter().zip(&samples[1].values) {
            assert!(0.0 < *first && first < total, "{}: {first} {total}", probe.about.id);
        }
        assert_eq!(check_names(samples[0]), ["start method", "one CPU"]);
    }
}

#[test]
fn program_reads_the_clock_of_the_run() {
    for source in [COUNTER, ClockSource::MonotonicRaw] {
        let clock = clock(source);
        let mut starter = Starter::new(ProcessExecMethod::Vfork, &clock).unwrap();
        let [first, total] = starter.start(&clock).unwrap();
        assert!(0.0 < first && first < total, "{source:?}");
        assert_eq!((starter.as_child, starter.as_grandchild), (1, 0));
    }
}

#[test]
fn timestamp_of_another_clock_is_wrong_work() {
    let mut starter = Starter::new(ProcessExecMethod::Vfork, &smoke::clock()).unwrap();
    starter.program = Program::new(&clock(COUNTER)).unwrap();
    starter.arguments = CStrings::new(&[&starter.program.path]);
    let fault = starter.start(&smoke::clock()).err();
    let Some(SamplerFault::WrongWork(text)) = fault else { panic!("wrong work: {fault:?}") };
    assert!(text.contains("timestamp"), "{text}");
}

#[test]
fn another_program_is_wrong_work() {
    for (command, expected) in [(c"exit 6", "exit status: 6"), (c"exit 7", "wrote nothing")] {
        let mut starter = Starter::new(ProcessExecMethod::Shell, &smoke::clock()).unwrap();
        starter.arguments = CStrings::new(&[c"sh", c"-c", command]);
        let fault = starter.start(&smoke::clock()).err();
        let is = |text: &str| text.contains(expected);
        assert!(matches!(&fault, Some(SamplerFault::WrongWork(text)) if is(text)), "{fault:?}");
    }
    assert!(smoke::has_no_children());
}

#[test]
fn program_that_cannot_start_is_unavailable() {
    let fault = |errno| start_fault(SH, &io::Error::from_raw_os_error(errno));
    for errno in [libc::ENOENT, libc::EACCES, libc::EPERM, libc::EAGAIN] {
        let fault = fault(errno);
        assert!(
            matches!(&fault, SamplerFault::Unavailable(text, _) if text.contains("/bin/sh")),
            "{fault}"
        );
    }
    assert!(matches!(fault(libc::EINVAL), SamplerFault::Failed(_)));
}

#[test]
fn shell_exec_is_distinguished_from_shell_fork() {
    let ran = |command: &str| {
        let mut starter = Starter::new(ProcessExecMethod::Shell, &smoke::clock()).unwrap();
        let command = command.replace('P', &starter.program.path.to_string_lossy());
        let command = std::ffi::CString::new(command).unwrap();
        starter.arguments = CStrings::new(&[c"sh", c"-c", &command]);
        starter.start(&smoke::clock()).unwrap();
        (starter.as_child, starter.as_grandchild)
    };
    assert_eq!(ran("exec P"), (1, 0));
    assert_eq!(ran("P; exit $?"), (0, 1));
}

#[test]
fn mixed_start_methods_fail_the_check() {
    let mut starter = Starter::new(ProcessExecMethod::Shell, &smoke::clock()).unwrap();
    (starter.as_child, starter.as_grandchild) = (0, 9);
    assert!(starter.is_consistent().0);
    starter.as_child = 1;
    assert!(!starter.is_consistent().0, "the shell sometimes forks, sometimes execs");
    (starter.method, starter.as_child) = (ProcessExecMethod::Vfork, 9);
    assert!(!starter.is_consistent().0, "without a shell there is no grandchild");
    starter.as_grandchild = 0;
    assert!(starter.is_consistent().0);
}

#[test]
fn spawn_is_vfork_exec_plus_system_calls() {
    let records = [
        smoke::record("os.syscall", &getppid(), 100.0, 1.0),
        smoke::record("os.signal.install", &Params::none(), 10.0, 0.1),
        smoke::record(VFORK_ABOUT.id, &params("total"), 70_000.0, 100.0),
    ];
    let case = ProbeCase { params: params("total"), cost_ns: 0.0 };
    let spawn = SPAWN.predict(&case, &Host::default(), &Inputs::new(&records)).unwrap();
    assert_eq!(spawn.value, Some(70_600.0 + 10.0 * signal_calls()));
    assert_eq!(["2.31", "2.37", "2.38", "3.0"].map(signal_calls_of), [122.0, 122.0, 0.0, 0.0]);
    assert_eq!(spawn.agreement(Some([105_000.0, 106_000.0])), Agreement::Outside);
    assert!(spawn.if_above.contains("C library"));
}
