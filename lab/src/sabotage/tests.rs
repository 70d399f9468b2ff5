//! Every sabotage is undone, however its run ends.
//!
//! The ignored tests change machine settings, step the wall clock and swap: only `make lab` runs
//! them.

use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use rustix::process::{Signal, getpid, kill_process};

use super::*;

/// How a run is interrupted.
#[derive(Clone, Copy, Debug)]
enum SabotageEnd {
    Signal(Signal),
    Panic,
}

/// A guard that interrupts the run at a time.
struct Interrupting {
    guard: Box<dyn Guard>,
    at_ns: u64,
    end: SabotageEnd,
}

impl Guard for Interrupting {
    fn tick(&mut self, program: u32, elapsed_ns: u64) -> Result<()> {
        self.guard.tick(program, elapsed_ns)?;
        if elapsed_ns >= self.at_ns {
            match self.end {
                SabotageEnd::Signal(signal) => kill_process(getpid(), signal)?,
                SabotageEnd::Panic => panic!("during the run"),
            }
        }
        Ok(())
    }
}

/// A stand-in for the program, with a worker that runs for a minute.
fn program(folder: &Path) -> PathBuf {
    let path = folder.join("program");
    let text = "#!/bin/sh\nsh -c 'sleep 60; :' worker worker &\nwait\n";
    std::fs::write(&path, text).expect("write the program");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("chmod the program");
    path
}

/// Interrupts a run of each sabotage that is possible here and checks that it is undone.
fn assert_all_undone(end: SabotageEnd, at_ns: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let mut any_changed = false;
    for (_, sabotage) in ALL {
        let name = sabotage.name;
        if let Err(why) = (sabotage.needs)() {
            println!("{name}: skipped: {why}");
            continue;
        }
        let bench = ProgramBench::with(&program.display().to_string()).expect("a bench");
        let before = MachineState::now();
        let mut changed = false;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let mut launch = Launch::default();
            let guard = (sabotage.start)((sabotage.dose)(0.5), bench.cpu, &mut launch)?;
            let mut interrupting = Interrupting { guard, at_ns, end };
            changed = MachineState::now() != before;
            bench.run(sabotage.metric, &launch, &mut interrupting).map(drop)
        }));
        match (end, ended) {
            (SabotageEnd::Signal(_), Ok(Err(error))) => assert_eq!(error.to_string(), "stopped"),
            (SabotageEnd::Panic, Err(_)) => {}
            (_, other) => panic!("{name}: {end:?} gave {other:?}"),
        }
        assert_eq!(before.left_behind(), None, "{name}");
        any_changed |= changed;
    }
    assert!(any_changed, "no sabotage changed the machine's state");
}

/// While the wall clock is stepped, and after it is restored.
const TIMES_NS: [u64; 2] = [305_000_000, 400_000_000];

#[test]
#[ignore = "lab: changes settings of the machine"]
fn nothing_stays_after_ctrl_c() {
    for signal in [Signal::INT, Signal::TERM] {
        TIMES_NS.iter().for_each(|at_ns| assert_all_undone(SabotageEnd::Signal(signal), *at_ns));
    }
}

#[test]
#[ignore = "lab: changes settings of the machine"]
fn nothing_stays_after_panic() {
    TIMES_NS.iter().for_each(|at_ns| assert_all_undone(SabotageEnd::Panic, *at_ns));
}

#[test]
fn parts_choose_every_sabotage_once() {
    for (part, sabotage) in ALL {
        let parts = [PROCESSOR, PROGRAM, MEMORY, SLOPE].into_iter();
        let chosen = parts.filter(|only| is_chosen(only, part, sabotage.name));
        assert_eq!(chosen.collect::<Vec<_>>(), [part], "{}", sabotage.name);
    }
    assert!(is_chosen("", PROGRAM, "drift") && is_chosen("rif", PROGRAM, "drift"));
    assert!(is_chosen("", SLOPE, SLOPE) && !is_chosen(MEMORY, PROCESSOR, "memory limit"));
}

#[test]
fn seed_decides_which_half_is_sabotaged() {
    let of = |seed| halves(&mut Seeded(seed), 20);
    assert_eq!(of(1).iter().filter(|one| **one).count(), 10);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    assert!((0..1000).all(|seed| (0.0..1.0).contains(&Seeded(seed).share())));
}
