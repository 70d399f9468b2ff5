//! memory.fault in smoke size, and that what is not as it should be is found.

use super::pass::once;
use super::*;
use crate::memory::page_faults::{ExpectedFaults, FaultCounts};
use crate::smoke;

const NONE: FaultCounts = FaultCounts { minor: 0, major: 0 };

/// Whether the fault is wrong work.
fn is_wrong<T>(outcome: &Result<T, Fault>) -> bool {
    matches!(outcome, Err(Fault::WrongWork(_)))
}

#[test]
fn each_kind_is_taken_counted_and_checked() {
    for (case, sample) in smoke::take(&PageFault) {
        let kind = Kind::of(&case).unwrap();
        let Ok(sample) = sample else {
            assert!(matches!(kind, Kind::Huge | Kind::Major), "{kind:?} needs nothing special");
            continue;
        };
        assert!(sample.values.iter().all(|ns| *ns > 0.0), "{kind:?}");
        let detail = |name: &str| {
            let check = sample.checks.iter().find(|check| check.name == name);
            check.unwrap_or_else(|| panic!("{kind:?}: {name} is not checked")).detail.clone()
        };
        let pages = sample.batch;
        assert!(detail("faults").ends_with(&format!("for {pages} pages")), "{kind:?}");
        detail("pages");
    }
}

#[test]
fn a_count_that_does_not_fit_is_wrong_work() {
    let each = ExpectedFaults::one_per_page(1024);
    let counted = |minor, major| FaultCounts { minor, major };
    assert_eq!(each.divisor(counted(1024, 0)), Ok(1024));
    assert_eq!(each.divisor(counted(1030, 0)), Ok(1024), "some of the worker's own");
    let around = ExpectedFaults::minor(1..=1024);
    assert_eq!(around.divisor(counted(64, 0)), Ok(64), "each maps what lies around it");
    let huge = ExpectedFaults::one_per_page(4);
    assert_eq!(huge.divisor(counted(5, 0)), Ok(4), "the stray is in no divisor");
    assert!(is_wrong(&huge.divisor(counted(7, 0))), "too many to be strays");
    assert!(is_wrong(&each.divisor(counted(1023, 0))), "one page was there already");
    assert!(is_wrong(&each.divisor(counted(2, 0))), "two huge pages");
    assert!(is_wrong(&each.divisor(counted(2048, 0))), "each page twice");
    assert!(is_wrong(&each.divisor(counted(1024, 1))), "something was swapped in");
    let waited = ExpectedFaults::major(32);
    assert_eq!(waited.divisor(counted(1, 32)), Ok(32));
    assert!(is_wrong(&waited.divisor(counted(30, 2))), "it was read ahead");
    assert!(is_wrong(&waited.divisor(NONE)));
}

/// Memory that is not taken away before a pass.
struct Kept(Settled);

impl Faulting for Kept {
    fn pages(&self) -> usize {
        self.0.pages()
    }
    fn expected(&self) -> ExpectedFaults {
        self.0.expected()
    }
    fn take_away(&mut self) -> Result<(), Fault> {
        Ok(())
    }
    fn touch(&mut self) {
        self.0.touch();
    }
    fn check(&mut self) -> Result<(bool, String), Fault> {
        self.0.check()
    }
}

#[test]
fn pages_that_are_there_already_are_not_taken_for_faults() {
    let mut kept = Kept(Settled::of(1 << 20).unwrap());
    assert!(once(&smoke::clock(), &mut kept).is_ok(), "the first pass finds nothing there");
    assert!(is_wrong(&once(&smoke::clock(), &mut kept)), "the second finds all");
}

#[test]
fn a_cached_page_by_itself_faults_alone_and_whole_files_may_in_larger_pieces() {
    let faults = |way| once(&smoke::clock(), &mut Cached::of(1 << 20, way).unwrap()).unwrap().1;
    let pages = ((1 << 20) / page_size()) as u64;
    assert!((pages..=pages + 2).contains(&faults(Way::Apart)));
    assert!((pages..=pages + 2).contains(&faults(Way::Copied)));
    assert!(faults(Way::Whole) <= pages + 2);
}

