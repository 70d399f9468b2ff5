//! Trials on a folder that stands for /proc and /sys, with a workload whose time depends on what
//! the folder says: order, journal, undo after each kind of end, verdicts.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_analysis::statistics::median_interval;
use fathom_record::{Better, Cause, Params, Reason, Unit};
use fathom_trial::{
    Changes, Recovery, Trial, TrialCut, TrialFactor, TrialFigure, TrialMachine, TrialOutcome,
    TrialRequest, TrialRun, TrialSubject, TrialTurns, TrialWorkload, WorkloadError, outcomes,
    recover,
};

const CONGESTION: &str = "proc/sys/net/ipv4/tcp_congestion_control";
const SWAPPINESS: &str = "proc/sys/vm/swappiness";
const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const DEFRAG: &str = "sys/kernel/mm/transparent_hugepage/defrag";
const BEFORE: [(&str, &str); 4] =
    [(CONGESTION, "bbr"), (SWAPPINESS, "60"), (THP, "madvise"), (DEFRAG, "madvise")];
/// The child of a test: the folder.
const CHILD: &str = "FATHOM_TRIAL_CHILD";

struct ScriptedWorkload {
    folder: tempfile::TempDir,
}

impl ScriptedWorkload {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, value) in BEFORE {
            let path = folder.path().join("root").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }
        Self { folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn assert_as_before(&self) {
        for (path, value) in BEFORE {
            assert_eq!(fs::read_to_string(self.root().join(path)).unwrap(), value, "{path}");
        }
        assert!(!self.state().join("try.json").exists(), "the journal is still there");
    }

    fn changes(&self) -> Changes {
        Changes::begin(&machine(&self.root()), &self.state()).unwrap().0
    }
}

fn machine(root: &Path) -> TrialMachine {
    TrialMachine { root: root.to_owned(), scratch: root.to_owned() }
}

fn trials(root: &Path, names: &[&str]) -> Vec<Trial> {
    let request = TrialRequest {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        is_offer: false,
        subject: Some(TrialSubject::Command("true".to_owned())),
        time_s: 1.0,
        seed: None,
        machine: machine(root),
        state: root.to_owned(),
    };
    request.trials().unwrap()
}

/// Takes as long as the settings say, with noise of ± 3 % and a drift.
struct TrialScript<'s> {
    root: PathBuf,
    random: u64,
    seen: Vec<String>,
    each: Box<dyn FnMut(usize) -> Result<(), WorkloadError> + 's>,
}

impl<'s> TrialScript<'s> {
    fn new(root: &Path, seed: u64) -> Self {
        let (random, seen) = (seed.wrapping_mul(2).wrapping_add(1), Vec::new());
        Self { root: root.to_owned(), random, seen, each: Box::new(|_| Ok(())) }
    }

