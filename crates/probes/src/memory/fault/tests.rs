//! memory.fault at smoke size, and the detection of wrong work.

use std::rc::Rc;

use fathom_measure::clock::FakeClock;

use super::pass::once;
use super::*;
use crate::memory::page_faults::{ExpectedFaults, FaultCounts};
use crate::smoke;

fn is_wrong<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(SamplerFault::WrongWork(_)))
}

#[test]
fn each_kind_is_counted_and_checked() {
    for (case, sample) in smoke::run(&PageFault) {
        let Ok(sample) = sample else { continue };
        let names: Vec<&str> = sample.checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, ["faults", "pages"], "{}", case.params);
        let detail = &sample.checks[0].detail;
        assert!(detail.ends_with(&format!("for {} pages", sample.batch)), "{detail}");
    }
}

#[test]
fn unexpected_fault_count_is_wrong_work() {
    let each = ExpectedFaults::one_per_page(1024);
    let counted = |minor, major| FaultCounts { minor, major };
    assert_eq!(each.divisor(counted(1024, 0)), Ok(1024));
    assert_eq!(each.divisor(counted(1030, 0)), Ok(1024), "strays");
    let around = ExpectedFaults::minor(1..=1024);
    assert_eq!(around.divisor(counted(64, 0)), Ok(64), "fault-around");
    let huge = ExpectedFaults::one_per_page(4);
    assert_eq!(huge.divisor(counted(5, 0)), Ok(4), "a stray");
    assert!(is_wrong(&huge.divisor(counted(7, 0))), "too many for strays");
    assert!(is_wrong(&each.divisor(counted(1023, 0))), "one page was mapped");
    assert!(is_wrong(&each.divisor(counted(2, 0))), "huge pages");
    assert!(is_wrong(&each.divisor(counted(2048, 0))), "each page twice");
    assert!(is_wrong(&each.divisor(counted(1024, 1))), "swapped in");
    let major = ExpectedFaults::major(32);
    assert_eq!(major.divisor(counted(1, 32)), Ok(32));
    assert!(is_wrong(&major.divisor(counted(30, 2))), "readahead");
    assert!(is_wrong(&major.divisor(counted(0, 0))));
    assert!(is_wrong(&major.divisor(counted(32, 0))), "cached but not mapped");
}

/// Pages that do not fault, as if they were mapped.
struct Mapped;

impl FaultSource for Mapped {
    fn pages(&self) -> usize {
        1024
    }
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
    fn touch(&mut self, _: std::ops::Range<usize>) {}
    fn check(&mut self) -> Result<(bool, String)> {
        Ok((true, String::new()))
    }
}

#[test]
fn pages_that_are_already_mapped_are_wrong_work() {
    assert!(is_wrong(&once(&smoke::clock(), &mut Mapped)));
}

/// Takes 100 ns a page, and is preempted for a second in one of its parts.
struct Preempted {
    clock: Rc<FakeClock>,
    parts: Vec<usize>,
}

impl FaultSource for Preempted {
    fn pages(&self) -> usize {
        PAGES
    }
    fn expected(&self) -> ExpectedFaults {
        let mut strays = ExpectedFaults::minor(0..=10_000);
        strays.pages = Some(PAGES as u64);
        strays
    }
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
    fn touch(&mut self, pages: std::ops::Range<usize>) {
        assert_eq!(pages.start, self.parts.iter().sum::<usize>());
        self.parts.push(pages.len());
        let away_ns = if self.parts.len() == 2 { 1_000_000_000 } else { 0 };
        self.clock.advance(100 * pages.len() as u64 + away_ns);
    }
    fn check(&mut self) -> Result<(bool, String)> {
        Ok((true, String::new()))
    }
}

