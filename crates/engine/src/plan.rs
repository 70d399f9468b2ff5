//! The plan of a run: selected cases, effort, protocol and seed.

use crate::{CaseSelector, InjectedSpin, PlanError};
use fathom_metric::{About, Entry, ProbeCase, Registry, Sizes};
use fathom_record::{Effort, Host, Params, Protocol, matches};

/// Rounds of a case in one visit. Most spread lies between visits: of twice as many rounds, the
/// medians of visits differ by 2 % less.
const ROUNDS: u32 = 7;
/// Start, pinning and exit of a worker.
const WORKER_NS: f64 = 6e6;
/// Default number of values that remain with the trimmed protocol.
pub const KEPT: u64 = 500;

pub struct Plan {
    /// How thoroughly.
    pub effort: Effort,
    pub protocol: Protocol,
    /// Values that remain with the trimmed protocol.
    pub kept: u64,
    /// Processes of each case, in place of as many as fit into the time.
    pub processes: Option<u32>,
    /// The time of the run in nanoseconds.
    pub budget_ns: f64,
    /// Seed of every random order.
    pub seed: u64,
    /// Extra work in the kernels of one metric, for tests.
    pub injected: Option<InjectedSpin>,
    /// The selectors. Empty for all metrics.
    pub asked: Vec<String>,
    /// In the order of the registry, with the inputs of selected metrics.
    pub units: Vec<VisitGroup>,
}

/// Cases of one metric that share visits.
pub struct VisitGroup {
    pub entry: &'static Entry,
    /// Cases of a derived metric have no cost.
    pub cases: Vec<ProbeCase>,
    /// Where the record of each case is among those of its metric.
    pub(crate) places: Vec<usize>,
    /// Not selected, but an input of a selected metric.
    pub needed: bool,
    /// Whether people look at it first, so that time goes to it first.
    pub is_first: bool,
}

impl VisitGroup {
    /// The estimated duration of a visit, including the start of its worker.
    pub(crate) fn visit_ns(&self, rounds: u32) -> f64 {
        let rounds = f64::from(rounds) / f64::from(ROUNDS);
        WORKER_NS + rounds * self.cases.iter().map(|case| case.cost_ns).sum::<f64>()
    }
}

/// The visits of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visits {
    /// Fresh processes, if their number does not depend on the time.
    pub processes: Option<u32>,
    pub rounds: u32,
    /// Whether every round is a trial of the trimmed protocol.
    pub trials: bool,
}

/// The time of a run with this effort, in nanoseconds.
pub fn budget_ns(effort: Effort) -> f64 {
    match effort {
        Effort::Quick => 60e9,
        Effort::Standard => 240e9,
        Effort::Thorough => 1200e9,
    }
}

impl Plan {
    /// Expands selectors into cases.
    ///
    /// # Errors
    /// If a selector matches nothing.
    pub fn new(
        registry: &'static Registry,
        asked: Vec<String>,
        sizes: impl Into<Sizes>,
        protocol: Protocol,
        seed: u64,
        host: &Host,
    ) -> Result<Self, PlanError> {
        let entries = registry.entries();
        let all = Selected { all: asked.is_empty(), some: Vec::new() };
        let mut selected = vec![all; entries.len()];
        for text in &asked {
            add(CaseSelector::parse(text)?, entries, &mut selected)?;
        }
        let chosen: Vec<bool> =
            selected.iter().map(|one| one.all || !one.some.is_empty()).collect();
        let needed = with_needs(entries, &chosen);
        let sizes = sizes.into();
        let every = Sizes { effort: Effort::Thorough, ..sizes };
        let rarer = [every, Sizes { mount: true, ..sizes }, Sizes { mount: true, ..every }];
        let mut units = Vec::new();
        for (index, entry) in entries.iter().enumerate().filter(|(index, _)| needed[*index]) {
            let of_needs = entries
                .iter()
                .enumerate()
                .any(|(other, of)| needed[other] && of.about().needs.contains(&entry.about().id));
            let mut usual = cases(entry, host, &sizes);
            // A metric without cases at this effort has all if it is named.
            if usual.is_empty() && asked.iter().any(|name| name == entry.about().id) {
                usual = cases(entry, host, &every);
            }
            let is_whole = selected[index].all || of_needs;
            let mut planned = if is_whole { usual.clone() } else { Vec::new() };
            for selector in &selected[index].some {
                let rarer = rarer.iter().map(|sizes| cases(entry, host, sizes));
                match (selector.select(entry.about(), usual.clone(), rarer), entry) {
                    // They depend on the options of its command.
                    (Err(PlanError::NoSuchCase { .. }), Entry::ByHand(_)) => {}
                    (cases, _) => planned.extend(cases?),
                }
            }
            // A case may be selected twice.
            let mut seen: Vec<Params> = Vec::new();
            planned.retain(|case| {
                let is_new = !seen.contains(&case.params);
                seen.push(case.params.clone());
                is_new
            });
            units.extend(units_of(entry, planned, !chosen[index]));
        }
        let (effort, kept, processes, injected) = (sizes.effort, KEPT, None, None);
        let budget_ns = budget_ns(effort);
        Ok(Self { effort, protocol, kept, processes, budget_ns, seed, injected, asked, units })
    }

