//! A crew: all work in each batch, one that dies or may not run is one clear reason, none is left.

use std::fs;

use super::*;
use crate::smoke;

/// Counts its work in a place that outlives it.
struct Counted {
    total: Arc<AtomicU64>,
    /// Panics, or falls short by one, in the batch of this many iterations.
    dies_at: u64,
    short_at: u64,
}

impl Part for Counted {
    fn work(&mut self, iterations: u64) -> u64 {
        assert!(iterations != self.dies_at, "as the test wants it");
        self.total.fetch_add(iterations, Ordering::Relaxed);
        iterations - u64::from(iterations == self.short_at)
    }

    fn finish(self: Box<Self>) -> Result<Finding, Fault> {
        Ok((true, format!("{} in all", self.total.load(Ordering::Relaxed))))
    }
}

fn counted(total: &Arc<AtomicU64>, dies_at: u64, short_at: u64) -> Maker {
    let total = Arc::clone(total);
    Box::new(move || Ok(Box::new(Counted { total, dies_at, short_at }) as Box<dyn Part>))
}

fn refuse() -> Maker {
    Box::new(|| Err(Fault::Unavailable("no memory".to_owned(), None)))
}

/// Threads of this process that belong to a crew. The kernel lists one that was joined a moment
/// longer.
fn crew_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks.filter_map(name).filter(|name| name.starts_with("crew ")).count()
}

/// Runs with a crew of three threads, on one CPU or two, and sees that none is left.
fn with_crew(test: impl FnOnce(&mut Crew)) {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let other = smoke::other_than(cpu).unwrap_or(cpu);
        let mut crew = Crew::on(&[other, other, cpu]).unwrap();
        assert_eq!(crew_threads(), 3);
        test(&mut crew);
        drop(crew);
        assert!(smoke::comes(|| crew_threads() == 0), "a thread was left");
    });
}

#[test]
fn each_does_every_batch_and_the_worker_waits_for_the_last() {
    with_crew(|crew| {
        let total = Arc::new(AtomicU64::new(0));
        let makers = || (0..3).map(|_| counted(&total, 0, 0)).collect::<Vec<_>>();
        let own = Some(counted(&total, 0, 0));
        let mut mustered = crew.muster(own, makers()).unwrap();
        let mut expected = 0;
        for iterations in [1, 2, 500, 7] {
            assert_eq!(mustered.work(iterations), iterations);
            expected += 4 * iterations;
            assert_eq!(total.load(Ordering::Relaxed), expected, "one was not waited for");
        }
        let findings = mustered.dismiss();
        assert_eq!(findings.len(), 4);
        assert!(findings.iter().all(|finding| finding.as_ref().unwrap().0));
        // Without the caller's own part, and with fewer threads, as often as one likes.
        let mut mustered = crew.muster(None, makers().into_iter().take(2).collect()).unwrap();
        assert_eq!(mustered.work(10), 10);
        assert_eq!(total.load(Ordering::Relaxed), expected + 20);
        assert_eq!(mustered.dismiss().len(), 2);
    });
}

#[test]
fn one_that_falls_short_makes_the_batch_short() {
    with_crew(|crew| {
        let total = Arc::new(AtomicU64::new(0));
        let makers = vec![counted(&total, 0, 0), counted(&total, 0, 9)];
        let mut mustered = crew.muster(Some(counted(&total, 0, 0)), makers).unwrap();
        assert_eq!((mustered.work(8), mustered.work(9), mustered.work(10)), (8, 8, 10));
    });
}

