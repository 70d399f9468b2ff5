//! Run names: an id, an id prefix, a label, `latest`, `latest~2`, `latest:file`, `latest:load~1`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use fathom_record::{KINDS, RunState, kind};

use crate::column::{IS_SELECTION, optional, parse_word, text};
use crate::database::{DatabaseRow, values};
use crate::read::{current_state, number, owner};
use crate::{Store, StoreError};

/// A shorter prefix would often match several runs.
const PREFIX_MIN: usize = 4;

/// Whether a run has results, in SQL.
const HAS_RECORDS: &str = "EXISTS (SELECT 1 FROM record WHERE record.run = run.number)";
/// Whether it has numbers.
const HAS_NUMBERS: &str = "EXISTS (SELECT 1 FROM record WHERE record.run = run.number
    AND record.verdict IN ('valid', 'noisy'))";

/// The run of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunNameFound {
    pub id: String,
    /// How many newer runs `latest` passed over, by the reason: their kind, state or host.
    pub passed_over: BTreeMap<String, usize>,
    /// The state and kind of the run, if `latest` had to take another than a complete one of the
    /// kind that was asked for.
    pub instead: Option<String>,
}

/// What `latest` depends on.
struct Candidate {
    id: String,
    state: RunState,
    kind: String,
    /// Of a `fathom run` of all metrics.
    is_battery: bool,
    is_of_host: bool,
    has_records: bool,
    has_numbers: bool,
}

impl Candidate {
    fn is_of(&self, kind: &str) -> bool {
        if kind == BATTERY { self.is_battery } else { self.kind == kind }
    }

    fn words(&self) -> String {
        let is_selection = self.kind == KINDS[0] && !self.is_battery;
        if is_selection { "of some metrics" } else { &*self.kind }.to_owned()
    }
}

/// The kind of a `fathom run` of all metrics.
const BATTERY: &str = KINDS[1];

/// The objection to a run without a number.
const WITHOUT: &str = "without results";

/// The runs that `latest` can be.
#[derive(Clone, Copy)]
struct RunNameWanted<'n> {
    /// Of any kind if `None`.
    kind: Option<&'n str>,
    is_whole: bool,
    has_numbers: bool,
}

impl RunNameWanted<'_> {
    /// Why it is not a candidate.
    fn objection(self, run: &Candidate) -> Option<String> {
        Some(match self {
            _ if !run.has_records || self.has_numbers && !run.has_numbers => WITHOUT.to_owned(),
            _ if !run.is_of_host => "of another host".to_owned(),
            RunNameWanted { kind: Some(kind), .. } if !run.is_of(kind) => run.words(),
            RunNameWanted { is_whole: true, .. } if run.state != RunState::Complete => {
                run.state.word().to_owned()
            }
            _ => return None,
        })
    }
}

impl Store {
    /// The id of the run with this name; `latest` is of any host. See [`Store::find`].
    pub fn resolve(&self, name: &str) -> Result<String, StoreError> {
        Ok(self.find(name, None)?.id)
    }

    /// The run with this name: an id, a label that one run has, a prefix of at least 4 characters
    /// that one id has, or `latest` with `:KIND`, `~N` or both, in this order.
    ///
    /// `latest` is the last complete run of its kind with results, of the host with this
    /// [`identity`](fathom_record::Host::identity) if one is given, and `~N` the N-th before it.
    /// Without a complete run it is the last of the kind. Without `:KIND` it is a `run` if there is
    /// one, else of any kind.
    pub fn find(&self, name: &str, host: Option<&str>) -> Result<RunNameFound, StoreError> {
        match name.strip_prefix("latest") {
            Some(rest) => self.latest(name, rest, host),
            None => Ok(RunNameFound {
                id: self.named(name)?,
                passed_over: BTreeMap::new(),
                instead: None,
            }),
        }
    }