    fn noise(&mut self) -> f64 {
        // An LCG is enough for noise.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        0.97 + 0.06 * (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl TrialWorkload for TrialScript<'_> {
    fn measure(&mut self, _: &AtomicBool) -> Result<Vec<TrialFigure>, WorkloadError> {
        let read = |path| fs::read_to_string(self.root.join(path)).unwrap();
        let [congestion, thp, defrag] = [CONGESTION, THP, DEFRAG].map(read);
        self.seen.push(congestion.clone());
        (self.each)(self.seen.len())?;
        let drift = 1.0 + 0.01 * self.seen.len() as f64;
        let mut value = 100.0 * drift * self.noise();
        value *= if congestion == "cubic" { 0.5 } else { 1.0 };
        value *= if thp == "always" { 0.8 } else { 1.0 };
        // Only both together are that fast.
        value *= if thp == "always" && defrag == "defer+madvise" { 0.5 } else { 1.0 };
        Ok(vec![figure(value)])
    }
}

fn figure(value: f64) -> TrialFigure {
    let (of, params) = ("command".to_owned(), Params::default());
    let (unit, better) = (Unit::Nanoseconds, Better::Lower);
    let (is_beside, disturbed, loop_ns) = (false, None, None);
    TrialFigure { of, params, unit, better, value, is_beside, disturbed, loop_ns }
}

fn make(
    trial: &Trial,
    script: &mut TrialScript<'_>,
    changes: &mut Changes,
    (seed, count): (u64, usize),
    stop: &AtomicBool,
) -> (Result<(), TrialCut>, Vec<TrialOutcome>) {
    let mut turns = TrialTurns::new(seed, trial.cells().len());
    let mut run = TrialRun { trial, workload: script, changes, stop, passes: Vec::new() };
    let ended = run.make(&mut turns, count, &mut || {});
    let outcomes = outcomes(trial, &run.passes);
    (ended, outcomes)
}

#[test]
fn known_effect_is_found_and_all_is_restored() {
    let scripted = ScriptedWorkload::new();
    let trial = &trials(&scripted.root(), &["congestion"])[0];
    assert_eq!(trial.words(), "congestion bbr → cubic");
    let mut script = TrialScript::new(&scripted.root(), 1);
    let stop = AtomicBool::new(false);
    let (ended, found) = make(trial, &mut script, &mut scripted.changes(), (1, 8), &stop);
    ended.unwrap();
    let ([low, high], _) = median_interval(&found[0].ratios).unwrap();
    assert!(0.45 < low && high < 0.55, "{low} to {high}");
    assert_eq!((found.len(), found[0].ratios.len(), found[0].factor), (1, 8, Some(0)));
    let [before, after] = found[0].values.unwrap();
    assert!(before > 1.8 * after, "{before} {after}");
    // Eight of each side, in blocks A B B A or B A A B.
    assert_eq!(script.seen.len(), 16);
    for block in script.seen.chunks(4) {
        assert!(block[0] == block[3] && block[1] == block[2] && block[0] != block[1], "{block:?}");
    }
    scripted.assert_as_before();
}

#[test]
fn settings_that_interact_are_one_trial() {
    let scripted = ScriptedWorkload::new();
    let trials = trials(&scripted.root(), &["thp", "congestion", "thp-defrag"]);
    let names: Vec<String> = trials.iter().map(Trial::words).collect();
    let pair = "thp madvise → always and thp-defrag madvise → defer+madvise";
    assert_eq!(names, [pair, "congestion bbr → cubic"]);
    let mut script = TrialScript::new(&scripted.root(), 3);
    let stop = AtomicBool::new(false);
    let (ended, found) = make(&trials[0], &mut script, &mut scripted.changes(), (3, 8), &stop);
    ended.unwrap();
    let middle = |at: usize| fathom_analysis::statistics::median(&found[at].ratios).unwrap();
    // 0.8 alone and 0.4 with the other; 1 alone and 0.5 with the other; 0.5 between them.
    assert!((middle(0) - 0.8 * 0.5_f64.sqrt()).abs() < 0.05, "{}", middle(0));
    assert!((middle(1) - 0.5_f64.sqrt()).abs() < 0.05, "{}", middle(1));
    assert!(found[2].factor.is_none() && (middle(2) - 0.5).abs() < 0.06, "{}", middle(2));
    scripted.assert_as_before();
}

#[test]
fn disturbed_measurements_and_slow_cores_are_counted() {
    let scripted = ScriptedWorkload::new();
    let trial = &trials(&scripted.root(), &["congestion"])[0];
    let figure = |disturbed: bool, loop_ns| TrialFigure {
        disturbed: disturbed.then(|| Reason::new(Cause::Contention, "CPU contention 83 %")),
        loop_ns,
        ..figure(1.0)
    };
    let pass = |all: [TrialFigure; 2]| all.map(|one| Some(vec![one])).to_vec();
    let found = outcomes(
        trial,
        &[
            pass([figure(true, Some(7_700.0)), figure(false, Some(7_750.0))]),
            pass([figure(false, Some(9_000.0)), figure(false, None)]),
        ],
    );
    let (share, reason) = &found[0].disturbed;
    assert_eq!((*share, found[0].fastest), (0.25, Some(2.0 / 3.0)));
    assert_eq!(reason.as_ref().map(|it| it.cause), Some(Cause::Contention));
}

#[test]
fn placebo_is_not_called_paying() {
    let stop = AtomicBool::new(false);
    let mut called = 0;
    for seed in 0..200 {
        let scripted = ScriptedWorkload::new();
        let trial = &trials(&scripted.root(), &["swappiness"])[0];
        let mut script = TrialScript::new(&scripted.root(), seed);
        let (ended, found) = make(trial, &mut script, &mut scripted.changes(), (seed, 8), &stop);
        ended.unwrap();
        let ([low, high], _) = median_interval(&found[0].ratios).unwrap();
        called += u32::from(low > 1.0 || high < 1.0);
    }
    assert!(called <= 6, "{called} of 200");
}

#[test]
fn nothing_is_changed_that_the_journal_lacks() {
    let scripted = ScriptedWorkload::new();
    let trial = &trials(&scripted.root(), &["congestion"])[0];
    let mut changes = scripted.changes();
    let journal = scripted.state().join("try.json");
    changes.set(&trial.factors[0], 0).unwrap();
    assert!(!journal.exists(), "the old value is no change");
    // The name of the file that becomes the journal.
    fs::create_dir(scripted.state().join("try.new")).unwrap();
    let refused = changes.set(&trial.factors[0], 1).unwrap_err().to_string();
    assert!(refused.contains("tcp_congestion_control: `cubic` was refused"), "{refused}");
    scripted.assert_as_before();
    fs::remove_dir(scripted.state().join("try.new")).unwrap();
    let mut changes = {
        drop(changes);
        scripted.changes()
    };
    changes.set(&trial.factors[0], 1).unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    assert!(text.contains("tcp_congestion_control") && text.contains("\"bbr\""), "{text}");
    drop(changes);
    scripted.assert_as_before();
}

#[test]
fn settings_are_restored_after_a_stop_a_failure_and_a_panic() {
    let scripted = ScriptedWorkload::new();
    let trial = &trials(&scripted.root(), &["congestion"])[0];
    let stop = AtomicBool::new(false);
    let mut script = TrialScript::new(&scripted.root(), 1);
    script.each = Box::new(|at| {
        stop.store(at == 7, Ordering::Relaxed);
        Ok(())
    });
    let (ended, found) = make(trial, &mut script, &mut scripted.changes(), (1, 8), &stop);
    assert!(matches!(ended, Err(TrialCut::Stopped)));
    assert_eq!(found[0].ratios.len(), 3, "whole passes are kept");
    scripted.assert_as_before();
    stop.store(false, Ordering::Relaxed);
    script.seen.clear();
    script.each = Box::new(|_| Err(WorkloadError::Failed("no number".to_owned())));
    let (ended, found) = make(trial, &mut script, &mut scripted.changes(), (1, 8), &stop);
    assert_eq!(ended.unwrap_err().to_string(), "no number");
    assert!(found.is_empty() && script.seen.len() == 2, "{:?}", script.seen);
    scripted.assert_as_before();
    script.seen.clear();
    script.each = Box::new(|at| if at == 3 { panic!("as the test asks") } else { Ok(()) });
    let (mut changes, stop) = (scripted.changes(), &stop);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        drop(make(trial, &mut script, &mut changes, (1, 8), stop));
    }));
    assert!(panicked.is_err());
    scripted.assert_as_before();
}

