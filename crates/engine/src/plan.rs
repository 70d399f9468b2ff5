//! From the words of a command line to what will be measured, checked whole before it begins.

use crate::{Asked, InjectedSpin};
use fathom_metric::{Case, Entry, Far, Registry, Sizes};
use fathom_record::{Effort, Host, Params, Protocol};

/// Rounds of a case in one visit.
const ROUNDS: u32 = 12;
/// Values that remain with the trimmed protocol unless told.
pub const KEPT: u64 = 500;

pub struct Plan {
    /// How thoroughly.
    pub effort: Effort,
    pub protocol: Protocol,
    /// Values that remain with the trimmed protocol.
    pub kept: u64,
    /// Seed of every random order.
    pub seed: u64,
    /// Extra work in the kernels of one metric: nothing but in a laboratory.
    pub injected: Option<InjectedSpin>,
    /// What was asked for; empty means everything.
    pub asked: Vec<String>,
    /// What is visited together, in the order of the registry, with what the asked ones need.
    pub units: Vec<Unit>,
}

/// Cases of one metric that are visited together: all of them, or each alone.
pub struct Unit {
    pub entry: &'static Entry,
    /// The cases; of a derived metric their cost is nothing.
    pub cases: Vec<Case>,
    /// It was not asked for, but something that was needs it.
    pub needed: bool,
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// No metric or group has this name.
    #[error("no metric or group is called `{name}`")]
    Unknown {
        name: String,
        /// The names most like it, as `a` or `b`; empty where none is.
        nearest: String,
    },
    /// It has a command of its own.
    #[error("{metric} is not measured by `run`, but by a command of its own")]
    ByHand {
        metric: String,
        /// Its command, such as `file read`.
        command: String,
    },
    /// Braces without pairs in them.
    #[error("`{text}`: some cases of a metric are chosen as `os.syscall{{call=stat}}`")]
    Malformed {
        text: String,
    },
    #[error("`{text}`: cases are chosen of one metric, and `{name}` is a group")]
    CasesOfGroup {
        text: String,
        name: String,
    },
    #[error("{metric} has no parameter `{name}`; it has: {there_are}")]
    NoSuchParameter {
        metric: String,
        name: String,
        there_are: String,
    },
    #[error("`{text}`: there is no such case on this machine; there are: {there_are}")]
    NoSuchCase {
        text: String,
        there_are: String,
    },
}

/// How often a case is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visits {
    /// Fresh processes of each estimate.
    pub processes_min: u32,
    /// The same where an interval is wide: one extension to twice as many.
    pub processes_max: u32,
    pub rounds: u32,
    /// Every round is one trial, and all are kept.
    pub trials: bool,
}

