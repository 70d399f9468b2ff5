//! What a coordinator does with its members: their documents are checked, stored and kept for the
//! judgement; progress is shown.

use std::collections::BTreeSet;

use fathom_analysis::fleet::FleetRuns;
use fathom_analysis::fleet::names::fold;
use fathom_analysis::typical;
use fathom_fleet::{CoordinatorAudience, Join, Joined, PlanCounts, Skew};
use fathom_record::{Document, Host, Record, RunState};

use super::engine::Engine;
use super::folding::folded;
use super::known_hosts::KnownHosts;
use crate::commands::documents;
use crate::commands::run_store::RunStore;
use crate::terminal::{self, PERCENT_BAR, TerminalOutput};

/// Lines on connections that did not become members, at most: anyone can open one.
const REFUSALS_MAX: usize = 10;

/// What sees each run.
type Seen<'r> = &'r dyn Fn(&Document);

pub(super) struct Gathering<'r> {
    engine: Engine,
    store: RunStore,
    hosts: KnownHosts,
    label: String,
    /// The command whose runs are delivered, if it is not `fathom run`.
    procedure: Option<&'static str>,
    seen: Seen<'r>,
    output: TerminalOutput,
    /// Names of those that were lost.
    lost: BTreeSet<String>,
    /// What the engine calls those that joined.
    nodes: BTreeSet<String>,
    /// The ids of what was delivered.
    ids: BTreeSet<String>,
    /// What of it is judged.
    pub(super) judged: FleetRuns,
    /// The shares of a load, which are merged.
    pub(super) shares: Vec<Document>,
    refusals: usize,
}

impl<'r> Gathering<'r> {
    pub(super) fn new(
        engine: Engine,
        store: RunStore,
        hosts: KnownHosts,
        label: String,
        (procedure, seen): (Option<&'static str>, Seen<'r>),
    ) -> Self {
        Self {
            engine,
            store,
            hosts,
            label,
            procedure,
            seen,
            output: TerminalOutput::new(),
            lost: BTreeSet::new(),
            nodes: BTreeSet::new(),
            ids: BTreeSet::new(),
            judged: FleetRuns::default(),
            shares: Vec::new(),
            refusals: 0,
        }
    }

    /// Ends what the engine has started. Returns those that never joined, and why.
    pub(super) fn end(&mut self) -> Vec<(String, String)> {
        self.output.clear_bar();
        self.engine.end(&self.nodes)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.store.has_failed()
    }

    fn warn(&mut self, text: &str) {
        self.output.clear_bar();
        terminal::warn(text);
    }

    /// Stores a document that was checked.
    fn keep(&mut self, mut document: Document) -> Result<(), String> {
        let id = &document.run.id;
        let known = || Err(format!("run {id} exists already"));
        if self.ids.contains(id) {
            return known();
        }
        let mut is_new = true;
        let warnings = self.store.write(|store| {
            is_new = store.import(&document)?;
            Ok(Vec::new())
        });
        if !is_new {
            return known();
        }
        warnings.iter().for_each(|warning| self.warn(warning));
        (self.seen)(&document);
        self.ids.insert(document.run.id.clone());
        typical::fill(&mut document);
        match self.procedure {
            None => self.judged.push(&document),
            Some(_) => self.shares.push(with_windows(document)),
        }
        Ok(())
    }
}

impl CoordinatorAudience for Gathering<'_> {
    fn examine(&mut self, join: &mut Join, is_local: bool) -> Result<(), String> {
        let warning = self.hosts.examine(join, is_local)?;
        warning.iter().for_each(|warning| self.warn(warning));
        Ok(())
    }

    fn joined(&mut self, member: &Joined) {
        self.nodes.extend(member.node.clone());
    }

    fn delivered(
        &mut self,
        member: &Joined,
        partner: Option<&Joined>,
        skew: Option<Skew>,
        document: &[u8],
    ) -> Result<(), String> {
        let mut document = checked((member, partner), document, self.procedure)?;
        document.run.label = Some(self.label.clone());
        document.run.notes.extend(skew.map(|skew| {
            format!(
                "started together with others, {:+.3} ms from the announced time (± {:.3} ms)",
                skew.ns / 1e6,
                skew.error_ns / 1e6
            )
        }));
        self.keep(document)
    }

    fn lost(&mut self, member: &Joined, reason: &str) {
        self.lost.insert(member.name.clone());
        self.warn(&format!("lost {}: {reason}", member.name));
    }

    fn refused(&mut self, reason: &str) {
        self.refusals += 1;
        match self.refusals {
            few if few < REFUSALS_MAX => self.warn(&format!("refused a connection: {reason}")),
            REFUSALS_MAX => self.warn("refused a connection; further ones are not shown"),
            _ => {}
        }
    }

    fn tick(&mut self, counts: &PlanCounts) -> usize {
        let failed = self.engine.tick(&self.nodes);
        for (hosts, reason) in folded(failed.iter().map(|(node, why)| (&node[..], &why[..]))) {
            self.warn(&format!("not joined: {hosts}: {reason}"));
        }
        if terminal::shows_progress() {
            self.output.progress(PERCENT_BAR, counts.done, &self.progress(counts));
        }
        self.engine.failures()
    }
}