#[test]
fn setting_that_another_program_changes_ends_the_trial() {
    let scripted = ScriptedWorkload::new();
    let trial = &trials(&scripted.root(), &["congestion"])[0];
    let file = scripted.root().join(CONGESTION);
    let mut script = TrialScript::new(&scripted.root(), 1);
    script.each = Box::new(|at| {
        if at == 3 {
            fs::write(&file, "reno").unwrap();
        }
        Ok(())
    });
    let stop = AtomicBool::new(false);
    let (ended, _) = make(trial, &mut script, &mut scripted.changes(), (1, 8), &stop);
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("became `reno`: another program sets it"), "{text}");
    scripted.assert_as_before();
}

#[test]
fn second_process_is_refused() {
    let scripted = ScriptedWorkload::new();
    let _changes = scripted.changes();
    let machine = machine(&scripted.root());
    let refused = Changes::begin(&machine, &scripted.state()).unwrap_err().to_string();
    let own = std::process::id();
    assert!(refused.contains(&format!("(pid {own})")), "{refused}");
    assert_eq!(recover(&machine, &scripted.state()), Recovery::Busy(own.to_string()));
}

#[test]
fn journal_restores_what_the_list_has_and_nothing_else() {
    let scripted = ScriptedWorkload::new();
    drop(scripted.changes());
    let machine = machine(&scripted.root());
    let victim = scripted.root().join("etc");
    fs::write(&victim, "before").unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let journal = scripted.state().join("try.json");
    let obey = |boot: &str, file: &Path, value: &str| {
        let before = serde_json::json!([[{"file": file}, value]]);
        let text = serde_json::json!({"boot": boot.trim(), "before": before}).to_string();
        fs::write(&journal, text).unwrap();
        recover(&machine, &scripted.state())
    };
    let listed = scripted.root().join(CONGESTION);
    for (file, value) in [(&victim, "after"), (&listed, "two\nlines")] {
        assert!(matches!(obey(&boot, file, value), Recovery::Failed(_)), "{file:?} {value}");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "before");
    assert_eq!(obey("another boot", &listed, "reno"), Recovery::Nothing);
    scripted.assert_as_before();
    assert_eq!(obey(&boot, &listed, "reno"), Recovery::Restored(1));
    assert_eq!(fs::read_to_string(&listed).unwrap(), "reno");
}

/// A workload with a new value of which the kernel sets others anew.
struct ResetScript {
    scheduler: PathBuf,
    besides: [PathBuf; 2],
    /// The scheduler and these.
    seen: Vec<[String; 3]>,
}

impl TrialWorkload for ResetScript {
    fn measure(&mut self, _: &AtomicBool) -> Result<Vec<TrialFigure>, WorkloadError> {
        let [depth, expire] = &self.besides;
        let seen = [&self.scheduler, depth, expire].map(|it| fs::read_to_string(it).unwrap());
        if seen[0] != "none" {
            fs::write(depth, "256").unwrap();
            fs::write(expire, "500").unwrap();
        }
        self.seen.push(seen);
        Ok(vec![figure(1.0)])
    }
}

