//! Nothing of a sabotage stays, however its run ends.
//!
//! These tests change settings of the machine, step its wall clock and swap: `make lab` runs them,
//! and `make test` does not.

use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use rustix::process::{Signal, getpid, kill_process};

use super::*;

/// How a run ends in its midst.
#[derive(Clone, Copy, Debug)]
enum End {
    Signal(Signal),
    Panic,
}

/// What is imposed, and ends the run after a while.
struct Ending {
    imposed: Box<dyn Imposed>,
    at: u64,
    end: End,
}

impl Imposed for Ending {
    fn tick(&mut self, program: u32, elapsed_ns: u64) -> Result<()> {
        self.imposed.tick(program, elapsed_ns)?;
        if elapsed_ns >= self.at {
            match self.end {
                End::Signal(signal) => kill_process(getpid(), signal)?,
                End::Panic => panic!("in the midst of it"),
            }
        }
        Ok(())
    }
}

/// The program, as far as a sabotage meets it: a worker that would work for a minute.
fn program(folder: &Path) -> PathBuf {
    let path = folder.join("program");
    let text = "#!/bin/sh\nsh -c 'sleep 60; :' worker worker &\nwait\n";
    std::fs::write(&path, text).expect("write the program");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("make it one");
    path
}

/// Imposes each sabotage that can be here, ends its run, and looks at what is left.
fn nothing_stays(end: End, at: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(folder.path());
    let mut imposed_any = false;
    for sabotage in ALL {
        if let Err(why) = sabotage.needs() {
            println!("{}: cannot be imposed here: {why}", sabotage.name());
            continue;
        }
        let bench = Bench::with(&program.display().to_string()).expect("a bench");
        let before = State::now();
        let mut differed = false;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let mut launch = Launch::default();
            let dose = sabotage.dose(0.5);
            let imposed = sabotage.impose(dose, bench.cpu, &mut launch)?;
            let mut ending = Ending { imposed, at, end };
            differed = State::now() != before;
            bench.run(sabotage.metric(), &launch, &mut ending).map(drop)
        }));
        match (end, ended) {
            (End::Signal(_), Ok(Err(error))) => assert_eq!(error.to_string(), "stopped"),
            (End::Panic, Err(_)) => {}
            (_, other) => panic!("{}: {end:?} ended it as {other:?}", sabotage.name()),
        }
        assert_eq!(before.left_behind(), None, "{}", sabotage.name());
        imposed_any |= differed;
    }
    assert!(imposed_any, "something was imposed");
}

/// While the wall clock is stepped, and between two of its steps.
const MOMENTS_NS: [u64; 2] = [305_000_000, 400_000_000];

#[test]
#[ignore = "changes settings of the machine: make lab"]
fn nothing_stays_imposed_after_ctrl_c() {
    for signal in [Signal::INT, Signal::TERM] {
        MOMENTS_NS.iter().for_each(|at| nothing_stays(End::Signal(signal), *at));
    }
}

#[test]
#[ignore = "changes settings of the machine: make lab"]
fn nothing_stays_imposed_after_a_panic() {
    MOMENTS_NS.iter().for_each(|at| nothing_stays(End::Panic, *at));
}

#[test]
fn half_of_the_runs_are_sabotaged_in_an_order_that_the_seed_decides() {
    let of = |seed| halves(&mut Seeded(seed), 20);
    assert_eq!(of(1).iter().filter(|one| **one).count(), 10);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    assert!((0..1000).all(|seed| (0.0..1.0).contains(&Seeded(seed).share())));
}