    /// What [`Self::find`] reads for these names, and [`Self::host_or_last`]; for
    /// [`Store::open_foreseeing`].
    pub fn read_names<'n>(&self, names: impl IntoIterator<Item = &'n str>, host: &str) {
        let any = RunNameWanted { kind: None, is_whole: false, has_numbers: false };
        for name in names {
            let _ = self.labelled(name);
            let _ = match name.starts_with("latest") {
                true => self.host_or_last(host).and(self.candidates(any, 0, None)).map(drop),
                false => self.starting(name).map(drop),
            };
        }
    }

    /// Identity and name of this host, if it has results in the store, else of that of the last
    /// run with results.
    pub fn host_or_last(&self, host: &str) -> Result<Option<(String, String)>, StoreError> {
        // Two searches that end at the first run: one that sorts reads all.
        let newest = |of: &str, rank: u32| {
            format!(
                "SELECT * FROM (SELECT coalesce(host_id, host_name) AS host, host_name,
                    {rank} AS rank FROM run WHERE {of} AND {HAS_RECORDS}
                    ORDER BY number DESC LIMIT 1) AS newest{rank}"
            )
        };
        let own = newest("coalesce(host_id, host_name) = ?1", 0);
        let query = format!("{own} UNION ALL {} ORDER BY rank LIMIT 1", newest("true", 1));
        self.database.first(&query, values![host], |row| Ok((text(row, 0), text(row, 1))))
    }

    /// The name of the host in the last run of this host id: of a clone, or before it was renamed.
    pub fn name_of(&self, host_id: &str) -> Result<Option<String>, StoreError> {
        let query = "SELECT host_name FROM run WHERE coalesce(host_id, host_name) = ?1
             ORDER BY number DESC LIMIT 1";
        self.database.first(query, values![host_id], |row| Ok(text(row, 0)))
    }

    /// How many runs were stored after the one with this id.
    pub fn runs_after(&self, id: &str) -> Result<usize, StoreError> {
        let query =
            "SELECT count(*) FROM run WHERE number > (SELECT number FROM run WHERE id = ?1)";
        Ok(self.database.integer(query, values![id])?.try_into().unwrap_or_default())
    }

    /// The runs with this label, newest first.
    pub fn labelled(&self, label: &str) -> Result<Vec<String>, StoreError> {
        self.ids_where("label = ?1", label)
    }

    fn starting(&self, name: &str) -> Result<Vec<String>, StoreError> {
        let prefix = format!("lower(substr(id, 1, {})) = ?1", name.chars().count());
        self.ids_where(&prefix, &name.to_ascii_lowercase())
    }

    fn named(&self, name: &str) -> Result<String, StoreError> {
        let starting = self.starting(name)?;
        if let Some(whole) = starting.iter().find(|id| id.eq_ignore_ascii_case(name)) {
            return Ok(whole.clone());
        }
        let labelled = self.ids_where("label = ?1", name)?;
        if labelled.is_empty() {
            let is_prefix = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if name.is_empty() || !is_prefix {
                return Err(StoreError::BadName { name: name.to_owned() });
            }
            if name.len() < PREFIX_MIN {
                return Err(StoreError::TooShort { name: name.to_owned(), min: PREFIX_MIN });
            }
        }
        let mut candidates = if labelled.is_empty() { starting } else { labelled };
        match candidates.len() {
            0 => Err(self.no_such_run(name)?),
            1 => Ok(candidates.remove(0)),
            _ => Err(StoreError::Ambiguous { name: name.to_owned(), candidates }),
        }
    }

    fn latest(
        &self,
        name: &str,
        rest: &str,
        host: Option<&str>,
    ) -> Result<RunNameFound, StoreError> {
        let bad = || StoreError::BadName { name: name.to_owned() };
        let (selector, back) = rest.split_once('~').unwrap_or((rest, "0"));
        let back: usize = back.parse().map_err(|_| bad())?;
        let named = match selector.strip_prefix(':') {
            None if selector.is_empty() => None,
            Some(kind) if KINDS.contains(&kind) => Some(kind),
            _ => return Err(bad()),
        };
        let wanted =
            RunNameWanted { kind: named.or(Some(KINDS[0])), is_whole: true, has_numbers: true };
        let runs = self.candidates(wanted, back, host)?;
        let partly = RunNameWanted { is_whole: false, ..wanted };
        let any = RunNameWanted { kind: named, ..wanted };
        let choices = [wanted, partly, any, RunNameWanted { is_whole: false, ..any }];
        // Runs without a number only if there are no others.
        let without = choices.map(|it| RunNameWanted { has_numbers: false, ..it });
        let is_any = |it: &RunNameWanted<'_>| runs.iter().any(|run| it.objection(run).is_none());
        let choice = choices.into_iter().chain(without).find(is_any).unwrap_or(wanted);
        let mut passed_over = BTreeMap::new();
        let mut found = 0;
        for run in runs {
            match choice.objection(&run) {
                Some(why) => *passed_over.entry(why).or_default() += 1,
                None if found == back => {
                    let is_wanted = without[0].objection(&run).is_none();
                    let of = if run.kind == KINDS[0] { "fathom" } else { &*run.kind };
                    let words = || format!("{} {of} run", run.state.word());
                    let instead = (!is_wanted).then(words);
                    return Ok(RunNameFound { id: run.id, passed_over, instead });
                }
                None => found += 1,
            }
        }
        match self.no_such_run(name)? {
            StoreError::NoSuchRun { runs, empty, .. } if runs > empty => {
                let whole = if choice.is_whole && found > 0 { "complete " } else { "" };
                let of_kind = match choice.kind {
                    None => String::new(),
                    Some(kind) if kind == KINDS[0] => "fathom ".to_owned(),
                    Some(BATTERY) => String::new(),
                    Some(kind) => format!("{kind} "),
                };
                let of_host = host.map_or("", |_| " of the same host");
                let all = if choice.kind == Some(BATTERY) { " of all metrics" } else { "" };
                // Those without one were not counted.
                let number = passed_over.get(WITHOUT).map_or("", |_| " with a number");
                let kind = format!("{whole}{of_kind}run{all}{number}{of_host}");
                Err(StoreError::NoSuchLatest { name: name.to_owned(), found, kind })
            }
            empty => Err(empty),
        }
    }

    /// The runs, the last first, until more than `back` are wanted, or else all.
    fn candidates(
        &self,
        wanted: RunNameWanted<'_>,
        back: usize,
        host: Option<&str>,
    ) -> Result<Vec<Candidate>, StoreError> {
        let query = format!(
            "SELECT id, state, coalesce(host_id, host_name), pid, pid_start_ticks, boot_id,
                pid_namespace, procedure, {HAS_RECORDS}, {HAS_NUMBERS}, {IS_SELECTION}
             FROM run ORDER BY number DESC"
        );
        let candidate = |row: &dyn DatabaseRow| {
            let state = parse_word(text(row, 1)).unwrap_or(RunState::Interrupted);
            let procedure = optional(row, 7);
            let is = |column| Ok::<_, StoreError>(number(row, column)? != 0);
            Ok(Candidate {
                id: text(row, 0),
                state: current_state(state, &owner(row, 3, 6)?, self.database.is_shared()),
                is_battery: procedure.is_none() && !is(10)?,
                kind: kind(procedure.as_deref()).to_owned(),
                is_of_host: host.is_none_or(|host| host == text(row, 2)),
                has_records: is(8)?,
                has_numbers: is(9)?,
            })
        };
        let (mut runs, mut found) = (Vec::new(), 0);
        self.database.query(&query, &[], &mut |row| {
            let run = candidate(row)?;
            found += usize::from(wanted.objection(&run).is_none());
            runs.push(run);
            Ok(if found > back { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(runs)
    }

    /// The runs that a condition on `?1` selects, newest first.
    fn ids_where(&self, condition: &str, name: &str) -> Result<Vec<String>, StoreError> {
        let query = format!("SELECT id FROM run WHERE {condition} ORDER BY number DESC");
        self.database.rows(&query, values![name], |row| Ok(text(row, 0)))
    }

    /// The error for a name that no run has.
    pub(crate) fn no_such_run(&self, name: &str) -> Result<StoreError, StoreError> {
        let query = format!("SELECT count(*), count(*) FILTER (WHERE NOT {HAS_RECORDS}) FROM run");
        let count = |row: &dyn DatabaseRow, column| number(row, column).map(|it| it as u32);
        let counts =
            self.database.first(&query, &[], |row| Ok((count(row, 0)?, count(row, 1)?)))?;
        let (runs, empty) = counts.unwrap_or_default();
        Ok(StoreError::NoSuchRun { name: name.to_owned(), runs, empty })
    }
}