    /// The plan with the same cases to a far host, where a metric has them. Predictions of these
    /// need those of other metrics there.
    ///
    /// # Errors
    /// If no selected metric has any.
    pub fn and_remote(mut self, to: &str) -> Result<Self, PlanError> {
        let mut units: Vec<VisitGroup> = Vec::new();
        let mut is_any = false;
        for unit in std::mem::take(&mut self.units) {
            let (entry, needed) = (unit.entry, unit.needed);
            let probe = match entry {
                Entry::Probe(probe) => Some(*probe),
                _ => None,
            };
            let cases = unit.cases.iter().filter_map(|case| probe?.remote(case, to)).collect();
            units.push(unit);
            let remote = units_of(entry, cases, needed);
            let remote = remote.into_iter().filter(|unit| !unit.cases.is_empty());
            let before = units.len();
            units.extend(remote);
            is_any |= !needed && units.len() > before;
        }
        self.units = units;
        if is_any { Ok(self) } else { Err(PlanError::NothingRemote) }
    }

    /// The plan without metrics that only predictions need, for repeated runs. Inputs of derived
    /// metrics stay.
    #[must_use]
    pub fn alone(mut self) -> Self {
        let mut kept: Vec<&str> = Vec::new();
        let mut units: Vec<VisitGroup> = Vec::new();
        for unit in self.units.into_iter().rev() {
            let about = unit.entry.about();
            if unit.needed && !kept.contains(&about.id) {
                continue;
            }
            if matches!(unit.entry, Entry::Derived(_)) {
                kept.extend(about.needs);
            }
            units.push(unit);
        }
        units.reverse();
        self.units = units;
        self
    }

    /// The plan without metrics that have their own command, or no case at this effort.
    ///
    /// # Errors
    /// If such a metric is selected by its name, or nothing else is.
    pub fn without_by_hand(mut self, registry: &Registry) -> Result<Self, PlanError> {
        // All that was selected is so.
        let is_alone = self.units.iter().all(|unit| unit.needed || unit.entry.is_by_hand());
        for unit in self.units.iter().filter(|unit| unit.entry.is_by_hand()) {
            let metric = unit.entry.about().id;
            let is_named = self.asked.iter().any(|text| text.split('{').next() == Some(metric));
            if is_named || (is_alone && !unit.needed) {
                let command = registry.command_of(metric).map_or("", |it| it.path).to_owned();
                let metric = if is_named { metric.to_owned() } else { self.asked.join(" ") };
                return Err(PlanError::ByHand { metric, command });
            }
        }
        self.units.retain(|unit| !unit.entry.is_by_hand() && !unit.cases.is_empty());
        Ok(self)
    }

    pub fn visits(&self) -> Visits {
        match self.protocol {
            Protocol::Median => Visits { processes: self.processes, rounds: ROUNDS, trials: false },
            Protocol::Trimmed => {
                let trials = fathom_analysis::statistics::trials_for(self.kept) as u32;
                let most = if self.effort == Effort::Thorough { 20 } else { 10 };
                // A divisor of the trials, so that the number of trials is exact.
                let divides = |processes: &u32| trials.is_multiple_of(*processes);
                let processes = (1..=self.processes.unwrap_or(most).max(10)).rev().find(divides);
                let processes = processes.unwrap_or(1);
                Visits { processes: Some(processes), rounds: trials / processes, trials: true }
            }
        }
    }