impl Gathering<'_> {
    /// `12 of 40 joined, 8 measuring, 3 done, 1 lost: node7`.
    fn progress(&self, counts: &PlanCounts) -> String {
        let mut parts = vec![format!("{} of {} joined", counts.joined, self.engine.expected())];
        let mut add = |count: usize, what: &str, names: &BTreeSet<String>| {
            let names = fold(names.iter().map(String::as_str));
            let names = if names.is_empty() { names } else { format!(": {names}") };
            parts.extend((count > 0).then(|| format!("{count} {what}{names}")));
        };
        let nobody = BTreeSet::new();
        add(counts.measuring, "measuring", &nobody);
        let [round, rounds] = counts.round;
        // Of several rounds it is over for all at once.
        add(if rounds > 1 { 0 } else { counts.delivered }, "done", &nobody);
        add(counts.lost, "lost", &self.lost);
        parts.extend((rounds > 1).then(|| format!("step {round} of {rounds}")));
        parts.join(", ")
    }
}

/// A share of a load without what it is not merged by.
fn with_windows(mut share: Document) -> Document {
    let has_windows = |record: &Record| {
        let mut samples = record.samples.iter().flatten();
        samples.any(|sample| !sample.windows.is_empty())
    };
    share.records.retain(has_windows);
    share
}