/// A folder on a disk, where there is one.
fn on_a_disk() -> Option<Evicted> {
    let folders = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    match Evicted::of(4, &folders, true) {
        Ok(evicted) => Some(evicted),
        Err(Fault::Unavailable(reason, _)) => {
            smoke::skipped(&reason);
            None
        }
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn a_page_from_a_disk_waits_and_one_that_was_not_evicted_is_found_out() {
    let Some(mut evicted) = on_a_disk() else { return };
    let (_, faults) = once(&smoke::clock(), &mut evicted).unwrap();
    assert_eq!(faults, 4);
    assert!(evicted.resident().unwrap() >= 4, "what was touched is in the cache now");
    evicted.take_away().unwrap();
    assert_eq!(evicted.resident().unwrap(), 0);
    // In the cache again and only not mapped: no fault waits, and this must not pass for one.
    evicted.read_all().unwrap();
    let before = FaultCounts::now();
    evicted.touch();
    let counted = FaultCounts::now().since(before);
    assert!(counted.major == 0 && counted.minor > 0, "{counted:?}");
    assert!(is_wrong(&evicted.expected().divisor(counted)));
}

#[test]
fn a_file_on_a_disk_never_has_a_name() {
    let Some(mut evicted) = on_a_disk() else { return };
    assert_eq!(evicted.names().unwrap(), 0);
    once(&smoke::clock(), &mut evicted).unwrap();
    assert_eq!(evicted.names().unwrap(), 0);
}

#[test]
fn a_folder_in_memory_is_refused_by_name_and_a_missing_one_by_its_error() {
    let folders = ["/dev/shm", "/nowhere"].map(PathBuf::from);
    if !folders[0].is_dir() {
        return smoke::skipped("no /dev/shm");
    }
    let Err(Fault::Unavailable(reason, remedy)) = Evicted::of(2, &folders, false) else {
        panic!("a file in memory was taken for one on a disk");
    };
    assert!(reason.contains("/dev/shm: tmpfs") && reason.contains("/nowhere: "), "{reason}");
    assert_eq!(remedy, Some(fathom_record::Remedy::DiskFolder));
}

#[test]
fn each_kind_has_an_order_against_one_before_it() {
    let host = Host::default();
    let mut records =
        vec![smoke::record("os.syscall", &Params::one("call", "getppid"), 100.0, 1.0)];
    let stored = |op: &str, rate: f64| {
        let params = Params::one("op", op).and("threads", 1).and("level", "dram");
        smoke::record("memory.bandwidth", &params.and("page", "huge"), rate, 1e6)
    };
    records.extend([stored("write", 10e9), stored("write_nt", 20e9), stored("read", 40e9)]);
    for case in PageFault.cases(&host, &Sizes::default()) {
        let prediction = PageFault.predict(&case, &host, &Known::new(&records)).unwrap();
        assert!(prediction.is_ordinal() && prediction.low >= Some(100.0), "{prediction:?}");
        records.push(smoke::record(ABOUT.id, &case.params, 500.0, 1.0));
    }
    let huge = Case::usual(Kind::Huge.params());
    let low = PageFault.predict(&huge, &host, &Known::new(&records)).unwrap().low;
    let bytes = Page::Huge.bytes() as f64;
    assert_eq!(low, Some(0.5 * bytes / 20.0), "by the faster of the two ways to store");
    assert!(PageFault.predict(&huge, &host, &Known::new(&[])).is_err());
}

#[test]
fn only_a_fault_that_waits_for_a_device_waits() {
    for case in PageFault.cases(&Host::default(), &Sizes::default()) {
        let waits = PageFault.expects(&case) == Counters::DEVICE;
        assert_eq!(waits, Kind::of(&case) == Some(Kind::Major));
    }
}