    /// The selected metrics, or those needed by them.
    pub fn metrics(&self, needed: bool) -> Vec<&'static Entry> {
        let units = self.units.iter().filter(|unit| unit.needed == needed);
        let mut metrics: Vec<&'static Entry> = units.map(|unit| unit.entry).collect();
        metrics.dedup_by_key(|entry| entry.about().id);
        metrics
    }

    /// Whether a probe uses other hosts.
    pub(crate) fn has_far_ends(&self) -> bool {
        self.units.iter().any(|unit| unit.entry.about().has_far_end)
    }

    /// The number of records of the complete run.
    pub fn records(&self) -> usize {
        self.units.iter().map(|unit| unit.cases.len()).sum()
    }
}

/// The selected cases of one metric.
#[derive(Clone)]
struct Selected {
    all: bool,
    some: Vec<CaseSelector>,
}

/// Applies a selector to the metric of its name, or to all metrics of the group.
fn add(
    selector: CaseSelector,
    entries: &[Entry],
    selected: &mut [Selected],
) -> Result<(), PlanError> {
    let exact = entries.iter().position(|entry| entry.about().id == selector.name);
    let of_group = |entry: &Entry| matches(entry.about().id, &selector.name);
    match exact {
        Some(index) if selector.has_parameters() => selected[index].some.push(selector),
        Some(index) => selected[index].all = true,
        None if !entries.iter().any(of_group) => {
            let nearest = nearest(&selector.name, entries);
            return Err(PlanError::Unknown { name: selector.text, nearest });
        }
        None if selector.has_parameters() => {
            let CaseSelector { text, name, .. } = selector;
            return Err(PlanError::CasesOfGroup { text, name });
        }
        None => {
            let in_group = entries.iter().zip(selected).filter(|(entry, _)| of_group(entry));
            in_group.for_each(|(_, selected)| selected.all = true);
        }
    }
    Ok(())
}

fn cases(entry: &Entry, host: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
    match entry {
        Entry::Probe(probe) => probe.cases(host, sizes),
        Entry::Derived(derived) if !derived.is_for(sizes.effort) => Vec::new(),
        Entry::Derived(derived) => {
            let free = |params: Params| ProbeCase { params, cost_ns: 0.0 };
            derived.cases().into_iter().map(free).collect()
        }
        Entry::ByHand(_) => Vec::new(),
    }
}

/// One unit with all cases, or one for each if they disturb each other.
fn units_of(entry: &'static Entry, cases: Vec<ProbeCase>, needed: bool) -> Vec<VisitGroup> {
    let unit = |cases: Vec<ProbeCase>, from: usize| {
        let places = (from..from + cases.len()).collect();
        VisitGroup { entry, cases, places, needed, is_first: false }
    };
    match entry {
        Entry::Probe(probe) if !probe.about().cases_share_visits => {
            cases.into_iter().enumerate().map(|(at, case)| unit(vec![case], at)).collect()
        }
        _ => vec![unit(cases, 0)],
    }
}

/// The chosen metrics and their direct and indirect inputs. Inputs precede a metric, so that one
/// backward pass is enough.
fn with_needs(entries: &[Entry], chosen: &[bool]) -> Vec<bool> {
    let mut needed = chosen.to_vec();
    for index in (0..entries.len()).rev() {
        // Inputs come without the inputs of their own predictions: a latency curve for every file
        // read would take longer than the read.
        let is_computed = matches!(entries[index], Entry::Derived(_));
        if chosen[index] || (needed[index] && is_computed) {
            for need in entries[index].about().needs {
                let at = entries.iter().position(|entry| entry.about().id == *need);
                at.into_iter().for_each(|at| needed[at] = true);
            }
        }
    }
    needed
}

/// What users call the groups.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("cpu", &["core", "cores", "processor"]),
    ("file", &["disk", "disks", "filesystem", "fs", "io", "nvme", "ssd", "storage"]),
    ("memory", &["cache", "caches", "dram", "mem", "ram"]),
    ("network", &["lan", "net", "sockets"]),
    ("os", &["kernel", "linux", "syscalls", "system"]),
];

/// The group that users call so.
pub fn group_of_synonym(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    SYNONYMS.iter().find(|(_, names)| names.contains(&word.as_str())).map(|(group, _)| *group)
}