/// The one run in these bytes, which must be of this member, and to its partner if it has one.
fn checked(
    (member, partner): (&Joined, Option<&Joined>),
    bytes: &[u8],
    procedure: Option<&str>,
) -> Result<Document, String> {
    let name = format!("the run of {}", member.name);
    let read = documents::read(bytes, &name).map_err(|error| error.to_string())?;
    let [mut document] = <[Document; 1]>::try_from(read)
        .map_err(|read| format!("it delivered {} runs, one is expected", read.len()))?;
    let key = |host: &Host| (host.name.clone(), host.identity().to_owned());
    let found = &document.host;
    if key(found) != key(&member.host) {
        return Err(format!("it delivered a run of another host, {}", found.name));
    }
    let far = document.far.iter().map(|far| key(&far.host));
    if far.collect::<Vec<_>>() != Vec::from_iter(partner.map(|partner| key(&partner.host))) {
        return Err("it delivered a run to another host than it was to measure to".to_owned());
    }
    if document.run.procedure.as_deref() != procedure {
        return Err("it delivered a run of another command".to_owned());
    }
    if document.run.state == RunState::Running {
        // It will never be completed here.
        document.run.state = RunState::Interrupted;
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use fathom_far::Token;
    use fathom_record::{FarHost, Host, Record};

    use super::*;
    use crate::arguments::StoreArguments;
    use crate::commands::fleet::engine::EngineSource;

    /// A run of a host.
    fn run(name: &str, id: &str) -> Document {
        let mut run = Document::fixture();
        (run.host.name, run.host.id) = (name.to_owned(), Some(format!("id of {name}")));
        run.run.id = id.to_owned();
        run.run.procedure = None;
        run.far.clear();
        run.records = run.records.into_iter().map(Record::sealed).collect();
        run
    }

    fn json(run: &Document) -> Vec<u8> {
        serde_json::to_vec(run).unwrap()
    }

    fn member(name: &str) -> Joined {
        let id = Some(format!("id of {name}"));
        let host = Host { name: name.to_owned(), id, ..Host::default() };
        Joined { name: name.to_owned(), node: None, rank: None, host }
    }

    fn gathering(folder: &std::path::Path) -> Gathering<'static> {
        let engine =
            Engine::new(EngineSource::ByHand(2), &Token::new("t"), "h:1".to_owned()).unwrap();
        let arguments = StoreArguments { store: Some(folder.join("s.db")), no_migrate: false };
        let store = RunStore::open(&arguments, &Host::default()).unwrap();
        Gathering::new(engine, store, KnownHosts::read(None), "group".to_owned(), (None, &|_| {}))
    }

    const ID: &str = "0123456789abcdef";

    #[test]
    fn run_is_stored_with_label_and_start() {
        let folder = tempfile::tempdir().unwrap();
        let mut gathering = gathering(folder.path());
        let skew = Skew { ns: -250_000.0, error_ns: 50_000.0 };
        gathering.delivered(&member("a"), None, Some(skew), &json(&run("a", ID))).unwrap();
        let store = gathering.store.store().unwrap();
        assert_eq!(store.labelled("group").unwrap(), [ID]);
        let stored = store.document(ID, true).unwrap();
        let note = "started together with others, -0.250 ms from the announced time (± 0.050 ms)";
        assert_eq!(stored.run.notes.last().unwrap(), note);
        assert!(stored.records.iter().any(|record| record.samples.is_some()));
        // No document is kept for the judgement.
        assert!(gathering.shares.is_empty() && !gathering.judged.is_empty());
    }

    #[test]
    fn what_is_no_run_of_the_member_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut gathering = gathering(folder.path());
        gathering.delivered(&member("a"), None, None, &json(&run("a", ID))).unwrap();
        let own = run("b", "b123456789abcdef");
        let two = [json(&own), json(&run("b", "c123456789abcdef"))].concat();
        let clone = Document { host: Host { id: None, ..own.host.clone() }, ..own.clone() };
        let mut damaged = own.clone();
        damaged.records[0].title.push('x');
        let mut of_load = own.clone();
        of_load.run.procedure = Some("load".to_owned());
        let mut id = own.clone();
        id.run.id = "../../etc/passwd".to_owned();
        for (document, why) in [
            (json(&run("a", "b123456789abcdef")), "it delivered a run of another host, a"),
            (json(&clone), "it delivered a run of another host, b"),
            (json(&run("b", ID)), "run 0123456789abcdef exists already"),
            (two, "it delivered 2 runs, one is expected"),
            (json(&damaged), "checksum mismatch"),
            (json(&of_load), "it delivered a run of another command"),
            (json(&id), "invalid run id"),
            (b"rubbish".to_vec(), "the run of b is not a run of"),
            (Vec::new(), "the run of b is empty"),
            (json(&to(own.clone(), "a")), "it delivered a run to another host than it was to"),
        ] {
            let refused = gathering.delivered(&member("b"), None, None, &document).unwrap_err();
            assert!(refused.contains(why), "{why}: {refused}");
        }
        let store = gathering.store.store().unwrap();
        assert_eq!(store.labelled("group").unwrap(), [ID], "nothing else is stored");
        assert_eq!(store.document(ID, false).unwrap().host.name, "a");
        gathering.delivered(&member("b"), None, None, &json(&own)).unwrap();
    }

    /// The run as one to another host.
    fn to(mut run: Document, name: &str) -> Document {
        let Joined { name, host, .. } = member(name);
        run.far = vec![FarHost { name, host, clock: None }];
        run
    }

    #[test]
    fn run_of_a_pair_is_to_its_partner() {
        let folder = tempfile::tempdir().unwrap();
        let mut gathering = gathering(folder.path());
        let own = run("a", ID);
        let mut clone = to(own.clone(), "b");
        clone.far[0].host.id = Some("another".to_owned());
        let mut two = to(own.clone(), "b");
        two.far.extend(to(own.clone(), "c").far);
        for wrong in [to(own.clone(), "c"), clone, two, own.clone()] {
            let delivered =
                gathering.delivered(&member("a"), Some(&member("b")), None, &json(&wrong));
            let why = "it delivered a run to another host than it was to measure to";
            assert_eq!(delivered, Err(why.to_owned()), "{:?}", wrong.far);
        }
        let right = json(&to(own, "b"));
        gathering.delivered(&member("a"), Some(&member("b")), None, &right).unwrap();
        let store = gathering.store.store().unwrap();
        assert_eq!(store.document(ID, false).unwrap().far[0].host.name, "b");
    }
}