#[test]
fn one_that_dies_makes_the_batch_nothing_and_is_named() {
    with_crew(|crew| {
        let total = Arc::new(AtomicU64::new(0));
        let makers = vec![counted(&total, 0, 0), counted(&total, 5, 0)];
        let mut mustered = crew.muster(None, makers).unwrap();
        assert_eq!((mustered.work(4), mustered.work(5), mustered.work(4)), (4, 0, 0));
        let last = mustered.members[1].post.done.0.load(Ordering::Acquire);
        assert_eq!(last, LAST, "its end was waited for, and not told");
        let findings = mustered.dismiss();
        assert!(findings[0].is_ok());
        assert!(matches!(&findings[1], Err(Fault::Failed(text)) if text.contains("has died")));
        let again = crew.muster(None, vec![counted(&total, 0, 0), counted(&total, 0, 0)]);
        assert!(matches!(again.err(), Some(Fault::Failed(text)) if text.contains("has died")));
    });
}

#[test]
fn a_part_that_cannot_be_made_is_the_reason_and_the_others_go_back_to_sleep() {
    with_crew(|crew| {
        let total = Arc::new(AtomicU64::new(0));
        let makers = vec![counted(&total, 0, 0), refuse(), counted(&total, 0, 0)];
        let refused = crew.muster(None, makers).err();
        assert_eq!(refused, Some(Fault::Unavailable("no memory".to_owned(), None)));
        let refused = crew.muster(Some(refuse()), vec![counted(&total, 0, 0)]).err();
        assert_eq!(refused, Some(Fault::Unavailable("no memory".to_owned(), None)));
        let makers = (0..3).map(|_| counted(&total, 0, 0)).collect();
        let mut mustered = crew.muster(None, makers).unwrap();
        assert_eq!(mustered.work(3), 3);
    });
}

#[test]
fn a_cpu_that_is_not_there_is_the_reason_and_leaves_no_thread() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let fault = Crew::on(&[cpu, 1023]).err();
        assert!(matches!(fault, Some(Fault::Unavailable(text, _)) if text.contains("CPU 1023")));
        assert!(smoke::comes(|| crew_threads() == 0), "a thread was left");
    });
}

#[test]
fn a_thread_that_is_not_where_it_was_pinned_is_found() {
    smoke::pinned(|cpu| {
        assert_eq!(in_place((true, "well".to_owned()), cpu), (true, "well".to_owned()));
        let (passed, text) = in_place((true, "well".to_owned()), cpu + 1);
        assert!(!passed && text.contains("runs on"), "{text}");
    });
}

/// Moves its thread away while it works.
struct Strays(u32);

impl Part for Strays {
    fn work(&mut self, iterations: u64) -> u64 {
        affinity::pin(self.0).unwrap();
        iterations
    }

    fn finish(self: Box<Self>) -> Result<Finding, Fault> {
        Ok((true, "well".to_owned()))
    }
}

#[test]
fn a_thread_that_strays_while_it_works_fails_its_finding() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let Some(other) = smoke::other_than(cpu) else {
            return smoke::skipped("one CPU only, and nowhere to stray to");
        };
        let mut crew = Crew::on(&[other, other]).unwrap();
        let strays = |to| -> Maker { Box::new(move || Ok(Box::new(Strays(to)) as Box<dyn Part>)) };
        let mut mustered = crew.muster(None, vec![strays(other), strays(cpu)]).unwrap();
        assert_eq!(mustered.work(3), 3);
        let findings = mustered.dismiss();
        assert!(findings[0].as_ref().unwrap().0, "it stayed where it was");
        let (passed, text) = findings[1].as_ref().unwrap();
        assert!(!passed && text.contains("runs on"), "{text}");
    });
}

#[test]
fn what_the_caller_does_beside_counts_unless_one_of_the_others_did_nothing() {
    with_crew(|crew| {
        let total = Arc::new(AtomicU64::new(0));
        let makers = vec![counted(&total, 0, 0), counted(&total, 0, 0)];
        let mut mustered = crew.muster(None, makers).unwrap();
        assert_eq!(mustered.beside(|| 77), 77);
        assert_eq!(total.load(Ordering::Relaxed), 2, "one was not waited for");
        drop(mustered);
        let makers = vec![counted(&total, 0, 0), counted(&total, 0, 1)];
        let mut mustered = crew.muster(None, makers).unwrap();
        assert_eq!(mustered.beside(|| 77), 0);
    });
}