fn nearest(name: &str, entries: &[Entry]) -> String {
    let words = name.to_lowercase();
    if let Some(group) = group_of_synonym(name) {
        return format!("`{group}`");
    }
    // Words of a description, such as `context switches`, or one that is in no id.
    let is_in_id = entries.iter().any(|entry| entry.about().id.contains(&words));
    let is_described = |entry: &&Entry| {
        let About { id, title, timed, .. } = entry.about();
        let text = format!("{id} {title} {timed}").to_lowercase();
        let has = |word: &str| text.contains(word.trim_end_matches(['e', 's']));
        match words.contains(' ') {
            true => words.split_whitespace().all(has),
            false => {
                !is_in_id && text.split(|it: char| !it.is_alphanumeric()).any(|it| it == words)
            }
        }
    };
    let described = entries.iter().filter(is_described).map(|it| format!("`{}`", it.about().id));
    let described: Vec<String> = described.collect();
    if !described.is_empty() {
        return described[..described.len().min(3)].join(" or ");
    }
    let mut names: Vec<&str> =
        entries.iter().flat_map(|entry| beginnings(entry.about().id)).collect();
    names.sort_unstable();
    names.dedup();
    nearest_of(name, names)
}

/// The groups of a metric, and its id.
pub fn beginnings(id: &str) -> impl Iterator<Item = &str> {
    id.match_indices('.').map(|(dot, _)| &id[..dot]).chain([id])
}

/// The names most similar to this one, as `a` or `b`. Empty if there are none.
pub fn nearest_of(name: &str, names: Vec<&str>) -> String {
    let nearest = nearest_names(name, names).into_iter().map(|id| format!("`{id}`"));
    nearest.collect::<Vec<String>>().join(" or ")
}