impl Plan {
    /// Checks the names and expands them into cases.
    ///
    /// # Errors
    /// When a name is neither a metric nor a group.
    pub fn new(
        registry: &'static Registry,
        asked: Vec<String>,
        effort: Effort,
        protocol: Protocol,
        seed: u64,
        host: &Host,
    ) -> Result<Self, PlanError> {
        let words = asked.iter().map(|text| Asked::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let entries = registry.entries();
        let mut wanted: Vec<Wanted> = entries.iter().map(|_| Wanted::default()).collect();
        wanted.iter_mut().for_each(|wanted| wanted.all = asked.is_empty());
        for word in &words {
            choose(word, entries, &mut wanted)?;
        }
        let chosen: Vec<bool> = wanted.iter().map(|one| one.all || !one.some.is_empty()).collect();
        let needed = with_needs(entries, &chosen);
        let sizes = Sizes { effort, smoke: false };
        let every = Sizes { effort: Effort::Thorough, smoke: false };
        let mut units = Vec::new();
        for (index, entry) in entries.iter().enumerate().filter(|(index, _)| needed[*index]) {
            let of_needs = entries
                .iter()
                .enumerate()
                .any(|(other, of)| needed[other] && of.about().needs.contains(&entry.about().id));
            let usual = cases(entry, host, &sizes);
            let mut taken = if wanted[index].all || of_needs { usual.clone() } else { Vec::new() };
            for word in &wanted[index].some {
                let more = word.of(entry.about(), usual.clone(), || cases(entry, host, &every))?;
                taken.extend(more);
            }
            // A case may have been asked for twice.
            let mut seen: Vec<Params> = Vec::new();
            taken.retain(|case| {
                let is_new = !seen.contains(&case.params);
                seen.push(case.params.clone());
                is_new
            });
            units.extend(units_of(entry, taken, !chosen[index]));
        }
        Ok(Self { effort, protocol, kept: KEPT, seed, injected: None, asked, units })
    }

    /// The same without what only predictions need, which then have no model: for whoever wants a
    /// number again and again. What a derived metric is computed from stays.
    #[must_use]
    pub fn alone(mut self) -> Self {
        let mut kept: Vec<&str> = Vec::new();
        let mut units: Vec<Unit> = Vec::new();
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

    /// The same without what has a command of its own: a group leaves it out.
    ///
    /// # Errors
    /// When one was asked for by its name.
    pub fn without_by_hand(mut self, registry: &Registry) -> Result<Self, PlanError> {
        for unit in &self.units {
            let Entry::ByHand(by_hand) = unit.entry else { continue };
            let metric = by_hand.about().id;
            let named = |text: &String| text.split('{').next() == Some(metric);
            if self.asked.iter().any(named) {
                let command = registry.command_of(metric).map_or("", |command| command.path);
                let (metric, command) = (metric.to_owned(), command.to_owned());
                return Err(PlanError::ByHand { metric, command });
            }
        }
        self.units.retain(|unit| !matches!(unit.entry, Entry::ByHand(_)));
        Ok(self)
    }

    /// How often each case is visited.
    pub fn visits(&self) -> Visits {
        let (processes_min, processes_max) = match self.effort {
            Effort::Quick => (5, 5),
            Effort::Standard => (10, 20),
            Effort::Thorough => (20, 40),
        };
        match self.protocol {
            Protocol::Median => {
                Visits { processes_min, processes_max, rounds: ROUNDS, trials: false }
            }
            Protocol::Trimmed => {
                let trials = fathom_analysis::statistics::trials_for(self.kept) as u32;
                // As many processes as divide the trials, so that there are exactly so many.
                let divides = |processes: &u32| trials.is_multiple_of(*processes);
                let processes = (1..=processes_min.max(10)).rev().find(divides).unwrap_or(1);
                let rounds = trials / processes;
                Visits { processes_min: processes, processes_max: processes, rounds, trials: true }
            }
        }
    }

    /// The metrics that were asked for, or those that came along because these need them.
    pub fn metrics(&self, needed: bool) -> Vec<&'static Entry> {
        let of_kind = self.units.iter().filter(|unit| unit.needed == needed);
        let mut metrics: Vec<&'static Entry> = of_kind.map(|unit| unit.entry).collect();
        metrics.dedup_by_key(|entry| entry.about().id);
        metrics
    }

    /// Whether a probe of it works with other hosts.
    pub(crate) fn has_far_ends(&self) -> bool {
        let is_far = |unit: &Unit| match unit.entry {
            Entry::Probe(probe) => probe.needs().far == Some(Far::Anywhere),
            _ => false,
        };
        self.units.iter().any(is_far)
    }

    /// Records that the run will give if nothing stops it.
    pub fn records(&self) -> usize {
        self.units.iter().map(|unit| unit.cases.len()).sum()
    }
}

/// What was asked for of one metric.
#[derive(Clone, Default)]
struct Wanted {
    all: bool,
    some: Vec<Asked>,
}

/// Notes what a word asks for, at the metric of this name or at all of the group.
fn choose(word: &Asked, entries: &[Entry], wanted: &mut [Wanted]) -> Result<(), PlanError> {
    let exact = entries.iter().position(|entry| entry.about().id == word.name);
    let of_group = |entry: &Entry| matches(entry.about().id, &word.name);
    match exact {
        Some(index) if word.is_of_some_cases() => wanted[index].some.push(word.clone()),
        Some(index) => wanted[index].all = true,
        None if !entries.iter().any(of_group) => {
            return Err(PlanError::Unknown {
                name: word.text.clone(),
                nearest: nearest(&word.name, entries),
            });
        }
        None if word.is_of_some_cases() => {
            let (text, name) = (word.text.clone(), word.name.clone());
            return Err(PlanError::CasesOfGroup { text, name });
        }
        None => entries
            .iter()
            .zip(wanted)
            .filter(|(entry, _)| of_group(entry))
            .for_each(|(_, wanted)| wanted.all = true),
    }
    Ok(())
}

fn cases(entry: &Entry, host: &Host, sizes: &Sizes) -> Vec<Case> {
    match entry {
        Entry::Probe(probe) => probe.cases(host, sizes),
        Entry::Derived(derived) => {
            let free = |params: Params| Case { params, cost_ns: 0.0 };
            derived.cases().into_iter().map(free).collect()
        }
        Entry::ByHand(_) => Vec::new(),
    }
}

/// One unit with all cases, or one for each where they disturb each other.
fn units_of(entry: &'static Entry, cases: Vec<Case>, needed: bool) -> Vec<Unit> {
    match entry {
        Entry::Probe(probe) if !probe.cases_share_visits() => {
            cases.into_iter().map(|case| Unit { entry, cases: vec![case], needed }).collect()
        }
        _ => vec![Unit { entry, cases, needed }],
    }
}

/// Whether a name asked for is this metric, or a dotted beginning of it.
pub fn matches(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The chosen metrics and all they need, directly or not. A metric stands after its needs, so one
/// pass from the end finds them all.
fn with_needs(entries: &[Entry], chosen: &[bool]) -> Vec<bool> {
    let mut needed = chosen.to_vec();
    for index in (0..entries.len()).rev() {
        // What came along for its value does so without what its own prediction needs: a curve of
        // latencies beside every file that is read would take longer than the file.
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

/// The names most like this one, as `a` or `b`; empty where none is.
fn nearest(name: &str, entries: &[Entry]) -> String {
    let mut names: Vec<&str> =
        entries.iter().flat_map(|entry| beginnings(entry.about().id)).collect();
    names.sort_unstable();
    names.dedup();
    nearest_of(name, names)
}

/// The groups that a metric is of, and its own id.
pub fn beginnings(id: &str) -> impl Iterator<Item = &str> {
    id.match_indices('.').map(|(dot, _)| &id[..dot]).chain([id])
}

/// Those of some names that are most like this one, as `a` or `b`; empty where none is.
pub fn nearest_of(name: &str, names: Vec<&str>) -> String {
    let name = &name.to_lowercase();
    let last = |id: &str| id.rsplit('.').next().unwrap_or(id).to_owned();
    let likeness = |id: &str| {
        let whole = strsim::jaro_winkler(id, name);
        whole.max(strsim::jaro_winkler(&last(id), &last(name)) * 0.98)
    };
    let mut ranked: Vec<(f64, &str)> = names.into_iter().map(|id| (likeness(id), id)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best: Vec<String> = ranked
        .into_iter()
        .take_while(|(likeness, _)| *likeness > 0.8)
        .take(3)
        .map(|(_, id)| format!("`{id}`"))
        .collect();
    best.join(" or ")
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
        assert_eq!(plan.metrics(false).len(), REGISTRY.entries().len());
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
        let of_call = |unit: &&Unit| unit.entry.about().id == "os.syscall";
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
        assert!(message("OS.SYSCALL").contains("`os.syscall`"), "{}", message("OS.SYSCALL"));
        assert!(message("fork").contains("`os.process.fork`"), "{}", message("fork"));
        assert_eq!(message("zzzzzz"), "");
    }

    #[test]
    fn some_cases_of_a_metric_can_be_selected() {
        let cases = |asked: &[&str]| -> Vec<String> {
            let plan = plan(asked).expect("a plan");
            let asked_for = plan.units.iter().filter(|unit| !unit.needed);
            let cases = asked_for.flat_map(|unit| &unit.cases);
            cases.map(|case| case.params.to_string()).collect()
        };
        assert_eq!(cases(&["os.syscall{call=stat}"]), ["{call=stat}"]);
        assert_eq!(cases(&["os.process.fork{rss_bytes=1MiB}"]).len(), 2);
        let two = cases(&["os.syscall{call=stat}", "os.syscall{call=fstat}"]);
        assert_eq!(two, ["{call=stat}", "{call=fstat}"]);
        let twice = cases(&["os.syscall{call=stat}", "os.syscall"]);
        assert_eq!(twice.len(), cases(&["os.syscall"]).len());
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
        assert!(message("os.syscall{call=stta}").contains("there are: call = "));
        assert!(message("os{call=stat}").contains("`os` is a group"));
        assert!(message("os.syscall{stat}").contains("chosen as"));
        assert!(message("os.sycall{call=stat}").contains("os.sycall{call=stat}"));
    }

    #[test]
    fn the_trimmed_protocol_takes_all_its_trials() {
        for effort in [Effort::Quick, Effort::Standard, Effort::Thorough] {
            let plan =
                Plan::new(&REGISTRY, Vec::new(), effort, Protocol::Trimmed, 1, &Host::default())
                    .expect("a plan");
            let visits = plan.visits();
            assert_eq!(visits.processes_min * visits.rounds, 800, "{visits:?}");
            let ten = Plan { kept: 10, ..plan }.visits();
            assert_eq!(ten.processes_min * ten.rounds, 16, "{ten:?}");
        }
    }
}