#[test]
fn what_the_kernel_sets_anew_is_as_before_too() {
    let scripted = ScriptedWorkload::new();
    let queue = scripted.root().join("sys/block/vda/queue");
    fs::create_dir_all(queue.join("iosched")).unwrap();
    let file = |name: &str, value: &str| {
        fs::write(queue.join(name), value).unwrap();
        queue.join(name)
    };
    let scheduler = file("scheduler", "none");
    let besides = [file("nr_requests", "100"), file("iosched/read_expire", "336")];
    let mut script = ResetScript { scheduler, besides: besides.clone(), seen: Vec::new() };
    let trial = trials(&scripted.root(), &["scheduler"]).remove(0);
    let mut changes = scripted.changes();
    let (workload, changes) = (&mut script, &mut changes);
    let (stop, passes) = (AtomicBool::new(false), Vec::new());
    let mut run = TrialRun { trial: &trial, workload, changes, stop: &stop, passes };
    run.make(&mut TrialTurns::new(7, 2), 4, &mut || {}).unwrap();
    let (old, new): (Vec<_>, Vec<_>) = script.seen.iter().partition(|seen| seen[0] == "none");
    assert!(old.iter().all(|seen| seen[1..] == ["100", "336"]), "{old:?}");
    assert_eq!([old.len(), new.len()], [4, 4]);
    assert_eq!(besides.map(|it| fs::read_to_string(it).unwrap()), ["100", "336"]);
}

/// Not a test by itself: what the next one kills.
#[test]
fn child_tries_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let root = folder.join("root");
    let mut changes = Changes::begin(&machine(&root), &folder.join("state")).unwrap().0;
    let all = trials(&root, &["congestion", "thp", "thp-defrag", "swappiness"]);
    let mut script = TrialScript::new(&root, 1);
    let stop = AtomicBool::new(false);
    for trial in all.iter().cycle() {
        make(trial, &mut script, &mut changes, (1, 8), &stop).0.unwrap();
    }
}

fn killed_child(folder: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    let words = ["--exact", "child_tries_until_it_is_killed"];
    let mut child = Command::new(program);
    child.args(words).env(CHILD, folder).stdout(Stdio::null()).stderr(Stdio::null());
    child.spawn().unwrap()
}

#[test]
fn killed_process_is_undone_by_the_next_one() {
    let mut left = 0;
    for round in 0..30 {
        let scripted = ScriptedWorkload::new();
        let journal = scripted.state().join("try.json");
        let mut child = killed_child(scripted.folder.path());
        // Killed at another point each time: after so many looks at a journal that exists.
        let mut looks = 0;
        while looks <= round * 40 {
            assert!(child.try_wait().unwrap().is_none(), "it tries until it is killed");
            looks += u32::from(looks > 0 || journal.exists());
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let was_changed = BEFORE
            .iter()
            .any(|(path, value)| fs::read_to_string(scripted.root().join(path)).unwrap() != *value);
        left += u32::from(was_changed);
        let recovery = recover(&machine(&scripted.root()), &scripted.state());
        assert!(matches!(recovery, Recovery::Restored(_) | Recovery::Nothing), "{recovery:?}");
        assert!(!was_changed || recovery != Recovery::Nothing, "changed without a journal");
        scripted.assert_as_before();
        // The lock went with the process.
        drop(scripted.changes());
    }
    assert!(left > 0, "no kill left anything to undo");
}

#[test]
fn what_cannot_be_tried_is_said() {
    let scripted = ScriptedWorkload::new();
    let new = |name: &str, value| {
        let knob = fathom_trial::knob::find(name).unwrap();
        TrialFactor::new(&machine(&scripted.root()), knob, value)
    };
    let why = |name, value| new(name, value).unwrap_err().to_string();
    assert_eq!(why("governor", None), "governor: this machine does not have it");
    assert_eq!(why("congestion", Some("bbr")), "congestion=bbr: it is that already");
    assert_eq!(why("congestion", Some("x")), "congestion=x: expected one of cubic, bbr, reno");
    let reno = new("congestion", Some("reno")).unwrap();
    assert_eq!(reno.change(), "bbr → reno");
    let line = "echo 'net.ipv4.tcp_congestion_control = reno' | sudo tee -a \
                /etc/sysctl.d/90-fathom.conf";
    assert_eq!(reno.permanent(), [line]);
    let available = "proc/sys/net/ipv4/tcp_available_congestion_control";
    fs::write(scripted.root().join(available), "reno bbr\n").unwrap();
    assert_eq!(new("congestion", None).unwrap().change(), "bbr → reno", "of those available");
}