/// The names that are most like another one, the nearest first.
pub fn nearest_names<'n>(name: &str, names: Vec<&'n str>) -> Vec<&'n str> {
    let name = &name.to_lowercase();
    let last = |id: &str| id.rsplit('.').next().unwrap_or(id).to_owned();
    let likeness = |id: &str| {
        let whole = strsim::jaro_winkler(id, name);
        // Two letters that changed places, or one too few, in a short word.
        let is_slip = id.len() > 2 && strsim::osa_distance(id, name) == 1;
        let slip = if is_slip { 0.95 } else { 0.0 };
        whole.max(strsim::jaro_winkler(&last(id), &last(name)) * 0.98).max(slip)
    };
    let mut ranked: Vec<(f64, &'n str)> = names.into_iter().map(|id| (likeness(id), id)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near = ranked.into_iter().take_while(|(likeness, _)| *likeness > 0.8);
    near.take(3).map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use fathom_probes::REGISTRY;

    use super::*;

    fn plan(asked: &[&str]) -> Result<Plan, PlanError> {
        let asked = asked.iter().map(|name| (*name).to_owned()).collect();
        Plan::new(&REGISTRY, asked, Effort::Quick, Protocol::Median, 1, &Host::default())
    }

    fn ids(plan: &Plan) -> Vec<(&'static str, bool)> {
        plan.units.iter().map(|unit| (unit.entry.about().id, unit.needed)).collect()
    }

    #[test]
    fn empty_selection_is_everything() {
        let plan = plan(&[]).expect("a plan");
        let planned: Vec<&str> = ids(&plan).into_iter().map(|(id, _)| id).collect();
        let left = REGISTRY.entries().iter().map(|entry| entry.about().id);
        let left: Vec<&str> = left.filter(|id| !planned.contains(id)).collect();
        // It has no cases at quick effort.
        assert_eq!(left, ["network.tcp.transfer"]);
        assert!(plan.metrics(true).is_empty());
    }

    #[test]
    fn needed_metrics_come_first_and_are_marked() {
        let plan = plan(&["cpu.call.per_argument"]).expect("a plan");
        let expected =
            vec![("cpu.frequency", true), ("cpu.call", true), ("cpu.call.per_argument", false)];
        assert_eq!(ids(&plan), expected);
    }

    #[test]
    fn disturbing_cases_are_visited_separately() {
        let plan = plan(&["os.syscall"]).expect("a plan");
        let of_call = |unit: &&VisitGroup| unit.entry.about().id == "os.syscall";
        assert!(plan.units.iter().filter(of_call).all(|unit| unit.cases.len() == 1));
        assert!(plan.units.iter().any(|unit| unit.cases.len() == 8), "cpu.call shares its visits");
    }

    #[test]
    fn group_is_a_dotted_prefix() {
        assert!(matches("os.process.fork", "os"));
        assert!(matches("os.process.fork", "os.process"));
        assert!(matches("os.process.fork", "os.process.fork"));
        assert!(!matches("os.process.fork", "o"));
        assert!(!matches("os.process.fork", "os.proc"));
        assert!(!matches("os.syscall", "os.syscall.fresh"));
    }

    #[test]
    fn unknown_name_suggests_the_nearest() {
        let message = |name: &str| match plan(&[name]) {
            Err(PlanError::Unknown { nearest, .. }) => nearest,
            _ => String::new(),
        };
        assert!(message("os.sycall").contains("`os.syscall`"), "{}", message("os.sycall"));
        assert!(message("syscall").contains("`os.syscall`"), "{}", message("syscall"));
        assert!(message("cpu.cal").contains("`cpu.call`"), "{}", message("cpu.cal"));
        assert!(message("context").starts_with("`os.switch."), "{}", message("context"));
        assert!(message("OS.SYSCALL").contains("`os.syscall`"), "{}", message("OS.SYSCALL"));
        assert!(message("fork").contains("`os.process.fork`"), "{}", message("fork"));
        let described = message("context switch");
        assert_eq!(message("context switches"), described);
        assert!(described.contains("`os.switch."), "{described}");
        assert_eq!((&*message("disk"), &*message("RAM")), ("`file`", "`memory`"));
        assert!(SYNONYMS.iter().all(|(group, _)| plan(&[group]).is_ok()));
        assert_eq!(message("zzzzzz"), "");
    }

    #[test]
    fn some_cases_of_a_metric_can_be_selected() {
        let cases = |asked: &[&str]| -> Vec<String> {
            let plan = plan(asked).expect("a plan");
            let units = plan.units.iter().filter(|unit| !unit.needed);
            units.flat_map(|unit| &unit.cases).map(|case| case.params.to_string()).collect()
        };
        assert_eq!(cases(&["os.syscall{call=stat}"]), ["{call=stat}"]);
        assert_eq!(cases(&["os.process.fork{rss_bytes=1MiB}"]).len(), 2);
        let two = cases(&["os.syscall{call=stat}", "os.syscall{call=fstat}"]);
        assert_eq!(two, ["{call=stat}", "{call=fstat}"]);
        let twice = cases(&["os.syscall{call=stat}", "os.syscall"]);
        assert_eq!(twice.len(), cases(&["os.syscall"]).len());
    }

    #[test]
    fn cases_of_a_mount_need_a_mount_or_a_selector() {
        let over = |asked: &[&str], effort, mount| -> Vec<usize> {
            let asked = asked.iter().map(|name| (*name).to_owned()).collect();
            let sizes = Sizes { mount, ..Effort::into(effort) };
            let plan = Plan::new(&REGISTRY, asked, sizes, Protocol::Median, 1, &Host::default());
            let plan = plan.expect("a plan");
            let count = |over| {
                let units = plan.units.iter().filter(|unit| !unit.needed);
                let is = |case: &&ProbeCase| case.params.text("over") == Some(over);
                units.flat_map(|unit| &unit.cases).filter(is).count()
            };
            vec![count("http"), count("mount")]
        };
        let metric = "file.read.remote";
        let mounted = "file.read.remote{over=mount}";
        for effort in [Effort::Quick, Effort::Thorough] {
            assert_eq!(over(&[], effort, false)[1], 0);
            assert_eq!(over(&[metric, "file.read.remote{order=random}"], effort, false)[1], 0);
        }
        assert_eq!(over(&[metric], Effort::Quick, true), [2, 2]);
        assert_eq!(over(&[mounted], Effort::Quick, false), [0, 2]);
        assert_eq!(over(&[metric, mounted], Effort::Quick, false), [2, 2]);
        assert_eq!(over(&["file.read.remote{client=cold}"], Effort::Quick, true), [0, 1]);
        assert_eq!(
            over(&["file.read.remote{over=mount,file_bytes=4K}"], Effort::Quick, false),
            [0, 2]
        );
        // Of the usual effort first.
        assert_eq!(over(&["file.read.remote{file_bytes=4K}"], Effort::Quick, false)[1], 0);
    }

    #[test]
    fn needed_metrics_have_all_their_cases() {
        let plan = plan(&["cpu.call{args=0}", "cpu.call.per_argument"]).expect("a plan");
        assert!(plan.units.iter().any(|unit| unit.cases.len() == 8), "a slope needs all arguments");
    }

    #[test]
    fn alone_drops_inputs_of_predictions() {
        let alone = |asked: &[&str]| ids(&plan(asked).expect("a plan").alone());
        assert_eq!(alone(&["os.process.fork"]), [("os.process.fork", false)]);
        let derived = alone(&["cpu.call.per_argument"]);
        assert_eq!(derived.last(), Some(&("cpu.call.per_argument", false)));
        assert!(derived.contains(&("cpu.call", true)), "a slope is computed from it: {derived:?}");
    }

    #[test]
    fn unknown_case_error_lists_the_known() {
        let message =
            |name: &str| plan(&[name]).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message("os.syscall{cal=stat}").contains("no parameter `cal`; it has: call"));
        assert_eq!(message("cpu.frequency{nope=1}"), "cpu.frequency has no parameters");
        assert!(message("os.syscall{call=stta}").contains("there are: call = "));
        assert!(message("os{call=stat}").contains("`os` is a group"));
        assert!(message("os.syscall{stat}").contains("select cases as in"));
        assert!(message("os.sycall{call=stat}").contains("os.sycall{call=stat}"));
    }

    #[test]
    fn trimmed_protocol_runs_all_trials() {
        for effort in [Effort::Quick, Effort::Standard, Effort::Thorough] {
            let plan =
                Plan::new(&REGISTRY, Vec::new(), effort, Protocol::Trimmed, 1, &Host::default())
                    .expect("a plan");
            let (processes, rounds) = if effort == Effort::Thorough { (20, 40) } else { (10, 80) };
            let visits = plan.visits();
            assert_eq!((visits.processes, visits.rounds), (Some(processes), rounds));
            let ten = Plan { kept: 10, ..plan }.visits();
            assert_eq!(ten.processes.expect("a number") * ten.rounds, 16, "{ten:?}");
        }
    }

    #[test]
    fn records_and_metrics_are_counted() {
        let plan = plan(&["cpu.call.per_argument", "os.syscall{call=stat}"]).expect("a plan");
        let cases: usize = plan.units.iter().map(|unit| unit.cases.len()).sum();
        assert!(plan.records() == cases && cases >= 11, "{cases}");
        let ids = |needed| -> Vec<&str> {
            plan.metrics(needed).iter().map(|entry| entry.about().id).collect()
        };
        assert_eq!(ids(false), ["cpu.call.per_argument", "os.syscall"]);
        assert_eq!(ids(true), ["cpu.frequency", "cpu.call"]);
        assert!(!plan.has_far_ends());
    }

    #[test]
    fn metric_by_hand_is_refused_only_by_name() {
        let by_hand = |asked: &[&str]| plan(asked).expect("a plan").without_by_hand(&REGISTRY);
        let rest = by_hand(&[]).expect("all others");
        assert!(!rest.units.iter().any(|unit| unit.entry.is_by_hand()));
        assert!(rest.units.len() > 10 && rest.units.len() < plan(&[]).expect("all").units.len());
        let refused = by_hand(&["file.reasonable_size"]).err().expect("an error").to_string();
        let text = "file.reasonable_size is not measured by `run`, but by a command of its own";
        assert_eq!(refused, text);
        let group = by_hand(&["file.cache"]).err().map(|error| error.to_string());
        assert_eq!(group, Some(text.replace("file.reasonable_size", "file.cache")));
        by_hand(&["file.cache", "cpu.call"]).expect("the rest");
    }

    #[test]
    fn at_most_three_names_are_suggested() {
        let names = || vec!["alpha1", "alpha2", "alpha3", "alpha4", "zeta"];
        assert_eq!(nearest_of("alpha", names()), "`alpha1` or `alpha2` or `alpha3`");
        assert_eq!(nearest_of("ALPHA4", names()).split(" or ").next(), Some("`alpha4`"));
        assert_eq!(nearest_of("omega", vec!["zeta"]), "");
        assert_eq!(nearest_of("rnu", vec!["run", "ui"]), "`run`");
    }
}
