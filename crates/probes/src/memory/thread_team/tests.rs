//! Batches run on all members; a failing thread is reported by its CPU; no thread is left.

use std::fs;

use super::*;
use crate::smoke;

/// Adds its iterations to a shared total.
struct Adder {
    total: Arc<AtomicU64>,
    /// Panics in the batch of this many iterations.
    panics_at: u64,
    /// Does one iteration less in the batch of this many.
    short_at: u64,
}

impl TeamTask for Adder {
    fn run(&mut self, iterations: u64) -> u64 {
        assert!(iterations != self.panics_at, "panic of the test");
        self.total.fetch_add(iterations, Ordering::Relaxed);
        iterations - u64::from(iterations == self.short_at)
    }

    fn finish(self: Box<Self>) -> Result<CheckResult> {
        Ok((true, format!("{} in all", self.total.load(Ordering::Relaxed))))
    }
}

fn failing_adder(total: &Arc<AtomicU64>, panics_at: u64, short_at: u64) -> TaskFactory {
    let total = Arc::clone(total);
    Box::new(move || Ok(Box::new(Adder { total, panics_at, short_at }) as Box<dyn TeamTask>))
}

fn adder(total: &Arc<AtomicU64>) -> TaskFactory {
    failing_adder(total, 0, 0)
}

fn unavailable() -> TaskFactory {
    Box::new(|| Err(SamplerFault::Unavailable("no memory".to_owned(), None)))
}

/// Threads of this process that belong to a team.
fn team_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks.filter_map(name).filter(|name| name.starts_with("team ")).count()
}

/// The kernel lists a joined thread a moment longer.
fn assert_no_thread_left() {
    assert!(smoke::eventually(|| team_threads() == 0), "a thread is left");
}

/// Runs with a team of three threads on one CPU or two.
fn with_team(test: impl FnOnce(&mut ThreadTeam, &Arc<AtomicU64>)) {
    smoke::pinned(|cpu| {
        let other = smoke::other_than(cpu).unwrap_or(cpu);
        let mut team = ThreadTeam::pinned_to(&[other, other, cpu]).unwrap();
        assert_eq!(team_threads(), 3);
        test(&mut team, &Arc::default());
        drop(team);
        assert_no_thread_left();
    });
}

#[test]
fn every_member_completes_every_batch() {
    with_team(|team, total| {
        let factories = || (0..3).map(|_| adder(total)).collect::<Vec<_>>();
        let mut running = team.start(Some(adder(total)), factories()).unwrap();
        let mut expected = 0;
        for iterations in [1, 2, 500, 7] {
            assert_eq!(running.run(iterations), iterations);
            expected += 4 * iterations;
            assert_eq!(total.load(Ordering::Relaxed), expected, "a member has not finished");
        }
        let results = running.finish();
        assert_eq!(results.len(), 4);
        assert!(results.iter().all(|result| result.as_ref().unwrap().0));
        let mut running = team.start(None, factories().into_iter().take(2).collect()).unwrap();
        assert_eq!(running.run(10), 10);
        assert_eq!(total.load(Ordering::Relaxed), expected + 20);
        assert_eq!(running.finish().len(), 2);
    });
}

#[test]
fn missing_iterations_of_one_member_shorten_batch() {
    with_team(|team, total| {
        let factories = vec![adder(total), failing_adder(total, 0, 9)];
        let mut running = team.start(Some(adder(total)), factories).unwrap();
        assert_eq!((running.run(8), running.run(9), running.run(10)), (8, 8, 10));
    });
}

#[test]
fn panic_of_one_member_invalidates_the_batch() {
    with_team(|team, total| {
        let factories = vec![adder(total), failing_adder(total, 5, 0)];
        let mut running = team.start(None, factories).unwrap();
        assert_eq!((running.run(4), running.run(5), running.run(4)), (4, 0, 0));
        let last = running.members[1].mailbox.completed.0.load(Ordering::Acquire);
        assert_eq!(last, END, "the panic ends the wait without a timeout");
        let results = running.finish();
        assert!(results[0].is_ok());
        assert!(matches!(&results[1], Err(SamplerFault::Failed(text)) if text.contains("died")));
        let again = team.start(None, vec![adder(total), adder(total)]);
        assert!(matches!(again.err(), Some(SamplerFault::Failed(text)) if text.contains("died")));
    });
}

#[test]
fn failed_task_setup_leaves_the_team_usable() {
    with_team(|team, total| {
        let refused = Some(SamplerFault::Unavailable("no memory".to_owned(), None));
        let factories = vec![adder(total), unavailable(), adder(total)];
        assert_eq!(team.start(None, factories).err(), refused);
        assert_eq!(team.start(Some(unavailable()), vec![adder(total)]).err(), refused);
        let mut running = team.start(None, (0..3).map(|_| adder(total)).collect()).unwrap();
        assert_eq!(running.run(3), 3);
    });
}

#[test]
fn missing_cpu_is_offline_and_leaves_no_thread() {
    smoke::pinned(|cpu| {
        let fault = ThreadTeam::pinned_to(&[cpu, 1023]).err();
        assert_eq!(fault, Some(SamplerFault::CpuOffline(1023, "CPU 1023 went offline".to_owned())));
        assert_no_thread_left();
    });
}

/// Pins its thread to another CPU in a batch.
struct Migrating(u32);

impl TeamTask for Migrating {
    fn run(&mut self, iterations: u64) -> u64 {
        affinity::pin(self.0).unwrap();
        iterations
    }

    fn finish(self: Box<Self>) -> Result<CheckResult> {
        Ok((true, String::new()))
    }
}

#[test]
fn migrated_thread_fails_its_check() {
    smoke::pinned(|cpu| {
        let Some(other) = smoke::other_than(cpu) else {
            return smoke::skipped("one CPU only");
        };
        let mut team = ThreadTeam::pinned_to(&[other, other]).unwrap();
        let to = |cpu| -> TaskFactory {
            Box::new(move || Ok(Box::new(Migrating(cpu)) as Box<dyn TeamTask>))
        };
        let mut running = team.start(None, vec![to(other), to(cpu)]).unwrap();
        assert_eq!(running.run(3), 3);
        let results = running.finish();
        assert!(results[0].as_ref().unwrap().0, "it did not migrate");
        let (passed, text) = results[1].as_ref().unwrap();
        assert!(!passed && text.contains("runs on"), "{text}");
    });
}

#[test]
fn idle_member_discards_the_callers_result() {
    with_team(|team, total| {
        let mut running = team.start(None, vec![adder(total), adder(total)]).unwrap();
        assert_eq!(running.run_beside(|| 77), 77);
        assert_eq!(total.load(Ordering::Relaxed), 2, "a member has not finished");
        drop(running);
        let factories = vec![adder(total), failing_adder(total, 0, 1)];
        let mut running = team.start(None, factories).unwrap();
        assert_eq!(running.run_beside(|| 77), 0);
    });
}