#[test]
fn preemption_of_one_part_is_not_in_the_value() {
    let clock = Rc::new(FakeClock::new(0));
    let mut memory = Preempted { clock: Rc::clone(&clock), parts: Vec::new() };
    let (ns, _) = once(&Clock::fake(clock), &mut memory).expect("the faults are as expected");
    assert_eq!(memory.parts, [PAGES / 8; 8], "shorter than a time slice");
    assert_eq!(ns, 100.0, "of a page");
}

/// The faults of a pass. Strays of the test's own text and stack can only add to them.
fn faults(memory: &mut dyn FaultSource) -> FaultCounts {
    memory.prepare().unwrap();
    let before = FaultCounts::now();
    memory.touch(0..memory.pages());
    let counted = FaultCounts::now().since(before);
    memory.verify().unwrap();
    counted
}

#[test]
fn every_page_with_its_own_mapping_faults() {
    use cached::CachedAccess;
    let pages = ((1 << 20) / page_size()) as u64;
    for (access, least) in [
        (CachedAccess::PageByPage, pages),
        (CachedAccess::CopyOnWrite, pages),
        (CachedAccess::Whole, 1),
    ] {
        let FaultCounts { minor, major } = faults(&mut Cached::new(1 << 20, access).unwrap());
        assert!(minor + major >= least, "{access:?}: {minor} minor and {major} major");
    }
}

fn on_a_disk() -> Option<Evicted> {
    let folders = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    match Evicted::new(4, &folders, true) {
        Ok(evicted) => Some(evicted),
        Err(SamplerFault::Unavailable(reason, _)) => {
            smoke::skipped(&reason);
            None
        }
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn every_evicted_page_is_a_major_fault() {
    let Some(mut evicted) = on_a_disk() else { return };
    assert!(faults(&mut evicted).major >= 4);
}

#[test]
fn folder_in_memory_is_rejected_with_its_type() {
    let folders = ["/dev/shm", "/nowhere"].map(PathBuf::from);
    if !folders[0].is_dir() {
        return smoke::skipped("no /dev/shm");
    }
    let Err(SamplerFault::Unavailable(reason, remedy)) = Evicted::new(2, &folders, false) else {
        panic!("created on a memory file system");
    };
    assert!(reason.contains("/dev/shm: tmpfs") && reason.contains("/nowhere: "), "{reason}");
    assert_eq!(remedy, Some(fathom_record::Remedy::DiskFolder));
}

#[test]
fn kinds_are_bounded_by_earlier_ones_and_a_copy_is_predicted() {
    let host = Host::default();
    let mut records =
        vec![smoke::record("os.syscall", &Params::one("call", "getppid"), 100.0, 1.0)];
    let params = Params::one("op", "read").and("threads", 1).and("level", "l3");
    records.push(smoke::record("memory.bandwidth", &params.and("page", "huge"), 20e9, 1e6));
    for case in PageFault.cases(&host, &Sizes::default()) {
        let prediction = PageFault.predict(&case, &host, &Inputs::new(&records)).unwrap();
        let is_copy = case.params == FaultKind::Cow.params();
        assert_eq!(prediction.is_ordinal(), !is_copy, "{prediction:?}");
        assert!(prediction.low >= Some(100.0), "{prediction:?}");
        if is_copy {
            // The other kinds take 500 ns each.
            let (hardware, software) = (page_size() as f64 / 20.0, 500.0);
            assert_eq!(prediction.hardware, Some(hardware));
            assert_eq!(prediction.value, Some(hardware + software));
        }
        records.push(smoke::record(ABOUT.id, &case.params, 500.0, 1.0));
    }
    let huge = ProbeCase::usual(FaultKind::Huge.params());
    let low = PageFault.predict(&huge, &host, &Inputs::new(&records)).unwrap().low;
    let bytes = BufferPage::Huge.bytes() as f64;
    assert_eq!(low, Some(bytes / 20.0), "as fast as the last cache is read");
    assert!(PageFault.predict(&huge, &host, &Inputs::new(&[])).is_err());
}
